package trials

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// ResultSchema is the schema_version of job and trial results.
const ResultSchema = 1

// Time is a moment as trial files show it: UTC, six digits, no fraction when
// it is zero.
type Time struct{ time.Time }

// At makes a Time of t, cut to microseconds.
func At(t time.Time) *Time { return &Time{t.UTC().Truncate(time.Microsecond)} }

const (
	timeLayout  = "2006-01-02T15:04:05.000000Z"
	localLayout = "2006-01-02T15:04:05.000000"
)

// MarshalJSON writes the time in UTC with a Z.
func (t Time) MarshalJSON() ([]byte, error) {
	return json.Marshal(formatTime(t.UTC(), timeLayout, "2006-01-02T15:04:05Z"))
}

// UnmarshalJSON reads RFC 3339, and the naive form as UTC.
func (t *Time) UnmarshalJSON(b []byte) error { return parseTime(b, &t.Time, time.UTC) }

// LocalTime is a moment as job files show it: local, without a zone.
type LocalTime struct{ time.Time }

// LocalAt makes a LocalTime of t, cut to microseconds.
func LocalAt(t time.Time) *LocalTime { return &LocalTime{t.Local().Truncate(time.Microsecond)} }

// MarshalJSON writes the local time without a zone.
func (t LocalTime) MarshalJSON() ([]byte, error) {
	return json.Marshal(formatTime(t.Local(), localLayout, "2006-01-02T15:04:05"))
}

// UnmarshalJSON reads the naive form as local time, and RFC 3339.
func (t *LocalTime) UnmarshalJSON(b []byte) error { return parseTime(b, &t.Time, time.Local) }

func formatTime(t time.Time, layout, whole string) string {
	if t.Nanosecond()/1000 == 0 {
		return t.Format(whole)
	}
	return t.Format(layout)
}

