package app

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"harborgate/tasks"
	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/stats"
)

// writePause is the least time between two writes of a running job's result.
const writePause = time.Second

// tally keeps a job's numbers and its result.json. Safe for concurrent use.
type tally struct {
	job     *results.Job
	cfg     trials.JobConfig
	hasMean bool // there is one arm, which has a mean

	mu      sync.Mutex // guards all below
	res     trials.JobResult
	trials  []stats.Trial   // in the order in which they ended
	at      map[string]int  // where a trial is among them, by name
	hidden  map[string]bool // of trials, those that run once more: their results do not count
	failed  map[string]int  // tries that failed, of trials without a result that counts
	running int
	extra   trials.JobExtra

	dirty chan struct{} // holds one when there is something to write
	stop  chan struct{}
	end   func() // closes stop, once
	ended sync.WaitGroup
}

func newTally(job *results.Job, plan *Plan, provider string) *tally {
	now := trials.LocalAt(time.Now())
	t := &tally{
		job: job, cfg: plan.Config, hasMean: len(plan.byKey()) <= 1, at: map[string]int{}, hidden: map[string]bool{}, failed: map[string]int{},
		res: trials.JobResult{
			SchemaVersion: trials.ResultSchema, ID: plan.ID, StartedAt: now, NTotalTrials: plan.Total(),
		},
		extra: trials.JobExtra{Provider: provider, Sessions: []trials.Session{{StartedAt: now}}},
		dirty: make(chan struct{}, 1), stop: make(chan struct{}),
	}
	t.end = sync.OnceFunc(func() { close(t.stop) })
	for _, f := range plan.Invalid {
		t.extra.InvalidTasks = append(t.extra.InvalidTasks, f.Path)
	}
	if wd, err := os.Getwd(); err == nil {
		t.extra.WorkDir = wd
	}
	if plan.Past != nil {
		t.goOn(plan)
	}
	t.noteIgnored(plan.Warnings)
	t.noteReused(plan.Diff)
	return t
}

// ignoredCodes are warnings about settings of tasks that nobody follows.
var ignoredCodes = []string{"unknown-key", "newer-version", "network-conflict"}

// noteIgnored puts settings that were dropped into the result: a score that moves because
// of them must not do so unseen.
func (t *tally) noteIgnored(warnings tasks.Problems) {
	for _, p := range warnings {
		n := trials.Note{Code: p.Code, Message: p.String()}
		if slices.Contains(ignoredCodes, p.Code) && !slices.Contains(t.extra.Notes, n) {
			t.extra.Notes = append(t.extra.Notes, n)
		}
	}
}

// noteReused says which verdicts that were asked for stand in earlier jobs: the numbers of
// this one are without them.
func (t *tally) noteReused(wanted []Diff) {
	perJob := map[string][]string{}
	for _, d := range wanted {
		if d.Action == trials.DiffReuse {
			t.extra.Reused = append(t.extra.Reused, d.Source)
			job := filepath.Dir(d.Source)
			perJob[job] = append(perJob[job], filepath.Base(d.Source))
		}
	}
	for _, job := range slices.Sorted(maps.Keys(perJob)) {
		names := perJob[job]
		t.extra.Notes = append(t.extra.Notes, trials.Note{Code: "reused", Message: fmt.Sprintf(
			"%d of %d verdicts stand in job %s, and are not in these numbers: %s",
			len(names), len(wanted), filepath.Base(job), strings.Join(names, ", "))})
	}
}

// goOn takes over the numbers of earlier processes.
func (t *tally) goOn(plan *Plan) {
	for _, x := range plan.Past.Kept {
		t.put(x)
	}
	for i := range plan.Trials {
		switch x := &plan.Trials[i]; {
		case x.stands != nil:
			t.put(x.stands.Trial)
		case x.retries > 0:
			t.failed[x.Name] = x.retries
		}
	}
	r := plan.Past.Result
	if x := r.Harborgate; x != nil {
		t.extra.SpentUSD = x.SpentUSD
	}
	if r.StartedAt == nil {
		return
	}
	t.res.StartedAt = r.StartedAt
	earlier := []trials.Session{{StartedAt: r.StartedAt, EndedAt: cmp.Or(r.FinishedAt, r.UpdatedAt)}}
	if x := r.Harborgate; x != nil && len(x.Sessions) > 0 {
		earlier = x.Sessions
	}
	t.extra.Sessions = append(slices.Clip(earlier), t.extra.Sessions...)
}

