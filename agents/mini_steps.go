package agents

import (
	"encoding/json"

	"harborgate/agents/atif"
)

// miniSteps reads the record of mini-swe-agent's run, all of it at once. What it
// answers the model without a call, as when there was none, is the user's.
func miniSteps(r *atif.Run) func([]byte) {
	return func(doc []byte) {
		for i, m := range readMini(doc).Messages {
			switch {
			case m.Role == "assistant":
				r.Add(m.step())
			case m.Role == "tool":
				r.Observe(m.Call, textOf(m.Content))
			case m.Role == "system": // the task is there already, which came behind it
				r.Lead(atif.Step{Source: atif.System, Message: textOf(m.Content)})
			case m.Role == "user" && i > 1: // the first holds the instruction
				r.Add(atif.Step{Source: atif.User, Message: textOf(m.Content), Timestamp: m.time()})
			}
		}
	}
}

func (m miniMessage) step() atif.Step {
	s := atif.Step{
		Source: atif.FromAgent, Message: textOf(m.Content), Reasoning: m.Reasoning, Model: m.Extra.Response.Model, Timestamp: m.time(),
	}
	for _, c := range m.Calls {
		s.ToolCalls = append(s.ToolCalls, atif.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: json.RawMessage(c.Function.Arguments)})
	}
	if u := m.Extra.Response.Usage; u != nil {
		s.Metrics = u.used().metrics()
		s.Metrics.CostUSD = m.Extra.Cost.known()
	}
	return s
}

func (m miniMessage) time() string {
	return timeOf(int64(min(m.Extra.Timestamp, 1e12) * 1000))
}
