package agents

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"harborgate/agents/atif"
	"harborgate/agents/packages"
	"harborgate/agents/settings"
	"harborgate/providers"
	"harborgate/trials"
)

// goose is a native program. Its instruction comes by standard input, which has no
// limit and of which it reads nothing as a template.
func goose() facts {
	programs := native{"goose", "1.52.0", map[string]packages.Archive{
		"amd64": {Spec: "@aaif/goose-binary-linux-x64@%s", Integrity: "sha512-2aPCG0HuLUI1cafcez1s1nLlTsNMx7AHWnmAOS/6S9xqmcvY+oXsQA5SUHin1Sf5uphK6pcOCLmgygJ6YQIDaQ==", Below: "package/bin"},
	}}
	return facts{
		name: programs.name, doc: "goose, unmodified, from this host's cache, or a program of yours", version: programs.pinned,
		program: programs.name, bundle: func(arch, version string) ([]Part, error) {
			parts, err := programs.bundle(arch, version)
			if err != nil {
				err = fmt.Errorf("%w; its releases (github.com/aaif-goose/goose) have more: name the program with --ak binary=/path/to/goose", err)
			}
			return parts, err
		},
		dialects: allDialects(), log: "goose.txt",
		probe: providers.Command{Args: []string{bundleDir + "/goose", "--version"}}, glibc: true,
		options: []Option{
			{Name: "reasoning_effort", Doc: "how hard the model thinks", Values: []string{"", "low", "medium", "high", "max"}},
			{Name: "max_turns", Doc: "turns at most", Type: integer, Least: 1},
		},
		tools: true, transports: []string{"stdio", "streamable-http"},
		skills: func(home, _ string) string { return home + "/config/skills" },
		files: func(j job) (map[string]string, error) {
			text, err := settings.Goose(j.Tools...)
			return file("config/config.yaml", text, err)
		},
		command: gooseCommand,
		outcome: func() outcome { return &gooseOutcome{} }, steps: gooseSteps,
	}
}

// gooseProvider is how goose is told of a format: the name of a provider, the variables
// of its address and key, and the path behind the address where it has a choice.
type gooseProvider struct{ name, host, key, path string }

// gooseProviders are those of each format. OpenAI's has to be told its path: otherwise
// the model's name decides which of the two formats it speaks.
func gooseProviders() map[string]gooseProvider {
	return map[string]gooseProvider{
		"anthropic_messages":      {"anthropic", "ANTHROPIC_HOST", "ANTHROPIC_API_KEY", ""},
		"openai_responses":        {"openai", "OPENAI_HOST", "OPENAI_API_KEY", "responses"},
		"openai_chat_completions": {"openai", "OPENAI_HOST", "OPENAI_API_KEY", "chat/completions"},
		"google_generate_content": {"google", "GOOGLE_HOST", "GOOGLE_API_KEY", ""},
	}
}

func gooseCommand(j job) providers.Command {
	p := gooseProviders()[j.format()]
	env := map[string]string{
		"GOOSE_PROVIDER": p.name, "GOOSE_MODEL": j.Model, p.host: j.Base, p.key: j.Token,
		"GOOSE_PATH_ROOT": j.Home, "GOOSE_MODE": "auto", "GOOSE_DISABLE_KEYRING": "true",
		"GOOSE_DISABLE_SESSION_NAMING": "true", "GOOSE_TELEMETRY_ENABLED": "false", "GOOSE_TELEMETRY_OFF": "true",
	}
	if p.path != "" {
		env["OPENAI_BASE_PATH"] = p.path
	}
	if v := j.Options["reasoning_effort"]; v != "" {
		env["GOOSE_THINKING_EFFORT"] = v
	}
	args := []string{bundleDir + "/goose", "run", "--instructions=-", "--no-session", "--output-format=stream-json"}
	if v := j.Options["max_turns"]; v != "" {
		args = append(args, "--max-turns="+v)
	}
	return providers.Command{Args: args, SecretEnv: env, Stdin: strings.NewReader(j.Instruction)}
}

