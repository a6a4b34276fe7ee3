// Package stats computes the numbers that a job shows, from finished trials. It
// does no I/O; every table, report and page calls it and nothing else.
package stats

import (
	"slices"
	"strings"
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
	Reason    string         // the start of its message, on one line
	Blame     trials.Blame
	Cancelled bool
	Installed bool // environment and agent were set up, and no more was asked for
	Suspect   bool
	Doubts    []string // why it is suspect: the codes of its suspicions
	Tries     int      // the last one and those that failed before it

	Usage    trials.Usage // as the auth proxy counted it; else what the agent claims
	Partial  bool         // there was more than Usage
	Unpriced int64        // requests of the agent's to models without a price
	Phases   PhaseTimes
	Duration time.Duration
	Waited   time.Duration // for a slot
	Snapshot time.Duration // for images
	Queued   time.Duration // before it began, for whatever

	// Settings are for comparing arms; Of leaves them out, SettingsOf has them.
	Settings []Setting
}

// PhaseTimes is how long each phase took, in the order of trials.Phases. Zero is a
// phase that there was not. It is no map because a job keeps many.
type PhaseTimes [7]time.Duration

// Of returns how long a phase took, and whether there was one.
func (t PhaseTimes) Of(p trials.Phase) (d time.Duration, ok bool) {
	d = t[slices.Index(trials.Phases(), p)]
	return d, d > 0
}

// Set says how long a phase took.
func (t *PhaseTimes) Set(p trials.Phase, d time.Duration) {
	t[slices.Index(trials.Phases(), p)] = max(d, 0)
}

// Adhoc is the data set of tasks that were named themselves.
const Adhoc = "adhoc"

// Of takes from a result what the numbers need.
func Of(r *trials.Result) Trial {
	t := Trial{
		Name: r.TrialName, Task: r.TaskName, Agent: r.AgentInfo.Name, Dataset: Adhoc, Attempt: 1, Tries: 1,
		Valid: r.RewardValid, Cancelled: r.Cancelled(), Installed: r.Installed(),
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
		t.Exception, t.Reason = r.ExceptionInfo.Type, reasonOf(r.ExceptionInfo.Message)
	}
	if r.AgentResult != nil {
		t.Usage = r.AgentResult.Usage
	}
	for p, timing := range map[trials.Phase]*trials.Timing{
		trials.PhaseEnvironmentSetup: r.EnvironmentSetup, trials.PhaseAgentSetup: r.AgentSetup,
		trials.PhaseAgentExecution: r.AgentExecution, trials.PhaseVerifier: r.Verifier,
	} {
		t.Phases.Set(p, timing.Duration())
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
		t.Usage, t.Unpriced, t.Partial = m.Usage(), m.Unpriced, m.Partial
	}
}

// mostReason is how many bytes of a message are kept: of many trials, in memory.
const mostReason = 160

// reasonOf is the first line of a message, or as much of it as is kept. It is a copy:
// messages may be long.
func reasonOf(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	if line = strings.TrimSpace(line); len(line) > mostReason {
		line = strings.ToValidUTF8(line[:mostReason-len("…")], "") + "…"
	}
	return strings.Clone(line)
}

// Eval is the key under which Harbor's files group trials.
func (t Trial) Eval() string {
	if t.Model == "" {
		return t.Agent + "__" + t.Dataset
	}
	return t.Agent + "__" + t.Model + "__" + t.Dataset
}
