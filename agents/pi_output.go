package agents

import (
	"encoding/json"
	"time"

	"harborgate/agents/atif"
	"harborgate/trials"
)

// piEvent is a line of pi's output, and of omp's, which began as pi.
type piEvent struct {
	Type    string `json:"type"`
	ID      string `json:"id"` // of the session
	Message struct {
		Role    string          `json:"role"`
		Model   string          `json:"model"`
		Content json.RawMessage `json:"content"` // a text, or parts
		Call    string          `json:"toolCallId"`
		Stop    string          `json:"stopReason"`
		Error   string          `json:"errorMessage"`
		Time    int64           `json:"timestamp"` // milliseconds
		Usage   struct {
			Input      int64 `json:"input"` // neither read from nor written to a cache
			CacheRead  int64 `json:"cacheRead"`
			CacheWrite int64 `json:"cacheWrite"`
			Output     int64 `json:"output"` // with reasoning
			Cost       struct {
				Total float64 `json:"total"`
			} `json:"cost"`
		} `json:"usage"`
	} `json:"message"`
}

// piMessage is a message that is complete.
func piMessage(line []byte) (e piEvent, ok bool) {
	ok = json.Unmarshal(line, &e) == nil && e.Type == "message_end"
	return e, ok
}

func (e *piEvent) prompt() int64 {
	return e.Message.Usage.Input + e.Message.Usage.CacheRead + e.Message.Usage.CacheWrite
}

// piOutcome sums the model's answers. The last of them says whether the agent worked.
type piOutcome struct {
	answers       int
	in, read, out int64
	cost          float64
	failure       string
}

func (o *piOutcome) line(b []byte) {
	e, ok := piMessage(b)
	if !ok || e.Message.Role != "assistant" {
		return
	}
	o.answers++
	o.in, o.read, o.out = o.in+e.prompt(), o.read+e.Message.Usage.CacheRead, o.out+e.Message.Usage.Output
	o.cost += e.Message.Usage.Cost.Total
	o.failure = e.Message.Error
	if o.failure == "" && (e.Message.Stop == "error" || e.Message.Stop == "aborted") {
		o.failure = "the last answer ended with " + e.Message.Stop
	}
}

func (o *piOutcome) result() (trials.AgentResult, string) {
	var r trials.AgentResult
	if o.answers == 0 {
		return r, "it ended without an answer of the model"
	}
	r.InputTokens, r.CacheTokens, r.OutputTokens = &o.in, &o.read, &o.out
	if o.cost > 0 { // it calls what it has no price for free
		r.CostUSD = &o.cost
	}
	return r, o.failure
}

// piSteps makes a step of each answer, with what came of its calls.
func piSteps(r *atif.Run) func([]byte) {
	return func(line []byte) {
		e, ok := piMessage(line)
		switch {
		case !ok && e.Type == "session":
			r.SessionID = e.ID
		case ok && e.Message.Role == "toolResult":
			r.Observe(e.Message.Call, textOf(e.Message.Content))
		case ok && e.Message.Role == "assistant":
			r.Add(e.step())
		}
	}
}

func (e *piEvent) step() atif.Step {
	in, u := e.prompt(), e.Message.Usage
	s := atif.Step{
		Source: atif.FromAgent, Timestamp: timeOf(e.Message.Time), Model: e.Message.Model, Message: e.Message.Error,
		Metrics: &atif.Metrics{Prompt: &in, Completion: &u.Output, Cached: &u.CacheRead},
	}
	if u.Cost.Total > 0 {
		s.Metrics.CostUSD = &u.Cost.Total
	}
	var parts []struct {
		Type, Text, Thinking, ID, Name string
		Arguments                      json.RawMessage
	}
	_ = json.Unmarshal(e.Message.Content, &parts) // an answer is never a mere text
	for _, p := range parts {
		s.Message, s.Reasoning = joined(s.Message, p.Text), joined(s.Reasoning, p.Thinking)
		if p.Type == "toolCall" {
			s.ToolCalls = append(s.ToolCalls, atif.ToolCall{ID: p.ID, Name: p.Name, Arguments: p.Arguments})
		}
	}
	return s
}

// timeOf writes milliseconds since the epoch as trajectories have times; 0 is none.
func timeOf(ms int64) string {
	if ms == 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
