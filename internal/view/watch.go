package view

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"harborgate/internal/events"
	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/stats"
)

// watch is the reading side of a job page: what is on disk now, and later what is
// new. One command at a time uses it.
type watch struct {
	dir    *folder
	alive  func(dir string) bool
	events *events.Reader
	active map[string]active
	back   []string // trials that were put back since the last look
	ran    bool     // the job ran at the last look

	result   fs.FileInfo // of the job's result.json, as last read
	job      fs.FileInfo // of the job's directory, as last listed
	listedAt time.Time
}

// listPause is the least time between two listings of a job's directory.
const listPause = 2 * time.Second

// active is what a running trial does.
type active struct {
	phase string
	since time.Time
}

// news is what a look at a job brought.
type news struct {
	dir     *folder
	result  *trials.JobResult // nil when it did not change
	names   []string          // of trial directories; nil when they did not change
	active  map[string]active // running trials by name; nil when nothing runs
	back    []string          // trials whose earlier results are in force again
	running bool
	err     error
}

func newWatch(dir *folder, alive func(string) bool) *watch {
	return &watch{dir: dir, alive: alive, events: events.NewReader(filepath.Join(dir.path, results.EventsFile)), active: map[string]active{}}
}

// look reads what is new. Events of a job that ended are history and are not read.
func (w *watch) look(now time.Time) news {
	n := news{dir: w.dir, running: w.alive(w.dir.path)}
	n.result, n.err = w.readResult()
	if names, err := w.list(now); err != nil {
		n.err = errors.Join(n.err, err)
	} else {
		n.names = names
	}
	if n.running || w.ran { // its last events came after the last look
		n.err = errors.Join(n.err, w.follow())
		n.back, w.back = w.back, nil
	}
	if n.running {
		n.active = maps.Clone(w.active)
	}
	w.ran = n.running
	return n
}

// follow takes all events that there are.
func (w *watch) follow() error {
	for {
		found, err := w.events.Read()
		if err != nil || len(found) == 0 {
			return err
		}
		for _, e := range found {
			w.fold(e)
		}
	}
}

func (w *watch) fold(e trials.Event) {
	switch e.Type {
	case trials.EventJobStart: // whatever ran before, this process does not
		clear(w.active)
	case trials.EventStart:
		w.active[e.Trial] = active{"starting", e.Time}
	case trials.EventPhaseStart:
		var d struct{ Phase string }
		if x, ok := w.active[e.Trial]; ok && json.Unmarshal(e.Data, &d) == nil {
			w.active[e.Trial] = active{d.Phase, x.since}
		}
	case trials.EventEnd, trials.EventRetry:
		delete(w.active, e.Trial)
	case trials.EventPutBack:
		w.back = append(w.back, e.Trial)
	default:
	}
}

func (w *watch) readResult() (*trials.JobResult, error) {
	fi, err := w.dir.root.Lstat(results.ResultFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a job that was started a moment ago
	}
	if err != nil || same(fi, w.result) {
		return nil, err
	}
	r, err := readJob(w.dir)
	if err != nil {
		return nil, err
	}
	w.result = fi
	return &r, nil
}

func same(a, b fs.FileInfo) bool {
	return b != nil && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && os.SameFile(a, b)
}

// readJob reads a job's result when that is a regular file.
func readJob(dir *folder) (trials.JobResult, error) {
	f, _, err := dir.open(results.ResultFile)
	if err != nil {
		return trials.JobResult{}, err
	}
	defer f.Close()
	return results.ReadJobResult(dir.path)
}

// list names the trial directories, relative to the job's, when there may be others
// than before.
func (w *watch) list(now time.Time) ([]string, error) {
	fi, err := w.dir.root.Stat(".")
	if err != nil {
		return nil, err
	}
	if same(fi, w.job) || now.Sub(w.listedAt) < listPause {
		return nil, nil
	}
	dirs, err := results.TrialDirs(w.dir.path)
	if err != nil {
		return nil, err
	}
	w.job, w.listedAt = fi, now
	names := make([]string, len(dirs))
	for i, d := range dirs {
		names[i] = filepath.ToSlash(strings.TrimPrefix(d[len(w.dir.path):], string(filepath.Separator)))
	}
	return names, nil
}

// readPlan counts the trials that were planned, by arm; nil when nobody knows.
func readPlan(dir *folder) map[stats.Key]int {
	f, _, err := dir.open(results.LockFile)
	if err != nil {
		return nil // jobs of Harbor 0.5 have none, and new ones not yet
	}
	defer f.Close()
	lock, err := results.ReadJobLock(dir.path)
	if err != nil {
		return nil
	}
	planned := map[stats.Key]int{}
	for _, t := range lock.Trials {
		planned[stats.KeyOf(t.Agent, t.Task.Source)]++
	}
	return planned
}

// loaded are results of trials, by the names of their directories.
type loaded struct {
	dir    *folder
	trials []ended
	next   <-chan []ended // more of them; nil when these are all
}

// ended is a trial's directory with its result.
type ended struct {
	name  string
	trial stats.Trial
	err   error // why there is none: fs.ErrNotExist while it runs
}

const batch = 200 // results that are shown at once

// load reads results in the background, the first ones first, until ctx ends.
func load(ctx context.Context, dir *folder, names []string) tea.Cmd {
	if len(names) == 0 {
		return nil
	}
	return func() tea.Msg {
		out := make(chan []ended)
		go readAll(ctx, dir, names, out)
		return await(dir, out)()
	}
}

// await waits for the next batch.
func await(dir *folder, from <-chan []ended) tea.Cmd {
	return func() tea.Msg {
		got, open := <-from
		if !open {
			return loaded{dir: dir}
		}
		return loaded{dir: dir, trials: got, next: from}
	}
}

// readAll reads batch after batch, each with all processors.
func readAll(ctx context.Context, dir *folder, names []string, out chan<- []ended) {
	defer close(out)
	for len(names) > 0 {
		part := names[:min(batch, len(names))]
		names = names[len(part):]
		got := make([]ended, len(part))
		var wg sync.WaitGroup
		workers := runtime.GOMAXPROCS(0)
		for w := range workers {
			wg.Go(func() {
				for i := w; i < len(part) && ctx.Err() == nil; i += workers {
					got[i] = readEnded(dir, part[i])
				}
			})
		}
		wg.Wait()
		select {
		case out <- got:
		case <-ctx.Done():
			return
		}
	}
}

func readEnded(dir *folder, name string) ended {
	r, err := dir.result(name)
	if err != nil {
		return ended{name: name, err: err}
	}
	return ended{name: name, trial: stats.Of(r)}
}
