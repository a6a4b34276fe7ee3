package trials

import (
	"cmp"
	"time"
)

// JobResult is a job's result.json.
type JobResult struct {
	SchemaVersion int        `json:"schema_version"`
	ID            string     `json:"id"`
	StartedAt     *LocalTime `json:"started_at"`
	UpdatedAt     *LocalTime `json:"updated_at"`
	FinishedAt    *LocalTime `json:"finished_at"` // null while running and when interrupted
	NTotalTrials  int        `json:"n_total_trials"`
	Stats         JobStats   `json:"stats"`
	Harborgate    *JobExtra  `json:"harborgate,omitempty"`
}

// JobStats are Harbor's numbers of a job. Every trial that has a result counts
// as completed, cancelled ones too.
type JobStats struct {
	Completed int `json:"n_completed_trials"`
	Errored   int `json:"n_errored_trials"`
	Running   int `json:"n_running_trials"`
	Pending   int `json:"n_pending_trials"`
	Cancelled int `json:"n_cancelled_trials"`
	Retries   int `json:"n_retries"`

	Evals map[string]*EvalStats `json:"evals"`

	Usage
}

// EvalStats are the numbers of one agent, model and data set.
type EvalStats struct {
	NTrials int                    `json:"n_trials"` // with a valid reward
	NErrors int                    `json:"n_errors"`
	Metrics List[map[string]Float] `json:"metrics"`
	PassAtK map[string]Float       `json:"pass_at_k"`
	// RewardStats are trial names by reward key and printed value.
	RewardStats    map[string]map[string][]string `json:"reward_stats"`
	ExceptionStats map[string][]string            `json:"exception_stats"`
}

// JobExtra is what we know beyond Harbor's document.
type JobExtra struct {
	Provider string        `json:"provider,omitempty"`
	Graded   int           `json:"graded"`
	Ungraded map[Blame]int `json:"ungraded,omitempty"` // finished without a verdict, by blame
	Unblamed int           `json:"unblamed,omitempty"` // finished without a verdict, on purpose: verification was off
	Suspect  int           `json:"suspect,omitempty"`
	// Mean of the main reward over tasks, for lists of jobs; nil without a verdict, and of
	// several arms.
	Mean          *float64 `json:"mean,omitempty"`
	InvalidTasks  []string `json:"invalid_tasks,omitempty"` // left out, with the reason
	CleanupFailed []string `json:"cleanup_failed,omitempty"`
	Interrupted   string   `json:"interrupted,omitempty"` // by what
	// Reused are the directories of trials of earlier jobs whose verdicts stand for this
	// one, which did not run them again.
	Reused []string `json:"reused,omitempty"`
	// SpentUSD is what the job's account at the auth proxy has come to: all tries, and
	// what was open when a process was killed. It is what budgets count.
	SpentUSD string `json:"spent_usd,omitempty"`
	// Budgets are those that were asked for.
	Budgets *Budgets `json:"budgets,omitempty"`
	// Notes are things about the job as a whole that changed no verdict.
	Notes []Note `json:"notes,omitempty"`
	// Sessions are the processes that worked on the job, in order.
	Sessions []Session `json:"sessions,omitempty"`
	// WorkDir is the directory from which relative paths of the configuration go.
	WorkDir string `json:"work_dir,omitempty"`
}

// Budgets are sums in US dollars, as text because they are exact; "" is none.
type Budgets struct {
	Job   string `json:"job_usd,omitempty"`
	Trial string `json:"trial_usd,omitempty"`
}

// Session is one process's work on a job. EndedAt moves on while it works, so of
// one that was killed it is the last sign of life.
type Session struct {
	StartedAt *LocalTime `json:"started_at"`
	EndedAt   *LocalTime `json:"ended_at"`
}

// Worked is how long processes worked on the job, the pauses between them left
// out. Of a file without sessions it is the time from start to end.
func (r JobResult) Worked() time.Duration {
	if r.Harborgate != nil && len(r.Harborgate.Sessions) > 0 {
		var sum time.Duration
		for _, s := range r.Harborgate.Sessions {
			sum += between(s.StartedAt, s.EndedAt)
		}
		return sum
	}
	return between(r.StartedAt, cmp.Or(r.FinishedAt, r.UpdatedAt))
}

func between(begin, end *LocalTime) time.Duration {
	if begin == nil || end == nil {
		return 0
	}
	return max(0, end.Sub(begin.Time))
}
