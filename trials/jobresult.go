package trials

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
	Provider      string        `json:"provider,omitempty"`
	Graded        int           `json:"graded"`
	Ungraded      map[Blame]int `json:"ungraded,omitempty"` // finished without a verdict, by blame
	Suspect       int           `json:"suspect,omitempty"`
	InvalidTasks  []string      `json:"invalid_tasks,omitempty"` // left out, with the reason
	CleanupFailed []string      `json:"cleanup_failed,omitempty"`
	Interrupted   string        `json:"interrupted,omitempty"` // by what
}
