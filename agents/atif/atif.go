// Package atif writes trajectories in the Agent Trajectory Interchange Format: what
// an agent was told, thought, did and saw, step by step. It has the part of the
// format that text agents need; absent values are left out.
package atif

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// Version is the version of the format that is written.
const Version = "ATIF-v1.7"

// Trajectory is one run of an agent.
type Trajectory struct {
	SchemaVersion string        `json:"schema_version"`
	SessionID     string        `json:"session_id,omitempty"`
	Agent         Agent         `json:"agent"`
	Steps         []Step        `json:"steps"`
	Notes         string        `json:"notes,omitempty"`
	FinalMetrics  *FinalMetrics `json:"final_metrics,omitempty"`
}

// Agent is who ran.
type Agent struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Model   string `json:"model_name,omitempty"`
}

// Source is whose step it is.
type Source string

// The sources.
const (
	System    Source = "system"
	User      Source = "user"
	FromAgent Source = "agent"
)

// Step is a message, with what it led to. Model, reasoning, tool calls and metrics
// are for steps of the agent alone.
type Step struct {
	ID          int          `json:"step_id"` // from 1
	Timestamp   string       `json:"timestamp,omitempty"`
	Source      Source       `json:"source"`
	Message     string       `json:"message"`
	Model       string       `json:"model_name,omitempty"`
	Reasoning   string       `json:"reasoning_content,omitempty"`
	ToolCalls   []ToolCall   `json:"tool_calls,omitempty"`
	Observation *Observation `json:"observation,omitempty"`
	Metrics     *Metrics     `json:"metrics,omitempty"`
}

// ToolCall is a call that the model asked for.
type ToolCall struct {
	ID        string          `json:"tool_call_id"`
	Name      string          `json:"function_name"`
	Arguments json.RawMessage `json:"arguments"` // an object
}

// Observation is what came of a step's calls.
type Observation struct {
	Results []Result `json:"results"`
}

// Result is what came of one call of the same step.
type Result struct {
	Call    string `json:"source_call_id,omitempty"`
	Content string `json:"content"`
}

// Metrics is what a step used. Prompt tokens are with cached ones; nil is not known.
type Metrics struct {
	Prompt     *int64   `json:"prompt_tokens,omitempty"`
	Completion *int64   `json:"completion_tokens,omitempty"`
	Cached     *int64   `json:"cached_tokens,omitempty"`
	CostUSD    *float64 `json:"cost_usd,omitempty"`
}

// FinalMetrics sums a run.
type FinalMetrics struct {
	Prompt     *int64   `json:"total_prompt_tokens,omitempty"`
	Completion *int64   `json:"total_completion_tokens,omitempty"`
	Cached     *int64   `json:"total_cached_tokens,omitempty"`
	CostUSD    *float64 `json:"total_cost_usd,omitempty"`
	Steps      int      `json:"total_steps,omitempty"`
}

// Write writes a trajectory that holds what Validate wants.
func (t *Trajectory) Write(w io.Writer) error {
	if err := t.Validate(); err != nil {
		return err
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(t)
}

// Validate says what of the format is not held, naming the step.
func (t *Trajectory) Validate() error {
	switch {
	case t.SchemaVersion == "" || t.Agent.Name == "" || t.Agent.Version == "":
		return fmt.Errorf("trajectory lacks its version %q or its agent %+v", t.SchemaVersion, t.Agent)
	case len(t.Steps) == 0:
		return fmt.Errorf("trajectory of %s has no steps", t.Agent.Name)
	}
	for i := range t.Steps {
		if err := t.Steps[i].validate(i + 1); err != nil {
			return fmt.Errorf("trajectory of %s, step %d: %w", t.Agent.Name, i+1, err)
		}
	}
	return nil
}

func (s *Step) validate(id int) error {
	agents := s.Model != "" || s.Reasoning != "" || s.ToolCalls != nil || s.Metrics != nil
	switch {
	case s.ID != id:
		return fmt.Errorf("its step_id is %d", s.ID)
	case !slices.Contains([]Source{System, User, FromAgent}, s.Source):
		return fmt.Errorf("its source is %q", s.Source)
	case s.Source != FromAgent && agents:
		return fmt.Errorf("it is of the %s, and has what agents have", s.Source)
	}
	return s.validateCalls()
}

func (s *Step) validateCalls() error {
	calls := map[string]bool{"": true}
	for _, c := range s.ToolCalls {
		var object map[string]json.RawMessage
		if c.ID == "" || json.Unmarshal(c.Arguments, &object) != nil || object == nil {
			return fmt.Errorf("tool call %q of %s has no id, or arguments that are no object", c.ID, c.Name)
		}
		calls[c.ID] = true
	}
	if s.Observation == nil {
		return nil
	}
	for _, r := range s.Observation.Results {
		if !calls[r.Call] {
			return fmt.Errorf("it has a result of call %q, which it did not make", r.Call)
		}
	}
	return nil
}
