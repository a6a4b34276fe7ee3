package results

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/gofrs/flock"

	"harborgate/internal/atomicfile"
	"harborgate/trials"
)

// ExistsError says that a job directory is there already.
type ExistsError struct{ Dir string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("job directory %s exists already: choose another --job-name or --jobs-dir, or remove it", e.Dir)
}

// GoneError says that the directory of a job was removed, or replaced by another,
// while a process ran the job. What was in it does not come back.
type GoneError struct{ Dir string }

func (e *GoneError) Error() string {
	return fmt.Sprintf("the job's directory %s was removed while the job ran: run it again", e.Dir)
}

// Job is a job's directory, held by this process.
type Job struct {
	Dir  string // absolute
	lock *flock.Flock
	held os.FileInfo // of the lock's file, to know it by
}

// Present returns a *GoneError when the directory is not the one that was locked any
// more. Safe for concurrent use.
func (j *Job) Present() error {
	fi, err := os.Stat(j.lock.Path())
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(fi, j.held) {
		return &GoneError{Dir: j.Dir}
	}
	return err
}

// CreateJob makes and locks a job's directory. One that holds a job already is an
// *ExistsError, one that another process runs a *LockedError.
func CreateJob(dir string) (*Job, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make job directory: %w: choose one that can be written", err)
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
		return nil, fmt.Errorf("lock job %s: %w: make it writable, or copy it to where it is; `harbor job show` reads it as it stands", dir, err)
	}
	if !ok {
		return nil, &LockedError{Dir: dir, Holder: holderOf(dir)}
	}
	b, err := json.Marshal(Self())
	if err == nil {
		err = os.WriteFile(j.lock.Path(), b, 0o644)
	}
	if err == nil {
		j.held, err = os.Stat(j.lock.Path())
	}
	if err == nil {
		err = atomicfile.Clean(dir, ConfigFile, LockFile, ResultFile, RoomFile)
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

// WriteConfig writes config.json, secrets redacted.
func (j *Job) WriteConfig(c trials.JobConfig) error {
	b, err := trials.MarshalIndent(c.Redacted(os.LookupEnv))
	return j.write(ConfigFile, b, err)
}

// WriteLock writes lock.json: what the job has, and then its trials.
func (j *Job) WriteLock(head trials.JobLock, all iter.Seq2[trials.TrialLock, error]) error {
	return atomicfile.WriteFrom(filepath.Join(j.Dir, LockFile), 0o644, func(w io.Writer) error {
		buffered := bufio.NewWriter(w)
		err := trials.WriteJobLock(buffered, head, func(yield func(trials.TrialLock, error) bool) {
			for l, err := range all {
				if !yield(l.Redacted(os.LookupEnv), err) {
					return
				}
			}
		})
		return errors.Join(err, buffered.Flush())
	})
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
	if err := j.Present(); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(j.Dir, name), b, 0o644)
}

// Discard takes away a job of which no trial has begun, and its directory unless there
// is something else in it. Close is still needed.
func (j *Job) Discard() error {
	var errs []error
	for _, name := range []string{EventsFile, JobLogFile, LockFile, ResultFile, ConfigFile, jobLockFile} {
		if err := os.Remove(filepath.Join(j.Dir, name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	_ = os.Remove(j.Dir) // one that is not empty stays
	return errors.Join(errs...)
}

// Close gives the job free. The lock names nobody from then on. Twice is fine.
func (j *Job) Close() error {
	if !j.lock.Locked() { // it may be another process's by now
		return nil
	}
	if gone := (*GoneError)(nil); errors.As(j.Present(), &gone) { // nobody reads the lock
		return j.lock.Close()
	}
	return errors.Join(os.Truncate(j.lock.Path(), 0), j.lock.Close())
}
