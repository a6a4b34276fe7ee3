package agents

import (
	"encoding/json"
	"strings"

	"harborgate/agents/atif"
)

// claudeSteps reads Claude Code's stream: a message comes in one line for each of its
// blocks, each with the usage of the whole, as it was when the message began.
func claudeSteps(r *atif.Run) func([]byte) {
	var latest string // message that has its usage
	return func(line []byte) {
		var e claudeEvent
		if json.Unmarshal(line, &e) != nil || e.Type != "assistant" && e.Type != "user" {
			return
		}
		r.SessionID = e.Session
		blocks := e.Message.blocks()
		if e.Type == "user" {
			for _, b := range blocks {
				if b.Type == "tool_result" {
					r.Observe(b.Call, textOf(b.Content))
				}
			}
			return
		}
		step := atif.Step{Source: atif.FromAgent, Timestamp: e.Timestamp, Model: e.Message.Model}
		for _, b := range blocks {
			b.into(&step)
		}
		if e.Message.ID != latest && e.Message.Usage != nil {
			step.Metrics = e.Message.Usage.used().metrics()
			step.Metrics.Completion = nil // that is not known when a message begins
		}
		latest = e.Message.ID
		r.Add(step)
	}
}

type claudeEvent struct {
	Type      string        `json:"type"`
	Session   string        `json:"session_id"`
	Timestamp string        `json:"timestamp"`
	Message   claudeMessage `json:"message"`
}

type claudeMessage struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"` // a text or blocks
	Usage   *claudeUsage    `json:"usage"`
}

func (m claudeMessage) blocks() []block {
	var out []block
	_ = json.Unmarshal(m.Content, &out) // a text alone is nobody's step: it was the instruction
	return out
}

// block is a part of a message in Anthropic's format, which other agents print too.
type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	Call     string          `json:"tool_use_id"`
	Content  json.RawMessage `json:"content"`
}

// into puts a block into the step of its message.
func (b block) into(s *atif.Step) {
	switch b.Type {
	case "text":
		s.Message = joined(s.Message, b.Text)
	case "thinking":
		s.Reasoning = joined(s.Reasoning, b.Thinking)
	case "tool_use":
		s.ToolCalls = append(s.ToolCalls, atif.ToolCall{ID: b.ID, Name: b.Name, Arguments: b.Input})
	}
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n" + b
}

// textOf is a content that is a text or a list of parts, of which what is no text is
// named only.
func textOf(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct{ Type, Text string }
	_ = json.Unmarshal(raw, &parts)
	var out []string
	for _, p := range parts {
		if p.Text == "" && p.Type != "text" {
			p.Text = "[" + p.Type + "]"
		}
		out = append(out, p.Text)
	}
	return strings.Join(out, "\n")
}
