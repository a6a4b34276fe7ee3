package agents

import "slices"

// A Format is a wire format as Harbor's --api-format names it.
type Format struct {
	Name    string
	Dialect string // of the auth proxy; "" is one that it does not speak
}

// Formats lists those that --api-format takes.
func Formats() []Format {
	return []Format{
		{"openai_chat_completions", "openai"},
		{"openai_responses", "openai"},
		{"anthropic_messages", "anthropic"},
		{"google_generate_content", "gemini"},
		{"bedrock_converse", ""},
	}
}

// oneFormat are agents that speak only one format of a dialect that has several.
func oneFormat() map[string]string {
	return map[string]string{
		"codex":          "openai_responses",
		"qwen-coder":     "openai_chat_completions",
		"mini-swe-agent": "openai_chat_completions",
		"aider":          "openai_chat_completions",
	}
}

// Formats are the names of those that the agent can be told to speak; any for an
// agent that says of no dialect that it needs it.
func (k Kind) Formats() []string {
	var out []string
	for _, f := range Formats() {
		only := oneFormat()[k.Name]
		switch {
		case f.Dialect == "" || !k.Thinks,
			len(k.Dialects) > 0 && !slices.Contains(k.Dialects, f.Dialect),
			f.Dialect == "openai" && only != "" && only != f.Name:
		default:
			out = append(out, f.Name)
		}
	}
	return out
}
