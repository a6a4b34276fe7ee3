package agents

import (
	"cmp"
	"encoding/json"

	"harborgate/agents/atif"
	"harborgate/agents/packages"
	"harborgate/agents/settings"
	"harborgate/providers"
	"harborgate/trials"
)

// qwen is Qwen Code, which began as Gemini CLI and prints what Claude Code prints. It
// wants a home directory that exists.
func qwen() facts {
	programs := onNode("qwen-coder", "0.24.4", packages.Archive{
		Spec:      "@qwen-code/qwen-code@%s",
		Integrity: "sha512-pmexy/Nj+BKd3Un1ogqGQE8V4GJn5B6N9PQOrU1GH+lMR29kn6Bgf6YdbZa8hNIoTmAKT1LTPK+P8TibZRPPVg==", Below: "package",
	})
	return facts{
		name: programs.name, doc: "Qwen Code, unmodified, from this host's cache", version: programs.pinned, bundle: programs.bundle,
		dialects: []string{"openai", "openrouter"}, log: "qwen-code.txt",
		probe: providers.Command{Args: []string{runtimeDir + "/node", "--version"}}, glibc: true, home: true, ways: []string{"QWEN_DEFAULT_AUTH_TYPE", "QWEN_CODE_MODEL"},
		quirks:  append(nodeVariables(), "QWEN_SANDBOX", "GEMINI_SANDBOX", "QWEN_CODE_SYSTEM_SETTINGS_PATH", "QWEN_CODE_SYSTEM_DEFAULTS_PATH"),
		exits:   map[int]string{53: "it reached its limit of turns (max_turns)"},
		options: []Option{{Name: "max_turns", Doc: "turns at most", Type: integer, Least: 1}},
		tools:   true, skills: func(home, _ string) string { return home + "/skills" },
		files: func(j job) (map[string]string, error) {
			text, err := settings.Qwen(j.Model, j.Tools...)
			return file("settings.json", text, err)
		},
		command: qwenCommand,
		outcome: func() outcome { return &qwenOutcome{} }, steps: qwenSteps,
	}
}

func qwenCommand(j job) providers.Command {
	args := append(node("cli-entry.js"), "--yolo", "--output-format=stream-json", "--model="+j.Model)
	if v := j.Options["max_turns"]; v != "" {
		args = append(args, "--max-session-turns="+v)
	}
	return providers.Command{
		Args: append(args, "--prompt="+j.Instruction),
		SecretEnv: map[string]string{
			"OPENAI_API_KEY": j.Token, "OPENAI_BASE_URL": j.Base, "OPENAI_MODEL": j.Model, "QWEN_HOME": j.Home,
			"QWEN_CODE_SUPPRESS_YOLO_WARNING": "1", "NODE_DISABLE_COMPILE_CACHE": "1",
		},
	}
}

// qwenEvent is a line of its output.
type qwenEvent struct {
	claudeEvent
	IsError bool       `json:"is_error"`
	Result  string     `json:"result"`
	Usage   *qwenUsage `json:"usage"` // of a result
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
}

type qwenUsage struct {
	Input  count `json:"input_tokens"` // with what was cached
	Cached count `json:"cache_read_input_tokens"`
	Output count `json:"output_tokens"`
}

func (u qwenUsage) used() used { return used{in: u.Input, read: u.Cached, out: u.Output} }

// qwenOutcome reads the result line.
type qwenOutcome struct{ last qwenEvent }

func (o *qwenOutcome) line(b []byte) {
	var e qwenEvent
	if json.Unmarshal(b, &e) == nil && e.Type == "result" {
		o.last = e
	}
}

func (o *qwenOutcome) result() (trials.AgentResult, string) {
	var r trials.AgentResult
	if o.last.Type == "" {
		return r, "it ended without a result"
	}
	if u := o.last.Usage; u != nil {
		r = u.used().result()
	}
	if o.last.IsError {
		return r, cmp.Or(o.last.Error.Message, o.last.Result, "its result is an error")
	}
	return r, ""
}

// qwenSteps reads what Claude Code prints, too, but for the usage: what was cached is
// within the input.
func qwenSteps(r *atif.Run) func([]byte) {
	read := claudeSteps(r)
	return func(line []byte) {
		read(line)
		var e struct {
			Type    string `json:"type"`
			Message struct {
				Usage *qwenUsage `json:"usage"`
			} `json:"message"`
		}
		if json.Unmarshal(line, &e) != nil || e.Type != "assistant" || e.Message.Usage == nil {
			return
		}
		r.Last().Metrics = e.Message.Usage.used().metrics()
	}
}
