// Package stats computes the numbers that a job shows, from finished trials. It
// does no I/O; every table, report and page calls it and nothing else.
package stats

import (
	"time"

	"harborgate/trials"
)

// Trial is what the numbers need to know of one trial.
type Trial struct {
	Name    string
	Task    string
	Row     Key // as configured
	Agent   string
	Model   string // "" when the agent has none, or could not be made
	Dataset string // "adhoc" for tasks that were named themselves
	Attempt int

	Rewards   trials.Rewards // nil when there is no verdict
	Valid     bool           // the verdict counts
	Exception string         // "" when nothing went wrong
	Blame     trials.Blame
	Cancelled bool
	Suspect   bool
	Doubts    []string // why it is suspect: the codes of its suspicions
	Tries     int      // the last one and those that failed before it

	Usage    trials.Usage // as the auth proxy counted it; else what the agent claims
	Phases   map[trials.Phase]time.Duration
	Duration time.Duration
	Waited   time.Duration // for a slot
	Snapshot time.Duration // for images
	Queued   time.Duration // before it began, for whatever

	// Settings are for comparing arms; Of leaves them out, SettingsOf has them.
	Settings []Setting
}

// Adhoc is the data set of tasks that were named themselves.
const Adhoc = "adhoc"

// Of takes from a result what the numbers need.
func Of(r *trials.Result) Trial {
	t := Trial{
		Name: r.TrialName, Task: r.TaskName, Agent: r.AgentInfo.Name, Dataset: Adhoc, Attempt: 1, Tries: 1,
		Valid: r.RewardValid, Cancelled: r.Cancelled(), Phases: map[trials.Phase]time.Duration{},
	}
	if m := r.AgentInfo.ModelInfo; m != nil {
		t.Model = m.Name
	}
	if r.Source != nil && *r.Source != "" {
		t.Dataset = *r.Source
	}
	t.Row = KeyOf(r.Config.Agent, r.Source)
	if t.Row.Agent == "" { // a file without its configuration
		t.Row = Key{Agent: t.Agent, Model: t.Model, Dataset: t.Dataset}
	}
	if r.VerifierResult != nil {
		t.Rewards = r.VerifierResult.Rewards
	}
	if r.ExceptionInfo != nil {
		t.Exception = r.ExceptionInfo.Type
	}
	if r.AgentResult != nil {
		t.Usage = r.AgentResult.Usage
	}
	for p, timing := range map[trials.Phase]*trials.Timing{
		trials.PhaseEnvironmentSetup: r.EnvironmentSetup, trials.PhaseAgentSetup: r.AgentSetup,
		trials.PhaseAgentExecution: r.AgentExecution, trials.PhaseVerifier: r.Verifier,
	} {
		if d := timing.Duration(); d > 0 {
			t.Phases[p] = d
		}
	}
	t.Duration = (&trials.Timing{StartedAt: r.StartedAt, FinishedAt: r.FinishedAt}).Duration()
	switch {
	case r.Harborgate != nil:
		t.extra(r.Harborgate)
	case t.Exception != "":
		t.Blame = trials.BlameOf(t.Exception) // Harbor blames nobody
	}
	return t
}

// extra takes what Harbor's own files do not have.
func (t *Trial) extra(x *trials.Extra) {
	t.Attempt, t.Tries, t.Suspect = max(x.Attempt, 1), x.Retries+1, len(x.Suspect) > 0
	t.Waited = time.Duration(x.WaitSec * float64(time.Second))
	t.Snapshot = time.Duration(x.SnapshotSec * float64(time.Second))
	t.Queued = t.Waited + time.Duration(x.SnapshotQueueSec*float64(time.Second))
	for _, d := range x.Suspect {
		t.Doubts = append(t.Doubts, d.Code)
	}
	if x.Failure != nil {
		t.Blame = x.Failure.Blame
	}
	if m, ok := x.Metered[trials.PhaseAgentExecution]; ok {
		t.Usage = m.Usage()
	}
}

// Eval is the key under which Harbor's files group trials.
func (t Trial) Eval() string {
	if t.Model == "" {
		return t.Agent + "__" + t.Dataset
	}
	return t.Agent + "__" + t.Model + "__" + t.Dataset
}
