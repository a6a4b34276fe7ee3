package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"harborgate/tasks"
	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/runner"
	"harborgate/trials/stats"
)

// Regraded is a verdict before and after a job graded it again.
type Regraded struct {
	Task    string         `json:"task"`
	Trial   string         `json:"trial"`
	Source  string         `json:"source"` // the earlier trial
	Was     trials.Rewards `json:"was"`    // null when it had no verdict that counts
	Now     trials.Rewards `json:"now"`
	Changed bool           `json:"changed"`
}

// SourceJob describes a job for the configuration of one that grades it again.
func SourceJob(dir string) (trials.SourceJob, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return trials.SourceJob{}, err
	}
	r, err := results.ReadJobResult(dir)
	if err != nil {
		return trials.SourceJob{}, fmt.Errorf("%s is no job that could be graded again: %w", dir, err)
	}
	return trials.SourceJob{Action: actionRegrade, Type: sourceLocal, JobID: &r.ID, Path: &dir}, nil
}

// What a source may be.
const (
	actionRegrade = "regrade"
	sourceLocal   = "local"
)

// checkSources refuses sources that cannot be used.
func checkSources(sources []trials.SourceJob) error {
	for i, s := range sources {
		switch {
		case s.Action != actionRegrade && s.Action != actionDiff:
			return fmt.Errorf("source_jobs[%d].action %q is neither %s nor %s", i, s.Action, actionRegrade, actionDiff)
		case s.Type != sourceLocal || s.Path == nil:
			return fmt.Errorf("source_jobs[%d]: only jobs on this host can be used: give a path", i)
		}
	}
	return nil
}

// expandSources plans one trial for each of the earlier ones that has work to
// grade. found are today's tasks.
func (p *Plan) expandSources(configs []trials.TaskConfig, found map[string]*plannedTask) error {
	byName := map[string]trials.TaskConfig{}
	for _, c := range configs {
		byName[found[c.Reference()].Name] = c
	}
	var graded []trials.Graded
	uncovered := map[string]bool{}
	for _, s := range p.Config.SourceJobs {
		all, err := results.ReadTrials(*s.Path)
		if err != nil {
			return fmt.Errorf("read the job that is to be graded again: %w", err)
		}
		for _, f := range all {
			if !hasWork(f) {
				p.Passed = append(p.Passed, f.Name())
				continue
			}
			c, ok := byName[f.Result.TaskName]
			if !ok {
				uncovered[f.Result.TaskName] = true
				continue
			}
			graded = append(graded, gradedOf(f, c))
		}
	}
	if err := p.checkRegrade(uncovered, graded, found); err != nil {
		return err
	}
	planned, err := trials.ExpandGraded(p.Config, p.ID, graded, rand.Reader)
	if err != nil {
		return err
	}
	p.take(planned, found)
	return nil
}

// hasWork reports whether a trial left something that tests can look at.
func hasWork(f results.Found) bool {
	return f.Result != nil && (f.Result.ExceptionInfo == nil || f.Result.ExceptionInfo.Policy.ShouldGrade)
}

func gradedOf(f results.Found, task trials.TaskConfig) trials.Graded {
	dir, id := f.Dir, f.Result.ID
	return trials.Graded{
		Task: task, Agent: f.Result.Config.Agent, Attempt: max(1, attemptOf(f.Result)),
		Source: trials.SourceTrial{Action: actionRegrade, Type: sourceLocal, TrialID: &id, Path: &dir},
	}
}

// mostTasksNamed is how many tasks a message names.
const mostTasksNamed = 5

func (p *Plan) checkRegrade(uncovered map[string]bool, graded []trials.Graded, found map[string]*plannedTask) error {
	if len(uncovered) > 0 {
		return fmt.Errorf("no task is given for trials of %s: give the directories of all tasks of the job with -p", someNames(uncovered))
	}
	if len(graded) == 0 {
		return errors.New("the job has no trial whose work could be graded again")
	}
	shared := map[string]bool{}
	for _, g := range graded {
		if t := found[g.Task.Reference()]; t.VerifierMode(nil) != tasks.VerifierSeparate {
			shared[t.Name] = true
		}
	}
	if len(shared) > 0 {
		return fmt.Errorf("tasks whose tests need the agent's own sandbox cannot be graded again: %s: set verifier.environment_mode = \"separate\"", someNames(shared))
	}
	return nil
}

func someNames(set map[string]bool) string {
	names := slices.Sorted(maps.Keys(set))
	if n := len(names) - mostTasksNamed; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostTasksNamed], ", "), n)
	}
	return strings.Join(names, ", ")
}

// source is the earlier trial of one that grades it again, nil of any other.
func (p *PlannedTrial) source() (*runner.Source, error) {
	s := p.Config.SourceTrial
	if s == nil || s.Path == nil {
		return nil, nil
	}
	r, err := results.ReadTrialResult(*s.Path)
	if err != nil {
		return nil, fmt.Errorf("read the trial that is to be graded again: %w", err)
	}
	return &runner.Source{Dir: *s.Path, Result: r}, nil
}

// sourceLock is what the earlier trial ran.
func (p *PlannedTrial) sourceLock() *trials.SourceTrialLock {
	s := p.Config.SourceTrial
	if s == nil || s.Path == nil {
		return nil
	}
	out := &trials.SourceTrialLock{SourceTrial: *s}
	if l, err := results.ReadTrialLock(*s.Path); err == nil { // old versions of Harbor wrote none
		out.Task = l.Task
	}
	return out
}

// Regrades compares the verdicts of a job that grades earlier trials again with
// those that they had, in the order of the plan.
func (p *Plan) Regrades(now []stats.Trial) ([]Regraded, error) {
	byName := map[string]stats.Trial{}
	for _, t := range now {
		byName[t.Name] = t
	}
	var out []Regraded
	for i := range p.all {
		t := &p.all[i]
		if t.Config.SourceTrial == nil {
			continue
		}
		s, err := t.source()
		if err != nil {
			return nil, err
		}
		r := Regraded{
			Task: t.Task.Name, Trial: t.Name, Source: s.Result.TrialName,
			Was: verdictOf(stats.Of(s.Result)), Now: verdictOf(byName[t.Name]),
		}
		r.Changed = !sameRewards(r.Was, r.Now)
		out = append(out, r)
	}
	return out, nil
}

func verdictOf(t stats.Trial) trials.Rewards {
	if !t.Valid {
		return nil
	}
	return t.Rewards
}

func sameRewards(a, b trials.Rewards) bool {
	if (a == nil) != (b == nil) || len(a) != len(b) {
		return false
	}
	return !slices.ContainsFunc(a, func(r trials.Reward) bool {
		n, ok := b.Get(r.Key)
		return !ok || n.Value != r.Value.Value
	})
}
