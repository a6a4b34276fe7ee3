package results

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// CheckJob says why a directory is no job's, nil when it is one. Links are none,
// wherever they lead, and nor is a trial.
func CheckJob(dir string) error {
	fi, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case fi.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s is a link: name what it leads to", dir)
	case !fi.IsDir():
		return fmt.Errorf("%s is no directory", dir)
	}
	_, err = ReadJobResult(dir)
	if errors.Is(err, fs.ErrNotExist) { // killed before its first result
		var probe struct {
			JobName *string `json:"job_name"`
		}
		var b []byte
		if b, err = os.ReadFile(filepath.Join(dir, ConfigFile)); err == nil {
			err = decode(b, &probe, filepath.Join(dir, ConfigFile))
		}
		if err == nil && probe.JobName == nil {
			err = errors.New("its config.json is no job's")
		}
	}
	if err != nil {
		return fmt.Errorf("%s is no job directory: %w", dir, err)
	}
	return nil
}

// ForeignError names what of a job this process may not remove.
type ForeignError struct{ Paths []string }

// mostForeign is how many of them the message has.
const mostForeign = 5

func (e *ForeignError) Error() string {
	shown := strings.Join(e.Paths[:min(len(e.Paths), mostForeign)], ", ")
	if n := len(e.Paths) - mostForeign; n > 0 {
		shown += fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("other users' directories cannot be emptied: %s: remove them as that user", shown)
}

// Delete removes the directory of the job that j holds, and nothing outside of it:
// links are removed, not followed. When something in it cannot be removed, a
// *ForeignError says so and all of it stays. j is closed in the end.
func (j *Job) Delete() error {
	err := j.delete()
	if err == nil { // the lock is gone with its directory
		return j.lock.Close()
	}
	return errors.Join(err, j.Close())
}

func (j *Job) delete() error {
	if err := CheckJob(j.Dir); err != nil {
		return err
	}
	if err := foreign(j.Dir); err != nil {
		return err
	}
	entries, err := os.ReadDir(j.Dir)
	if err != nil {
		return err
	}
	// What makes it a job goes last: cut off, it is one that can be deleted again.
	for _, last := range []bool{false, true} {
		for _, e := range entries {
			if slices.Contains([]string{ResultFile, ConfigFile, jobLockFile}, e.Name()) != last {
				continue
			}
			if err := os.RemoveAll(filepath.Join(j.Dir, e.Name())); err != nil {
				return fmt.Errorf("delete job %s: %w", j.Dir, err)
			}
		}
	}
	if err := os.Remove(j.Dir); err != nil {
		return fmt.Errorf("delete job %s: %w", j.Dir, err)
	}
	return nil
}

// foreign finds directories that this process may not empty.
func foreign(dir string) error {
	var paths []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
		if err == nil && (!d.IsDir() || unix.Access(p, unix.W_OK|unix.X_OK) == nil) {
			return nil
		}
		paths = append(paths, p+owner(p))
		return fs.SkipDir
	})
	if err != nil {
		return fmt.Errorf("look through job %s: %w", dir, err)
	}
	if len(paths) > 0 {
		return &ForeignError{Paths: paths}
	}
	return nil
}

// owner names the user of a path by number, as the rest of a sentence.
func owner(p string) string {
	fi, err := os.Lstat(p)
	if err != nil {
		return ""
	}
	if s, ok := fi.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf(" (of user %d)", s.Uid)
	}
	return ""
}
