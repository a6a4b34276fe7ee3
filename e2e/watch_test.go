package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"harborgate/trials"
	"harborgate/trials/results"
)

// watcher reads a job all the time, as another process may, and remembers what
// does not add up.
type watcher struct {
	dir  string
	stop chan struct{}
	done sync.WaitGroup

	mu    sync.Mutex // guards what follows
	seen  int        // different states
	last  string
	wrong []error
}

// watchPause is how long the watcher looks away.
const watchPause = 5 * time.Millisecond

func watchJob(dir string) *watcher {
	w := &watcher{dir: dir, stop: make(chan struct{})}
	w.done.Go(func() {
		tick := time.NewTicker(watchPause)
		defer tick.Stop()
		for {
			w.look()
			select {
			case <-tick.C:
			case <-w.stop:
				w.look()
				return
			}
		}
	})
	return w
}

// end stops watching, and says how much was seen and what was wrong.
func (w *watcher) end() (int, error) {
	close(w.stop)
	w.done.Wait()
	return w.seen, errors.Join(w.wrong...)
}

func (w *watcher) look() {
	b, err := os.ReadFile(filepath.Join(w.dir, results.ResultFile))
	if errors.Is(err, fs.ErrNotExist) || err == nil && string(b) == w.last {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen, w.last = w.seen+1, string(b)
	var r trials.JobResult
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err == nil {
		err = addsUp(r)
	}
	if err != nil && len(w.wrong) < 5 {
		w.wrong = append(w.wrong, fmt.Errorf("%w\n%s", err, b))
	}
}

// addsUp holds that every planned trial is counted once.
func addsUp(r trials.JobResult) error {
	s, x := r.Stats, r.Harborgate
	if x == nil {
		return errors.New("nothing of ours in it")
	}
	if s.Pending < 0 || s.Running < 0 || s.Completed+s.Running+s.Pending != r.NTotalTrials {
		return fmt.Errorf("%d completed, %d running and %d pending are not %d", s.Completed, s.Running, s.Pending, r.NTotalTrials)
	}
	sum := x.Graded + x.Unblamed + s.Cancelled
	for _, n := range x.Ungraded {
		sum += n
	}
	if sum != s.Completed {
		return fmt.Errorf("%d graded, %d without blame, %v ungraded and %d cancelled are not %d", x.Graded, x.Unblamed, x.Ungraded, s.Cancelled, s.Completed)
	}
	return nil
}

// infrastructureIsNotScored holds that no trial of a job has a reward that counts
// beside a failure that is nobody's work.
func infrastructureIsNotScored(job string) error {
	dirs, err := results.TrialDirs(job)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		r, err := results.ReadTrialResult(d)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		f := r.Harborgate.Failure
		if f == nil {
			continue
		}
		if f.Message == "" && f.Cause != trials.CauseCancelled {
			return fmt.Errorf("%s does not say what happened", d)
		}
		if r.RewardValid && (f.Blame == trials.BlameInfrastructure || f.Blame == trials.BlameHarness) {
			return fmt.Errorf("%s is scored beside: %w", d, f)
		}
	}
	return nil
}

type watchersKey struct{}

// watchers are those of a scenario, by job.
type watchers map[string]*watcher

// watch starts to read a job all the time; unwatch ends that and fails if the
// numbers did not add up at any moment, or infrastructure was scored.
func watch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: watch JOB")
	}
	all := ts.Value(watchersKey{}).(watchers)
	dir := ts.MkAbs(args[0])
	w := watchJob(dir)
	all[dir] = w
	ts.Defer(func() {
		if all[dir] == w {
			delete(all, dir)
			_, _ = w.end()
		}
	})
}

func unwatch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: unwatch JOB")
	}
	all := ts.Value(watchersKey{}).(watchers)
	dir := ts.MkAbs(args[0])
	w := all[dir]
	if w == nil {
		ts.Fatalf("%s is not watched", args[0])
	}
	delete(all, dir)
	seen, err := w.end()
	ts.Check(err)
	ts.Check(infrastructureIsNotScored(dir))
	if seen < 2 {
		ts.Fatalf("%d states of %s were seen", seen, args[0])
	}
}
