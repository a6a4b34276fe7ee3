package app

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"

	"golang.org/x/sync/errgroup"

	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/stats"
)

// match gives the trials that are on disk their slots in a plan. A slot is a task,
// an arm and an attempt; names of trials are random and say nothing.
type match struct {
	plan   *Plan
	redo   Redo
	lookup func(string) (string, bool)

	free  map[slot][]int // slots of the plan, some of them taken
	taken []bool
	met   int // trials on disk that found one
	arms  map[string]string
}

// slot is what a trial is for. Zero members fit any.
type slot struct {
	kind    string // task and arm
	task    string // the task's full reference, to tell apart those of one name
	attempt int
}

func newMatch(p *Plan, redo Redo, lookup func(string) (string, bool)) *match {
	return &match{
		plan: p, redo: redo, lookup: lookup, free: map[slot][]int{}, taken: make([]bool, len(p.all)), arms: map[string]string{},
	}
}

// place is a trial on disk, with what it is for.
type place struct {
	results.Found
	slot
	index  int  // of its slot in the plan, -1 for none
	edited bool // its task is another one now
}

// run takes out of the plan what is done.
func (m *match) run(found []results.Found) error {
	for i, t := range m.plan.all {
		s, err := m.slotOf(t.Config.Task, t.Config.Agent, t.Attempt)
		if err != nil {
			return err
		}
		for _, k := range s.looser() {
			m.free[k] = append(m.free[k], i)
		}
	}
	finished, cut, err := m.places(found)
	if err != nil {
		return err
	}
	m.give(finished)
	m.give(cut) // a verdict goes before what was cut off
	again, err := m.again(finished)
	if err != nil {
		return err
	}
	return m.settle(append(again, cut...))
}

// looser are the keys under which a slot is found, the best first.
func (s slot) looser() []slot {
	return []slot{s, {s.kind, "", s.attempt}, {s.kind, s.task, 0}, {kind: s.kind}}
}

func (m *match) slotOf(task trials.TaskConfig, agent trials.AgentConfig, attempt int) (slot, error) {
	arm, err := agent.Redacted(m.lookup).Arm()
	if err != nil {
		return slot{}, err
	}
	source := ""
	if task.Source != nil {
		source = *task.Source
	}
	ref := filepath.ToSlash(filepath.Clean(task.Reference()))
	return slot{kind: source + "\x00" + path.Base(ref) + "\x00" + arm, task: ref, attempt: attempt}, nil
}

// places tells trials with a result from those without. Directories of trials
// that had not begun are remembered for removal.
func (m *match) places(found []results.Found) (finished, cut []place, err error) {
	for _, f := range found {
		if f.CopyOf != "" {
			m.plan.Past.Copies = append(m.plan.Past.Copies, f.Name())
			continue
		}
		if f.Result != nil {
			s, err := m.slotOf(f.Result.Config.Task, f.Result.Config.Agent, attemptOf(f.Result))
			if err != nil {
				return nil, nil, err
			}
			finished = append(finished, place{Found: f, slot: s, index: -1})
			continue
		}
		if errors.Is(f.Err, fs.ErrPermission) {
			return nil, nil, fmt.Errorf("trial %s: %w", f.Name(), f.Err)
		}
		cfg, attempt, err := configOf(f.Dir)
		if err != nil {
			if errors.Is(f.Err, fs.ErrNotExist) && trialName.MatchString(f.Name()) {
				m.plan.Past.empty = append(m.plan.Past.empty, f.Dir)
			}
			continue
		}
		s, err := m.slotOf(cfg.Task, cfg.Agent, attempt)
		if err != nil {
			return nil, nil, err
		}
		cut = append(cut, place{Found: f, slot: s, index: -1})
	}
	return finished, cut, nil
}

var trialName = regexp.MustCompile(`__[2-9A-Za-z]{7}$`)

// attemptOf is 0 for files of Harbor, which does not number attempts.
func attemptOf(r *trials.Result) int {
	if r.Harborgate == nil {
		return 0
	}
	return r.Harborgate.Attempt
}

// configOf reads the configuration of a trial without result: its own, or that of
// its last try when another had not begun.
func configOf(dir string) (cfg trials.TrialConfig, attempt int, err error) {
	n, err := results.Tries(dir)
	if err != nil {
		return cfg, 0, err
	}
	cfg, err = results.ReadTrialConfig(dir)
	for ; n > 0; n-- {
		try := filepath.Join(dir, results.TriesDir, strconv.Itoa(n))
		if err != nil {
			cfg, err = results.ReadTrialConfig(try)
		}
		if r, rerr := results.ReadTrialResult(try); rerr == nil {
			return cfg, attemptOf(r), err
		}
	}
	return cfg, 0, err
}

