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
			Input      count `json:"input"` // neither read from nor written to a cache
			CacheRead  count `json:"cacheRead"`
			CacheWrite count `json:"cacheWrite"`
			Output     count `json:"output"` // with reasoning
			Cost       struct {
				Total dollars `json:"total"`
			} `json:"cost"`
		} `json:"usage"`
	} `json:"message"`
}

// piMessage is a message that is complete.
func piMessage(line []byte) (e piEvent, ok bool) {
	ok = json.Unmarshal(line, &e) == nil && e.Type == "message_end"
	return e, ok
}

func (e *piEvent) used() used {
	u := e.Message.Usage
	return used{in: u.Input + u.CacheRead + u.CacheWrite, read: u.CacheRead, out: u.Output, cost: u.Cost.Total}
}

// piOutcome sums the model's answers. The last of them says whether the agent worked.
type piOutcome struct {
	answers int
	sum     used
	failure string
}

func (o *piOutcome) line(b []byte) {
	e, ok := piMessage(b)
	if !ok || e.Message.Role != "assistant" {
		return
	}
	o.answers++
	o.sum.add(e.used())
	o.failure = e.Message.Error
	if o.failure == "" && (e.Message.Stop == "error" || e.Message.Stop == "aborted") {
		o.failure = "the last answer ended with " + e.Message.Stop
	}
}

func (o *piOutcome) result() (trials.AgentResult, string) {
	if o.answers == 0 {
		return trials.AgentResult{}, "it ended without an answer of the model"
	}
	return o.sum.result(), o.failure
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
	s := atif.Step{
		Source: atif.FromAgent, Timestamp: timeOf(e.Message.Time), Model: e.Message.Model, Message: e.Message.Error,
		Metrics: e.used().metrics(),
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

// timeOf writes milliseconds since the epoch as trajectories have times; 0 is none, and
// so is what no clock says.
func timeOf(ms int64) string {
	const year9999 = 253_402_300_799_999
	if ms <= 0 || ms > year9999 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}
