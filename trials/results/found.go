package results

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"harborgate/trials"
)

// Found is a trial's directory as it stands on disk.
type Found struct {
	Dir string
	// Result is nil when there is none, or none that can be read; Err says why:
	// fs.ErrNotExist when the trial runs, waits or was cut off.
	Result *trials.Result
	Err    error
	// CopyOf is the directory of the trial that this one is a copy of; it has no Result
	// then, since a trial has one verdict.
	CopyOf string
}

// Name is the trial's.
func (f Found) Name() string { return filepath.Base(f.Dir) }

// ReadTrials reads the trials of a job, in order of their names. Results are
// brief, because there may be thousands: of the configuration they have the task,
// the agent and the name alone, and they lack steps, notes and rollouts.
func ReadTrials(job string) ([]Found, error) {
	return readAll(job, func() parser { return newBrief().parse })
}

// ReadWholeTrials is ReadTrials with all that results hold.
func ReadWholeTrials(job string) ([]Found, error) {
	return readAll(job, func() parser { return ParseTrialResult })
}

// parser reads the content of a result.json; name is for errors. It keeps nothing
// of the content.
type parser func(content []byte, name string) (*trials.Result, error)

// readAll reads with several goroutines, each with a parser of its own.
func readAll(job string, newParser func() parser) ([]Found, error) {
	names, err := candidates(job)
	if err != nil {
		return nil, err
	}
	out := make([]Found, len(names))
	var g errgroup.Group
	workers := min(2*runtime.GOMAXPROCS(0), len(names))
	for w := range workers {
		g.Go(func() error {
			parse, buffer := newParser(), make([]byte, 0, 64<<10)
			for i := w; i < len(names); i += workers {
				out[i], buffer = find(filepath.Join(job, names[i]), parse, buffer)
			}
			return nil
		})
	}
	_ = g.Wait() // errors are in out
	out = slices.DeleteFunc(out, func(f Found) bool { return f.Dir == "" })
	slices.SortFunc(out, func(a, b Found) int { return cmp.Compare(a.Name(), b.Name()) })
	setCopiesApart(out)
	return out, nil
}

// setCopiesApart takes the results of copied directories away. Of directories whose
// results name the same trial, the one of that name is the trial, or else the first.
// A directory that was only renamed stays a trial.
func setCopiesApart(all []Found) {
	trial := map[string]int{}
	for i, f := range all {
		if f.Result == nil {
			continue
		}
		if _, met := trial[f.Result.TrialName]; !met || f.Name() == f.Result.TrialName {
			trial[f.Result.TrialName] = i
		}
	}
	for i := range all {
		f := &all[i]
		if f.Result == nil || trial[f.Result.TrialName] == i {
			continue
		}
		f.CopyOf = all[trial[f.Result.TrialName]].Dir
		f.Result, f.Err = nil, fmt.Errorf("%s is a copy of trial %s and is not counted: remove it", f.Dir, filepath.Base(f.CopyOf))
	}
}

// oldTrialsDir is where old versions of Harbor had trials.
const oldTrialsDir = "trials"

func candidates(job string) ([]string, error) {
	names, err := subdirs(job)
	if err != nil {
		return nil, err
	}
	i := slices.Index(names, oldTrialsDir)
	if i < 0 || isTrial(filepath.Join(job, oldTrialsDir)) {
		return names, nil
	}
	old, err := subdirs(filepath.Join(job, oldTrialsDir))
	names = slices.Delete(names, i, i+1)
	for _, n := range old {
		names = append(names, filepath.Join(oldTrialsDir, n))
	}
	return names, err
}

func subdirs(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// find returns the zero Found for a directory that is no trial's. It reads into
// the buffer and returns it, larger when it had to be.
func find(dir string, parse parser, buffer []byte) (Found, []byte) {
	name := filepath.Join(dir, ResultFile)
	b, err := readInto(buffer[:0], name)
	var r *trials.Result
	if err == nil {
		r, err = parse(b, name)
	}
	if errors.Is(err, fs.ErrNotExist) && !isTrial(dir) {
		return Found{}, b
	}
	return Found{Dir: dir, Result: r, Err: err}, b
}

// readInto is os.ReadFile with half the calls and no new memory: a job has
// thousands of small files.
func readInto(b []byte, name string) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return b, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	for {
		b = slices.Grow(b, 4<<10)
		n, err := unix.Read(fd, b[len(b):cap(b)])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return b, &fs.PathError{Op: "read", Path: name, Err: err}
		case n == 0:
			return b, nil
		default:
			b = b[:len(b)+n]
		}
	}
}

// isTrial reports whether a directory has what every trial begins with.
func isTrial(dir string) bool {
	return slices.ContainsFunc([]string{ConfigFile, LockFile, TrialLogFile, TriesDir}, func(f string) bool {
		_, err := os.Lstat(filepath.Join(dir, f))
		return err == nil
	})
}
