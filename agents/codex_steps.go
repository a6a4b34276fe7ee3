package agents

import (
	"bytes"
	"encoding/json"

	"harborgate/agents/atif"
)

// codexSteps reads Codex's events. What it used comes for the whole run alone.
func codexSteps(r *atif.Run) func([]byte) {
	return func(line []byte) {
		var e struct {
			Type   string          `json:"type"`
			Thread string          `json:"thread_id"`
			Item   json.RawMessage `json:"item"`
		}
		if json.Unmarshal(line, &e) != nil {
			return
		}
		if e.Thread != "" {
			r.SessionID = e.Thread
		}
		if e.Type == "item.completed" {
			codexItem(r, e.Item)
		}
	}
}

func codexItem(r *atif.Run, raw json.RawMessage) {
	var item struct{ ID, Type, Text, Message string }
	if json.Unmarshal(raw, &item) != nil {
		return
	}
	switch item.Type {
	case "agent_message":
		r.Add(atif.Step{Source: atif.FromAgent, Message: item.Text})
	case "reasoning":
		r.Add(atif.Step{Source: atif.FromAgent, Reasoning: item.Text})
	case "error":
		r.Add(atif.Step{Source: atif.System, Message: item.Message})
	default:
		asked, came := codexCall(raw)
		r.Add(atif.Step{Source: atif.FromAgent, ToolCalls: []atif.ToolCall{{ID: item.ID, Name: item.Type, Arguments: asked}}})
		r.Observe(item.ID, came)
	}
}

// codexCall parts an item that is something done into what was asked for and what
// came of it.
func codexCall(raw json.RawMessage) (asked json.RawMessage, came string) {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(raw, &fields)
	for _, name := range []string{"aggregated_output", "result", "error"} {
		if v, ok := fields[name]; ok && string(v) != "null" {
			came = joined(came, textOrJSON(v))
		}
		delete(fields, name)
	}
	if code := string(fields["exit_code"]); code != "" && code != "0" && code != "null" {
		came = joined(came, "[exit_code] "+code)
	}
	for _, name := range []string{"id", "type", "status", "exit_code"} {
		delete(fields, name)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(fields) // of raw JSON it cannot fail
	return bytes.TrimSpace(b.Bytes()), came
}

func textOrJSON(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