// gooseEvent is a line of its output.
type gooseEvent struct {
	Type    string `json:"type"`
	Error   string `json:"error"`
	Message struct {
		ID      string       `json:"id"`
		Role    string       `json:"role"`
		Created int64        `json:"created"` // seconds
		Content []gooseBlock `json:"content"`
	} `json:"message"`
	// Of the whole run, in its last line. Older programs say less.
	Input  *count  `json:"input_tokens"` // with what was read from and written to a cache
	Cached count   `json:"cache_read_input_tokens"`
	Output count   `json:"output_tokens"`
	Cost   dollars `json:"cost_usd"`
}

// gooseBlock is a part of a message.
type gooseBlock struct {
	Type         string      `json:"type"`
	Text         string      `json:"text"`
	Thinking     string      `json:"thinking"`
	Notification string      `json:"notificationType"`
	Notice       string      `json:"msg"`
	ID           string      `json:"id"`
	Call         gooseResult `json:"toolCall"`
	Result       gooseResult `json:"toolResult"`
}

// gooseResult is what came of something, or why nothing did.
type gooseResult struct {
	Value struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Content   json.RawMessage `json:"content"`
	} `json:"value"`
	Error string `json:"error"`
}

// gooseOutcome reads the last line and the last message. goose completes, with exit code
// 0, when its model has failed, too: then it says so in the model's place.
type gooseOutcome struct {
	last    gooseEvent
	failure string
}

// gooseTrouble begins messages about models that failed.
const gooseTrouble = "Ran into this error: "

func (o *gooseOutcome) line(b []byte) {
	var e gooseEvent
	if json.Unmarshal(b, &e) != nil {
		return
	}
	switch e.Type {
	case "complete":
		o.last = e
	case "error":
		o.failure = cmp.Or(e.Error, "it ended with an error")
	case "message":
		o.failure = ""
		for _, c := range e.Message.Content {
			switch {
			case c.Type == "text" && strings.HasPrefix(c.Text, gooseTrouble):
				o.failure = c.Text
			case c.Type == "systemNotification" && c.Notification == "creditsExhausted":
				o.failure = "the model's account is used up: " + c.Notice
			}
		}
	}
}

func (o *gooseOutcome) result() (trials.AgentResult, string) {
	var r trials.AgentResult
	if in := o.last.Input; in != nil {
		r = used{in: *in, read: o.last.Cached, out: o.last.Output, cost: o.last.Cost}.result()
	}
	if o.last.Type == "" && o.failure == "" {
		return r, "it ended without completing"
	}
	failure, _, _ := strings.Cut(strings.TrimPrefix(o.failure, gooseTrouble), "\n") // the rest is advice
	return r, failure
}

// gooseSteps reads messages, which come piece by piece under one id. A model may give
// ids twice: what came of a tool ends a message, too.
func gooseSteps(r *atif.Run) func([]byte) {
	open := "" // message that the latest step is of, and that may go on
	return func(line []byte) {
		var e gooseEvent
		if json.Unmarshal(line, &e) != nil {
			return
		}
		switch {
		case e.Type == "error":
			r.Add(atif.Step{Source: atif.System, Message: e.Error})
		case e.Type == "message" && e.Message.Role == "assistant":
			open = gooseSaid(r, e, open)
		case e.Type == "message":
			open = ""
			for _, b := range e.Message.Content {
				if b.Type == "toolResponse" {
					r.Observe(b.ID, joined(textOf(b.Result.Value.Content), b.Result.Error))
				}
			}
		}
	}
}

// gooseSaid adds what the model said, and gives the message that may go on.
func gooseSaid(r *atif.Run, e gooseEvent, open string) string {
	s := atif.Step{Source: atif.FromAgent, Timestamp: timeOf(e.Message.Created * 1000)}
	for _, b := range e.Message.Content {
		switch b.Type {
		case "text":
			s.Message += b.Text
		case "thinking":
			s.Reasoning += b.Thinking
		case "toolRequest":
			s.ToolCalls = append(s.ToolCalls, atif.ToolCall{ID: b.ID, Name: cmp.Or(b.Call.Value.Name, "unknown"), Arguments: b.Call.Value.Arguments})
		}
	}
	switch {
	case s.Message == "" && s.Reasoning == "" && s.ToolCalls == nil: // an error, which comes once more
		return open
	case s.ToolCalls == nil && open != "" && e.Message.ID == open:
		last := r.Last()
		last.Message += s.Message
		last.Reasoning += s.Reasoning
	default:
		r.Add(s)
	}
	return e.Message.ID
}
