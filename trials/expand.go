package trials

import (
	"fmt"
	"io"
	"path/filepath"
)

// A Planned trial is one of a job's, before it runs.
type Planned struct {
	Attempt int // from 1
	Name    string
	// Config has no name, because all attempts of a task and an arm share it: change
	// a copy.
	Config *TrialConfig
}

// Own is the trial's own configuration, with its name.
func (p Planned) Own() TrialConfig {
	c := *p.Config
	c.TrialName = p.Name
	return c
}

// Expand returns all trials of a job in Harbor's order: attempt, then task, then
// agent, so that agents vary fastest and their providers share the load evenly.
// tasks are the job's own and those of its data sets, in order. Names come from
// TaskConfig.Reference (so a path of "." should be made absolute before) and are
// unique within the job. random is their source.
func Expand(job JobConfig, jobID string, tasks []TaskConfig, random io.Reader) ([]Planned, error) {
	out := make([]Planned, 0, job.NAttempts*len(tasks)*len(job.Agents))
	taken := make(map[string]bool, cap(out))
	var shared []*TrialConfig // by task and arm
	for _, task := range tasks {
		for _, agent := range job.Agents {
			shared = append(shared, job.trial(jobID, task, agent))
		}
	}
	for attempt := 1; attempt <= job.NAttempts; attempt++ {
		for _, config := range shared {
			name, err := freeName(config.Task.Reference(), taken, random)
			if err != nil {
				return nil, err
			}
			out = append(out, Planned{Attempt: attempt, Name: name, Config: config})
		}
	}
	return out, nil
}

// Graded is an earlier trial that a job grades again, with the task of today.
type Graded struct {
	Task    TaskConfig
	Agent   AgentConfig
	Attempt int
	Source  SourceTrial
}

// ExpandGraded returns the trials of a job that grades earlier ones again: one for
// each, in their order.
func ExpandGraded(job JobConfig, jobID string, graded []Graded, random io.Reader) ([]Planned, error) {
	out := make([]Planned, 0, len(graded))
	taken := make(map[string]bool, len(graded))
	for _, g := range graded {
		name, err := freeName(g.Task.Reference(), taken, random)
		if err != nil {
			return nil, err
		}
		p := Planned{Attempt: g.Attempt, Name: name, Config: job.trial(jobID, g.Task, g.Agent)}
		p.Config.SourceTrial = &g.Source
		out = append(out, p)
	}
	return out, nil
}

// freeName draws until the name is new. 57^7 names make a second draw rare.
func freeName(reference string, taken map[string]bool, random io.Reader) (string, error) {
	for {
		name, err := TrialName(reference, random)
		if err != nil {
			return "", err
		}
		if !taken[name] {
			taken[name] = true
			return name, nil
		}
	}
}

func (c JobConfig) trial(jobID string, task TaskConfig, agent AgentConfig) *TrialConfig {
	t := &TrialConfig{
		SchemaVersion:         ConfigSchema,
		Task:                  task,
		TrialsDir:             filepath.ToSlash(filepath.Join(c.JobsDir, c.JobName)),
		InstallOnly:           c.InstallOnly,
		Multipliers:           c.Multipliers,
		Agent:                 agent,
		UserAgent:             c.UserAgent,
		Environment:           c.Environment,
		Verifier:              c.Verifier,
		OverrideErrorPolicy:   c.OverrideErrorPolicy,
		Artifacts:             c.Artifacts,
		ExtraInstructionPaths: c.ExtraInstructionPaths,
		ExtraInstructions:     c.ExtraInstructions,
	}
	if jobID != "" {
		t.JobID = &jobID
	}
	return t
}

// Reference is what the task is called in a configuration: its path, or the name
// of its package.
func (t TaskConfig) Reference() string {
	if p := deref(t.Path); p != "" {
		return p
	}
	return deref(t.Name)
}

func (t TaskConfig) String() string {
	s := t.Reference()
	if u := deref(t.GitURL); u != "" {
		return fmt.Sprintf("%s of %s", s, u)
	}
	return s
}
