package app

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"harborgate/providers/limit"
	"harborgate/scheduler"
	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/stats"
)

// tries runs the scheduler's assignments.
type tries struct{ *Job }

// Run executes one try and decides whether there is another. What the try left is
// put aside at once then: a trial that waits for its next try has no result of it.
func (j tries) Run(ctx context.Context, a scheduler.Assignment) scheduler.Outcome {
	t := &j.Plan.Trials[a.Trial]
	number := t.earlier + a.Try
	j.tally.tryStarted(t.Name, t.retries+a.Try-1-a.Moves)
	j.placed(t, a, number)
	begun := time.Now()
	has := &possession{}
	res := j.try(limit.Impatient(ctx), t, a, has.gone)
	out := j.next(ctx, t, a, res, begun)
	if j.sites[a.Site].bounded {
		out.Held = has
	}
	again := out.Retry || out.Move
	if again {
		if out.Move {
			if err := results.MarkMoved(j.trialDir(t), out.Why); err != nil {
				j.log.Warn("a try that does not count will count as failed when the job goes on", "trial", t.Name, "error", err)
			}
		}
		if _, err := results.Archive(j.trialDir(t)); err != nil {
			j.log.Warn("the failed try stays where it is until the next one begins", "trial", t.Name, "error", err)
		}
		data := map[string]any{"exception": res.ExceptionInfo.Type, "wait_ms": out.Pause.Milliseconds()}
		if out.Move {
			data["moved"], data["why"] = true, out.Why
		}
		j.Events.Emit(trials.NewEvent(trials.EventRetry, t.Name, t.Attempt, number, data))
	}
	j.tally.tryEnded(t.Name, j.inForce(t, res, again))
	return out
}

// possession implements scheduler.Possession: what a try has is gone when its runner says.
type possession struct {
	mu   sync.Mutex // guards what follows
	over bool
	free func()
}

func (p *possession) gone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	if p.free != nil {
		p.free()
	}
}

// OnFree implements scheduler.Possession.
func (p *possession) OnFree(free func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = free
	if p.over {
		free()
	}
}

// next says what follows a try: for its trial, and for the site where it ran.
func (j tries) next(ctx context.Context, t *PlannedTrial, a scheduler.Assignment, res *trials.Result, begun time.Time) scheduler.Outcome {
	if ctx.Err() != nil {
		return scheduler.Outcome{}
	}
	out := j.sites[a.Site].outage.judge(ctx, a, begun, res.Harborgate.Failure)
	if out.Move || res.ExceptionInfo == nil {
		return out
	}
	retry := scheduler.Retry(j.Plan.Config.Retry, t.Config.OverrideErrorPolicy, res.ExceptionInfo.Type, a.Try-a.Moves, rand.Float64())
	out.Retry, out.Pause = retry.Retry, retry.Pause
	return out
}

func (j *Job) trialDir(t *PlannedTrial) string { return filepath.Join(j.Dir, t.Name) }

// try runs one. gone is told when it has no sandbox any more.
func (j *Job) try(ctx context.Context, t *PlannedTrial, a scheduler.Assignment, gone func()) *trials.Result {
	sink, err := j.place(t, a)
	if err != nil {
		gone()
		return j.lost(t, a, err)
	}
	try := j.describe(t, a, sink)
	try.Gone = gone
	return j.sites[a.Site].runner.Run(ctx, try)
}

// place is the directory of a try.
func (j *Job) place(t *PlannedTrial, a scheduler.Assignment) (*results.Trial, error) {
	if err := j.files.Present(); err != nil { // a trial must not make it anew
		return nil, err
	}
	if err := t.stands.archive(j.trialDir(t)); err != nil {
		return nil, err
	}
	return results.NewTrial(j.trialDir(t), t.earlier+a.Try, results.DefaultLimits())
}

// archive takes the result out of force, now that the next try begins.
func (s *standing) archive(dir string) error {
	if s == nil {
		return nil
	}
	n, err := results.Archive(dir)
	if n > 0 {
		s.archived = n
	}
	return err
}

// inForce is the result that counts for a trial after a try: an earlier one when the
// try has no final result and that one comes back, or never went; else that of the try,
// or nil before the next one.
func (j *Job) inForce(t *PlannedTrial, res *trials.Result, again bool) *stats.Trial {
	s, dir := t.stands, j.trialDir(t)
	if s != nil && s.archived > 0 && s.comesBack && (again || !ended(dir, res)) {
		if err := results.PutBack(dir, s.archived); err == nil {
			s.archived = 0
			j.Events.Emit(trials.NewEvent(trials.EventPutBack, t.Name, t.Attempt, 0, nil))
		} else {
			j.log.Warn("the earlier result could not be put back", "trial", t.Name, "error", err)
		}
	}
	switch {
	case s != nil && s.archived == 0:
		return &s.Trial
	case again:
		return nil
	}
	now := stats.Of(res)
	return &now
}

// ended reports whether a try came to a result of its own that others can read.
func ended(dir string, res *trials.Result) bool {
	_, err := os.Stat(filepath.Join(dir, results.ResultFile))
	return err == nil && !res.Cancelled()
}

// noteStanding says how many trials that were to run again have the results that they
// had, and what runs them.
func (j *Job) noteStanding() {
	selected, begun, edited := 0, 0, 0
	for i := range j.Plan.Trials {
		t := &j.Plan.Trials[i]
		s := t.stands
		switch {
		case s == nil || s.archived > 0:
		case s.comesBack:
			selected++
			if n, err := results.Tries(j.trialDir(t)); err == nil && n > t.earlier {
				begun++
			}
		case !s.Cancelled:
			edited++
		}
	}
	name := j.Plan.Config.JobName
	if selected > 0 {
		cut := ""
		if begun > 0 {
			cut = fmt.Sprintf("; what %d of them had begun is kept under tries/", begun)
		}
		j.note("kept_earlier", fmt.Sprintf("%d of the trials that were to run again keep their earlier results%s: `harbor job resume %s%s` asks for them again",
			selected, cut, name, j.Plan.Past.redo.flags()))
	}
	if edited > 0 {
		j.note("kept_edited", fmt.Sprintf("%d of the trials of edited tasks still have the results of the earlier versions: `harbor job resume %s` runs them again", edited, name))
	}
}

// flags select the same finished trials again; cancelled ones are without.
func (r Redo) flags() string {
	var out strings.Builder
	for _, b := range r.Blames {
		out.WriteString(" --retry-failed " + string(b))
	}
	for _, name := range slices.DeleteFunc(slices.Clone(r.Exceptions), func(n string) bool { return n == trials.ExcCancelled }) {
		out.WriteString(" --retry-failed " + name)
	}
	return out.String()
}