func parseTime(b []byte, into *time.Time, naive *time.Location) error {
	var s string
	if len(b) > 1 && b[0] == '"' && !bytes.Contains(b, []byte(`\`)) {
		s = string(b[1 : len(b)-1]) // as nearly all are, and lists read a dozen for each trial
	} else if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		*into = t
		return nil
	}
	t, err := time.ParseInLocation("2006-01-02T15:04:05.999999999", s, naive)
	if err != nil {
		return fmt.Errorf("time %q is in no known form", s)
	}
	*into = t
	return nil
}

// Timing is when a phase began and ended.
type Timing struct {
	StartedAt  *Time `json:"started_at"`
	FinishedAt *Time `json:"finished_at"`
}

// Duration is zero when either end is not known.
func (t *Timing) Duration() time.Duration {
	if t == nil || t.StartedAt == nil || t.FinishedAt == nil {
		return 0
	}
	return t.FinishedAt.Sub(t.StartedAt.Time)
}

// TaskID says where a task came from: {path}, {git_url, git_commit_id, path} or
// {org, name, ref}.
type TaskID struct {
	GitURL      string `json:"git_url,omitempty"`
	GitCommitID string `json:"git_commit_id,omitempty"`
	Path        string `json:"path,omitempty"`
	Org         string `json:"org,omitempty"`
	Name        string `json:"name,omitempty"`
	Ref         string `json:"ref,omitempty"`
}

// ModelInfo names a model; Provider is null when the name had no provider part.
type ModelInfo struct {
	Name     string  `json:"name"`
	Provider *string `json:"provider"`
}

// AgentInfo is which agent ran.
type AgentInfo struct {
	Name      string     `json:"name"`
	Version   string     `json:"version"`
	ModelInfo *ModelInfo `json:"model_info"`
}

// Usage is what one model was used for. Input includes cached tokens.
type Usage struct {
	InputTokens  *int64   `json:"n_input_tokens"`
	CacheTokens  *int64   `json:"n_cache_tokens"`
	OutputTokens *int64   `json:"n_output_tokens"`
	CostUSD      *float64 `json:"cost_usd"`
}

// AgentResult is what the agent itself reported. All fields null is "nothing".
type AgentResult struct {
	Usage
	ModelUsage     map[string]Usage `json:"model_usage"`
	RolloutDetails json.RawMessage  `json:"rollout_details"`
	Metadata       map[string]any   `json:"metadata"`
}

// VerifierResult holds the rewards.
type VerifierResult struct {
	Rewards Rewards `json:"rewards"`
}

// ExceptionInfo is a failure in Harbor's words.
type ExceptionInfo struct {
	Type           string               `json:"exception_type"`
	Message        string               `json:"exception_message"`
	Traceback      string               `json:"exception_traceback"`
	OccurredAt     *Time                `json:"occurred_at"`
	PolicyOverride *ErrorPolicyOverride `json:"policy_override,omitempty"`
	Policy         *ErrorPolicy         `json:"policy,omitempty"` // absent in files of Harbor 0.5
}

// Result is a trial's result.json: Harbor's keys in Harbor's order, and one of
// ours at the end. A reward that is not known is null, never 0.
type Result struct {
	SchemaVersion           int             `json:"schema_version"`
	ID                      string          `json:"id"`
	TaskName                string          `json:"task_name"`
	TrialName               string          `json:"trial_name"`
	TrialURI                string          `json:"trial_uri"`
	TaskID                  TaskID          `json:"task_id"`
	Source                  *string         `json:"source"`
	TaskChecksum            string          `json:"task_checksum"`
	Config                  TrialConfig     `json:"config"`
	AgentInfo               AgentInfo       `json:"agent_info"`
	AgentResult             *AgentResult    `json:"agent_result"`
	VerifierResult          *VerifierResult `json:"verifier_result"`
	VerifierEnvironmentMode *string         `json:"verifier_environment_mode"`
	ExceptionInfo           *ExceptionInfo  `json:"exception_info"`
	StartedAt               *Time           `json:"started_at"`
	FinishedAt              *Time           `json:"finished_at"`
	EnvironmentSetup        *Timing         `json:"environment_setup"`
	AgentSetup              *Timing         `json:"agent_setup"`
	AgentExecution          *Timing         `json:"agent_execution"`
	Verifier                *Timing         `json:"verifier"`
	StepResults             json.RawMessage `json:"step_results"`
	RewardValid             bool            `json:"reward_valid"`
	Harborgate              *Extra          `json:"harborgate,omitempty"`
}

// Extra is what we know beyond Harbor's document.
type Extra struct {
	Provider string `json:"provider,omitempty"`
	Attempt  int    `json:"attempt"` // 1 is the first of -k
	Try      int    `json:"try"`     // 1 is the first execution
	// Retries are the earlier tries that failed; those that were cut off or
	// cancelled are none.
	Retries int      `json:"retries,omitempty"`
	Failure *Failure `json:"failure,omitempty"`
	// Notes are things that happened and changed no verdict ("oom_killed",
	// "cleanup_failed", "output truncated").
	Notes []Note `json:"notes,omitempty"`
	// Suspect says why the verdict may not be the agent's doing.
	Suspect []Suspicion `json:"suspect,omitempty"`
	// Timeouts are the effective limits in seconds, with their origin.
	Timeouts map[string]Limit `json:"timeouts,omitempty"`
	// AgentExit is how the last command of the agent ended.
	AgentExit *Exit `json:"agent_exit,omitempty"`
	// VerifierExit is the exit code of the test script.
	VerifierExit *int `json:"verifier_exit_code,omitempty"`
	// Metered is what the auth proxy counted, by phase; AgentResult is what the agent
	// claims.
	Metered map[Phase]Metered `json:"metered,omitempty"`
	// Extras are entries of reward.json that are no numbers.
	Extras map[string]json.RawMessage `json:"reward_extras,omitempty"`
	// WaitSec is how long the trial waited for a slot, SnapshotSec for images, and
	// SnapshotQueueSec how much of that had passed when it began.
	WaitSec          float64 `json:"wait_sec,omitempty"`
	SnapshotSec      float64 `json:"snapshot_sec,omitempty"`
	SnapshotQueueSec float64 `json:"snapshot_queue_sec,omitempty"`
	// TaskDigest is of all of the task that can change the verdict: a trial is run
	// again when its task has another one by then.
	TaskDigest string `json:"task_digest,omitempty"`
}

// Metered is what came of a phase's requests to models. Tokens are those that the
// upstreams reported, and estimates where an answer broke off.
type Metered struct {
	Grant    string `json:"grant"`    // its public id, as in the audit
	Requests int64  `json:"requests"` // all of them
	Refused  int64  `json:"refused"`  // by the proxy
	Failed   int64  `json:"failed"`   // by the upstream
	Tokens
	CostUSD  *float64      `json:"cost_usd"`           // null when a request had no price
	Unpriced int64         `json:"unpriced,omitempty"` // requests without one
	Guessed  int64         `json:"guessed,omitempty"`  // requests whose tokens are an estimate
	WaitSec  float64       `json:"wait_sec,omitempty"` // for limits, summed over requests
	Partial  bool          `json:"partial,omitempty"`  // the proxy was killed meanwhile, or is gone: there was more
	Models   []MeteredPart `json:"models,omitempty"`   // by the model that answered
}

// Usage puts what was metered into Harbor's words. Of a proxy that could not be asked,
// nothing is known.
func (m Metered) Usage() Usage {
	if m.Partial && m.Requests == 0 {
		return Usage{}
	}
	in := m.Input + m.CacheRead + m.CacheWrite
	return Usage{InputTokens: &in, CacheTokens: &m.CacheRead, OutputTokens: &m.Output, CostUSD: m.CostUSD}
}

// MeteredPart is the part of one model.
type MeteredPart struct {
	Model    string `json:"model"`
	Requests int64  `json:"requests"`
	Tokens
	CostUSD *float64 `json:"cost_usd"`
}

// Tokens are counted by class; no class holds another but for Reasoning, a part of
// Output.
type Tokens struct {
	Input      int64 `json:"input_tokens"` // neither read from a cache nor written to one
	CacheRead  int64 `json:"cache_read_tokens"`
	CacheWrite int64 `json:"cache_write_tokens"`
	Output     int64 `json:"output_tokens"`
	Reasoning  int64 `json:"reasoning_tokens,omitempty"`
}

// Exit is how a command ended. Its parts are observed one by one: none is guessed
// from the code, which a program may choose as it likes.
type Exit struct {
	Code      int  `json:"exit_code"`        // 128 and the signal's number when a signal ended it
	Signal    int  `json:"signal,omitempty"` // 0 when it exited by itself
	TimedOut  bool `json:"timed_out,omitempty"`
	OOMKilled bool `json:"oom_killed,omitempty"` // the kernel took a process of it for memory
}

// Limit is an effective time limit.
type Limit struct {
	Seconds float64 `json:"seconds"` // 0 is none
	Origin  string  `json:"origin"`
}

// Note is one thing worth knowing.
type Note struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Suspicion is one reason to distrust a verdict.
type Suspicion struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Graded reports whether the trial has a verdict that counts.
func (r *Result) Graded() bool { return r.RewardValid }

// Installed reports whether the set-up of environment and agent was all that was asked for,
// and worked.
func (r *Result) Installed() bool { return r.Config.InstallOnly && r.ExceptionInfo == nil }

// Finished reports whether the file is of a trial that ended.
func (r *Result) Finished() bool { return r.FinishedAt != nil }

// Cancelled reports whether the trial was stopped on request.
func (r *Result) Cancelled() bool {
	return r.ExceptionInfo != nil && r.ExceptionInfo.Type == ExcCancelled
}

// MarshalIndent prints v as Harbor writes its files: four spaces, no newline at
// the end, no HTML escapes.
func MarshalIndent(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "    ")
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