// start writes the first result and keeps the file up to date until finish.
func (t *tally) start() error {
	if err := t.write(nil); err != nil {
		return err
	}
	t.ended.Go(func() {
		for {
			select {
			case <-t.dirty:
			case <-t.stop:
				return
			}
			_ = t.write(nil) // the last write tells whether it can be done
			select {
			case <-time.After(writePause):
			case <-t.stop:
				return
			}
		}
	})
	return nil
}

func (t *tally) changed() {
	select {
	case t.dirty <- struct{}{}:
	default:
	}
}

// tryStarted takes a trial, and how many of its tries failed before this one. An earlier
// result of it does not count any more.
func (t *tally) tryStarted(trial string, failed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running++
	if failed > 0 {
		t.failed[trial] = failed
	}
	if _, seen := t.at[trial]; seen {
		t.hidden[trial] = true
	}
	t.changed()
}

// tryEnded takes what counts for a trial from now on; nil is nothing before its next try.
func (t *tally) tryEnded(trial string, now *stats.Trial) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running--
	if now == nil {
		t.failed[trial]++
	} else {
		t.put(*now)
	}
	t.changed()
}

func (t *tally) note(code, message string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.extra.Notes = append(t.extra.Notes, trials.Note{Code: code, Message: message})
	t.changed()
}

// spent keeps what the auth proxy says that the job has come to; "" is not known.
func (t *tally) spent(usd string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if usd != "" {
		t.extra.SpentUSD = usd
	}
}

func (t *tally) cleanupFailed(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.extra.CleanupFailed = append(t.extra.CleanupFailed, what)
	t.changed()
}

// write puts the current numbers into result.json.
func (t *tally) write(finished *time.Time) error {
	return t.job.WriteResult(t.snapshot(finished))
}

func (t *tally) snapshot(finished *time.Time) trials.JobResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.counting()
	r := t.res
	r.Stats = stats.Harbor(all, t.cfg.Metrics)
	r.Stats.Running = t.running
	for _, n := range t.failed {
		r.Stats.Retries += n
	}
	r.Stats.Pending = r.NTotalTrials - r.Stats.Completed - t.running
	r.UpdatedAt = trials.LocalAt(time.Now())
	if finished != nil {
		r.FinishedAt, r.UpdatedAt = trials.LocalAt(*finished), trials.LocalAt(*finished)
	}
	extra := t.extra
	extra.Sessions = slices.Clone(t.extra.Sessions)
	extra.Sessions[len(extra.Sessions)-1].EndedAt = r.UpdatedAt
	extra.Ungraded = map[trials.Blame]int{}
	if t.hasMean {
		extra.Mean = stats.Mean(all)
	}
	for _, x := range all {
		r.Stats.Retries += x.Tries - 1
		switch {
		case x.Valid:
			extra.Graded++
		case x.Cancelled:
		case x.Blame == trials.BlameNone:
			extra.Unblamed++
		default:
			extra.Ungraded[x.Blame]++
		}
		if x.Suspect {
			extra.Suspect++
		}
	}
	r.Harborgate = &extra
	return r
}

// counting are the trials whose results count now.
func (t *tally) counting() []stats.Trial {
	if len(t.hidden) == 0 {
		return t.trials
	}
	out := make([]stats.Trial, 0, len(t.trials))
	for i := range t.trials {
		if !t.hidden[t.trials[i].Name] {
			out = append(out, t.trials[i])
		}
	}
	return out
}

// put keeps what became of a trial, in the place of what it was before.
func (t *tally) put(x stats.Trial) {
	delete(t.hidden, x.Name)
	delete(t.failed, x.Name)
	i, seen := t.at[x.Name]
	if !seen {
		t.at[x.Name] = len(t.trials)
		t.trials = append(t.trials, x)
		return
	}
	t.trials[i] = x
}

// all is for when no trial runs any more.
func (t *tally) all() []stats.Trial { return t.trials }

// close ends the writing. Twice is fine.
func (t *tally) close() {
	t.end()
	t.ended.Wait()
}

// finish writes the last result. interrupted is "" when the job came to its end.
func (t *tally) finish(interrupted string) (trials.JobResult, error) {
	t.close()
	t.mu.Lock()
	t.extra.Interrupted = interrupted
	t.mu.Unlock()
	var finished *time.Time
	if interrupted == "" {
		now := time.Now()
		finished = &now
	}
	r := t.snapshot(finished)
	return r, t.job.WriteResult(r)
}
