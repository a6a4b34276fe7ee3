package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	return Holder{PID: os.Getpid(), Start: processStart(os.Getpid()), BootID: bootID()}
}

// bootID is "" where the kernel does not say.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
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

// CreateJob makes and locks a job's directory. One that holds a job already is an
// *ExistsError, one that another process runs a *LockedError.
func CreateJob(dir string) (*Job, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make job directory: %w", err)
	}
	j, err := OpenJob(dir)
	if err != nil {
		return nil, err
	}
	if HoldsJob(j.Dir) {
		return nil, errors.Join(&ExistsError{Dir: j.Dir}, j.Close())
	}
	return j, nil
}

// OpenJob locks a directory that is there. One that another process runs is a
// *LockedError.
func OpenJob(dir string) (*Job, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	j := &Job{Dir: dir, lock: flock.New(filepath.Join(dir, jobLockFile), flock.SetFlag(os.O_CREATE|os.O_RDWR))}
	ok, err := j.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock job %s: %w", dir, err)
	}
	if !ok {
		return nil, &LockedError{Dir: dir, Holder: holderOf(dir)}
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

// HoldsJob reports whether a directory holds what a job begins with. A lock
// alone, of a process that died at once, is none.
func HoldsJob(dir string) bool {
	return slices.ContainsFunc([]string{ConfigFile, ResultFile, LockFile, EventsFile}, func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, name))
		return err == nil
	})
}

// Running returns the process that works on a job, as far as this host can tell:
// the lock names it, and it lives. It takes no lock, so it disturbs nobody.
func Running(dir string) (h Holder, ok bool) {
	h = holderOf(dir)
	return h, h.Alive()
}

// Alive reports whether the process that a lock names runs on this host. A number
// that the kernel gave to another process does not count.
func (h Holder) Alive() bool {
	return h.PID > 0 && h.Start != "" && h.BootID == bootID() && processStart(h.PID) == h.Start
}

// State is what becomes of a job.
type State string

// States of a job.
const (
	StateRunning     State = "running"
	StateFinished    State = "finished"
	StateInterrupted State = "interrupted" // neither: it can go on
)

// StateOf tells the state of a job with this result. holder is of a running one.
func StateOf(dir string, r trials.JobResult) (s State, holder Holder) {
	if h, ok := Running(dir); ok {
		return StateRunning, h
	}
	if r.FinishedAt != nil {
		return StateFinished, Holder{}
	}
	return StateInterrupted, Holder{}
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

// Close gives the job free. The lock names nobody from then on.
func (j *Job) Close() error {
	return errors.Join(os.Truncate(j.lock.Path(), 0), j.lock.Close())
}
