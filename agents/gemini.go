package agents

import (
	"encoding/json"

	"harborgate/agents/atif"
	"harborgate/agents/packages"
	"harborgate/agents/settings"
	"harborgate/providers"
	"harborgate/trials"
)

// gemini is Google's command line agent. A base URL and a key in its environment are not
// enough: its settings have to say that a key is what it has.
func gemini() facts {
	programs := onNode("gemini-cli", "0.61.0", packages.Archive{
		Spec:      "@google/gemini-cli@%s",
		Integrity: "sha512-dbQ9A0qBtFJNi6XBkHvfZ6Azpn6PNgH/P8h2MZ67RLlX8hSAVjup39CRWqdRxZv7YXIuhrFaytr8y0jKnkoxnQ==", Below: "package/bundle",
	})
	return facts{
		name: programs.name, doc: "Google's Gemini CLI, unmodified, from this host's cache", version: programs.pinned, bundle: programs.bundle,
		dialects: []string{"gemini"}, log: "gemini-cli.txt",
		probe: providers.Command{Args: []string{runtimeDir + "/node", "--version"}}, glibc: true, quirks: append(nodeVariables(), "GEMINI_SANDBOX", "GEMINI_CLI_SYSTEM_SETTINGS_PATH"),
		ways: []string{
			"GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA", "GEMINI_CLI_USE_COMPUTE_ADC", "GEMINI_DEFAULT_AUTH_TYPE", "CODE_ASSIST_ENDPOINT",
			"GOOGLE_GENAI_API_VERSION", "GEMINI_API_KEY_AUTH_MECHANISM",
		},
		tools: true, skills: func(home, _ string) string { return home + "/.gemini/skills" },
		files: func(j job) (map[string]string, error) {
			text, err := settings.Gemini(j.Model, j.Tools...)
			return file(".gemini/settings.json", text, err)
		},
		command: func(j job) providers.Command {
			return providers.Command{
				Args: append(node("gemini.js"), "--yolo", "--output-format=stream-json", "--model="+j.Model, "--prompt="+j.Instruction),
				SecretEnv: map[string]string{
					"GEMINI_API_KEY": j.Token, "GOOGLE_GEMINI_BASE_URL": j.Base, "GEMINI_CLI_HOME": j.Home, "GEMINI_CLI_TRUST_WORKSPACE": "true",
					"NODE_DISABLE_COMPILE_CACHE": "1",
				},
			}
		},
		outcome: func() outcome { return &geminiOutcome{} }, steps: geminiSteps,
	}
}

// geminiEvent is a line of its output.
type geminiEvent struct {
	Type    string          `json:"type"`
	Session string          `json:"session_id"`
	Time    string          `json:"timestamp"`
	Model   string          `json:"model"`
	Role    string          `json:"role"`
	Content string          `json:"content"` // a piece of a message
	Tool    string          `json:"tool_name"`
	Call    string          `json:"tool_id"`
	Input   json.RawMessage `json:"parameters"`
	Output  string          `json:"output"`
	Status  string          `json:"status"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
	Stats struct {
		Total  count `json:"total_tokens"`
		Prompt count `json:"input_tokens"` // with what was cached
		Cached count `json:"cached"`
	} `json:"stats"`
}

// geminiOutcome reads the result line.
type geminiOutcome struct{ last geminiEvent }

func (o *geminiOutcome) line(b []byte) {
	var e geminiEvent
	if json.Unmarshal(b, &e) == nil && e.Type == "result" {
		o.last = e
	}
}

func (o *geminiOutcome) result() (trials.AgentResult, string) {
	var r trials.AgentResult
	if o.last.Type == "" {
		return r, "it ended without a result"
	}
	s := o.last.Stats
	r = used{in: s.Prompt, read: s.Cached, out: s.Total - s.Prompt}.result() // what it calls output is without thoughts
	if o.last.Status != "success" {
		return r, o.last.Status + ": " + o.last.Error.Message
	}
	return r, ""
}

// geminiSteps makes a step of the pieces of a message, and one of each call.
func geminiSteps(r *atif.Run) func([]byte) {
	var model string
	return func(line []byte) {
		var e geminiEvent
		if json.Unmarshal(line, &e) != nil {
			return
		}
		step, last := atif.Step{Source: atif.FromAgent, Timestamp: e.Time, Model: model}, r.Last()
		switch {
		case e.Type == "init":
			r.SessionID, model = e.Session, e.Model
		case e.Type == "message" && e.Role == "assistant" && last != nil && last.Source == atif.FromAgent && last.ToolCalls == nil:
			last.Message += e.Content
		case e.Type == "message" && e.Role == "assistant":
			step.Message = e.Content
			r.Add(step)
		case e.Type == "tool_use":
			step.ToolCalls = []atif.ToolCall{{ID: e.Call, Name: e.Tool, Arguments: e.Input}}
			r.Add(step)
		case e.Type == "tool_result":
			r.Observe(e.Call, joined(e.Output, e.Error.Message))
		}
	}
}
