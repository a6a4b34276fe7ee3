package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"

	"harborgate/internal/atomicfile"
	"harborgate/trials"
)

// jobLockFile is held by the one process that writes a job.
const jobLockFile = ".lock"

// Holder says who holds a job.
type Holder struct {
	PID    int    `json:"pid"`
	Start  string `json:"start"` // of the process, in the kernel's clock ticks
	BootID string `json:"boot_id"`
}

// Self describes this process.
func Self() Holder {
	h := Holder{PID: os.Getpid(), Start: processStart(os.Getpid())}
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		h.BootID = strings.TrimSpace(string(b))
	}
	return h
}

// processStart is "" where the kernel does not say.
func processStart(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name in parentheses may hold anything; what follows it does not.
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	if f := strings.Fields(rest); len(f) > 19 {
		return f[19]
	}
	return ""
}

// LockedError says that another process writes a job.
type LockedError struct {
	Dir    string
	Holder Holder
}

func (e *LockedError) Error() string {
	if e.Holder.PID == 0 { // it is about to write its name
		return fmt.Sprintf("job %s is being run by another process: wait for it", e.Dir)
	}
	return fmt.Sprintf("job %s is being run by process %d: wait for it, or stop it with `kill -INT %d`", e.Dir, e.Holder.PID, e.Holder.PID)
}

// ExistsError says that a job directory is there already.
type ExistsError struct{ Dir string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("job directory %s exists already: choose another --job-name or --jobs-dir, or remove it", e.Dir)
}

// Job is a job's directory, held by this process.
type Job struct {
	Dir  string // absolute
	lock *flock.Flock
}

// CreateJob makes and locks a job's directory. One that has a result already is
// an *ExistsError, one that another process runs a *LockedError.
func CreateJob(dir string) (*Job, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make job directory: %w", err)
	}
	j := &Job{Dir: dir, lock: flock.New(filepath.Join(dir, jobLockFile), flock.SetFlag(os.O_CREATE|os.O_RDWR))}
	ok, err := j.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock job %s: %w", dir, err)
	}
	if !ok {
		return nil, &LockedError{Dir: dir, Holder: holderOf(dir)}
	}
	if _, err := os.Stat(filepath.Join(dir, ConfigFile)); !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, j.Close(), &ExistsError{Dir: dir})
	}
	b, err := json.Marshal(Self())
	if err == nil {
		err = os.WriteFile(j.lock.Path(), b, 0o644)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock job %s: %w", dir, err), j.Close())
	}
	return j, nil
}

func holderOf(dir string) (h Holder) {
	b, err := os.ReadFile(filepath.Join(dir, jobLockFile))
	if err == nil {
		_ = json.Unmarshal(b, &h) // a half-written lock has no known holder
	}
	return h
}

// WriteConfig writes config.json, secrets redacted.
func (j *Job) WriteConfig(c trials.JobConfig) error {
	b, err := trials.MarshalIndent(c.Redacted(os.LookupEnv))
	return j.write(ConfigFile, b, err)
}

// WriteLock writes lock.json.
func (j *Job) WriteLock(l trials.JobLock) error {
	shown := l
	shown.Trials = make(trials.List[trials.TrialLock], len(l.Trials))
	for i, t := range l.Trials {
		shown.Trials[i] = t.Redacted(os.LookupEnv)
	}
	b, err := trials.MarshalLock(shown)
	return j.write(LockFile, b, err)
}

// WriteResult writes result.json.
func (j *Job) WriteResult(r trials.JobResult) error {
	b, err := trials.MarshalIndent(r)
	return j.write(ResultFile, b, err)
}

func (j *Job) write(name string, b []byte, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return atomicfile.Write(filepath.Join(j.Dir, name), b, 0o644)
}

// Close gives the job free.
func (j *Job) Close() error { return j.lock.Close() }
