package app

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"

	"harborgate/trials"
	"harborgate/trials/results"
)

// actionDiff marks the source jobs of one that runs only what they do not have.
const actionDiff = "diff"

// Diff is what a wanted trial needs beside what earlier jobs have.
type Diff struct {
	Task    string            `json:"task"`
	Agent   string            `json:"agent"`
	Model   string            `json:"model,omitempty"`
	Attempt int               `json:"attempt"`
	Action  trials.DiffAction `json:"action"`
	Why     string            `json:"why"`
	Source  string            `json:"source,omitempty"` // directory of the earlier trial
}

// DiffSource describes a job for the configuration of one that is compared with it.
func DiffSource(dir string) (trials.SourceJob, error) {
	s, err := SourceJob(dir)
	s.Action = actionDiff
	return s, err
}

// isDiff reports whether the job runs only what its source jobs do not have.
func isDiff(sources []trials.SourceJob) bool {
	return len(sources) > 0 && sources[0].Action == actionDiff
}

// earlier is a trial of a source job.
type earlier struct {
	trials.DiffSource
	dir string
	id  string
}

// expandDiff plans what the source jobs leave to do of the trials that are wanted.
func (p *Plan) expandDiff(planned []trials.Planned, found map[string]*plannedTask) error {
	sources, err := diffSources(p.Config.SourceJobs)
	if err != nil {
		return err
	}
	targets := make([]trials.TrialLock, len(planned))
	for i, t := range planned {
		l, err := PlannedTrial{Planned: t, Task: found[t.Config.Task.Reference()]}.lock()
		if err != nil {
			return err
		}
		targets[i] = l.Redacted(os.LookupEnv)
	}
	plain := make([]trials.DiffSource, len(sources))
	for i, s := range sources {
		plain[i] = s.DiffSource
	}
	decisions, err := trials.Diff(targets, plain)
	if err != nil {
		return err
	}
	var todo []trials.Planned
	for i, d := range decisions {
		t := planned[i]
		row := Diff{Task: targets[i].Task.Name, Agent: t.Config.Agent.AgentName(), Attempt: t.Attempt, Action: d.Action, Why: d.Why}
		if m := t.Config.Agent.ModelName; m != nil {
			row.Model = *m
		}
		if d.Source >= 0 {
			row.Source = sources[d.Source].dir
		}
		if d.Action == trials.DiffRegrade {
			s := sources[d.Source]
			c := *t.Config
			t.Config = &c
			c.SourceTrial = &trials.SourceTrial{Action: actionRegrade, Type: sourceLocal, TrialID: &s.id, Path: &s.dir}
		}
		if d.Action != trials.DiffReuse {
			todo = append(todo, t)
		}
		p.Diff = append(p.Diff, row)
	}
	p.take(todo, found)
	return nil
}

// diffSources reads the trials of source jobs, and those whose verdicts these reused
// themselves. Those that have not ended are left out.
func diffSources(jobs []trials.SourceJob) ([]earlier, error) {
	var out []earlier
	for _, j := range jobs {
		all, err := results.ReadTrials(*j.Path)
		if err != nil {
			return nil, fmt.Errorf("read the job that is compared with: %w", err)
		}
		all = append(all, reusedBy(*j.Path)...)
		for _, f := range all {
			if f.Result == nil || !f.Result.Finished() {
				continue
			}
			lock, err := results.ReadTrialLock(f.Dir)
			if err != nil {
				return nil, fmt.Errorf("trial %s of job %s does not say what it ran, so that nothing can be compared with it: %w", f.Name(), *j.Path, err)
			}
			dir, err := filepath.Abs(f.Dir)
			if err != nil {
				return nil, err
			}
			out = append(out, earlier{trials.DiffSource{Name: f.Name(), Lock: lock, Usable: usable(f.Result, lock)}, dir, f.Result.ID})
		}
	}
	return out, nil
}

// reusedBy reads the trials that a job reused of earlier ones, as far as they are there.
func reusedBy(job string) []results.Found {
	r, err := results.ReadJobResult(job)
	if err != nil || r.Harborgate == nil {
		return nil
	}
	var out []results.Found
	for _, dir := range r.Harborgate.Reused {
		if t, err := results.ReadTrialResult(dir); err == nil {
			out = append(out, results.Found{Dir: dir, Result: t})
		}
	}
	return out
}

func usable(r *trials.Result, l trials.TrialLock) bool {
	return r.RewardValid || l.Verifier.Disable && r.ExceptionInfo == nil
}

// instructionLocks pin what is appended to instructions: files, then texts.
func instructionLocks(c trials.TrialConfig) ([]trials.FileLock, error) {
	var out []trials.FileLock
	for _, path := range c.ExtraInstructionPaths {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("extra instruction: %w", err)
		}
		out = append(out, trials.FileLock{Path: &path, Digest: digestOf(b)})
	}
	for _, text := range c.ExtraInstructions {
		out = append(out, trials.FileLock{Digest: digestOf([]byte(text))})
	}
	return out, nil
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