// give finds slots: exact ones for all before looser ones for any.
func (m *match) give(places []place) {
	for level := range len(slot{}.looser()) {
		for i := range places {
			if p := &places[i]; p.index < 0 {
				p.index = m.take(p.looser()[level])
			}
		}
	}
	for _, p := range places {
		if p.index >= 0 {
			m.met++
		}
	}
}

func (m *match) take(s slot) int {
	queue := m.free[s]
	for len(queue) > 0 && m.taken[queue[0]] {
		queue = queue[1:]
	}
	m.free[s] = queue
	if len(queue) == 0 {
		return -1
	}
	m.taken[queue[0]] = true
	return queue[0]
}

// again keeps finished trials whose verdicts stand, and returns the others.
func (m *match) again(finished []place) ([]place, error) {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0)) // reading tasks takes its time, each once
	for i := range finished {
		if p := &finished[i]; p.index >= 0 {
			g.Go(func() (err error) {
				p.edited, err = m.plan.all[p.index].edited(p.Found)
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	past := m.plan.Past
	var out []place
	for _, p := range finished {
		t := stats.Of(p.Result)
		switch {
		case p.index >= 0 && (p.edited || m.redo.wants(t)):
			out = append(out, p)
			continue
		case p.index < 0:
			past.Left = append(past.Left, p.Name())
		default:
			m.plan.all[p.index].Planned.Name = p.Name()
		}
		past.Kept = append(past.Kept, t)
	}
	return out, nil
}

// settle makes the plan's trials: those that run once more, under their names, and
// those that never did.
func (m *match) settle(again []place) error {
	p := m.plan
	todo := map[int]PlannedTrial{}
	for _, x := range again {
		if x.index < 0 {
			continue // nobody asks for it any more, and it has no verdict to keep
		}
		t := p.all[x.index]
		t.Planned.Name = x.Name()
		var err error
		if t.earlier, t.retries, err = m.history(x); err != nil {
			return err
		}
		if x.Result != nil {
			t.stands = &standing{Trial: stats.Of(x.Result), comesBack: !x.edited && !x.Result.Cancelled()}
		}
		p.all[x.index], todo[x.index] = t, t
		p.Past.Again = append(p.Past.Again, Again{Trial: x.Name(), Task: t.Task.Name, Why: m.why(x, t), Err: x.Err})
	}
	p.Trials = nil
	for i, t := range p.all {
		if _, ok := todo[i]; ok || !m.taken[i] {
			p.Trials = append(p.Trials, t)
		}
	}
	return nil
}

func (m *match) why(p place, t PlannedTrial) Reason {
	switch {
	case errors.Is(p.Err, fs.ErrNotExist):
		return CutOff
	case p.Result == nil:
		return Unreadable
	case m.redo.wants(stats.Of(p.Result)):
		return Selected
	}
	return Edited
}

// history is the highest number of the tries that a trial had, the one included that
// is in its directory now, and how many of them failed by themselves.
func (m *match) history(p place) (tries, failed int, err error) {
	if tries, err = results.Tries(p.Dir); err != nil {
		return 0, 0, err
	}
	if failed, err = results.Failed(p.Dir); err != nil {
		return 0, 0, err
	}
	begun, err := results.Begun(p.Dir)
	r := p.Result
	switch {
	case begun && r != nil && r.Harborgate != nil && r.Harborgate.Try > 0: // later ones may have been cut off
		tries = max(tries, r.Harborgate.Try)
	case begun:
		tries++
	}
	if r != nil && r.ExceptionInfo != nil && !r.Cancelled() {
		failed++
	}
	return tries, failed, err
}

// edited reports whether the task is another one, as far as verdicts go, than when
// the trial ran. A trial that does not say keeps its verdict.
func (p PlannedTrial) edited(f results.Found) (bool, error) {
	r := f.Result
	if x := r.Harborgate; x != nil && x.TaskDigest != "" {
		now, err := p.digest()
		return err == nil && now != x.TaskDigest, err
	}
	if r.TaskChecksum == "" {
		return false, nil
	}
	sum, err := p.Task.checksum()
	if err != nil || sum == r.TaskChecksum {
		return false, err
	}
	lock, err := results.ReadTrialLock(f.Dir)
	if err != nil {
		return true, nil //nolint:nilerr // without a lock the checksum is all there is
	}
	content, err := p.Task.content()
	return err == nil && lock.Task.Digest != "sha256:"+content, err
}
