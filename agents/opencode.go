package agents

import (
	"encoding/json"
	"fmt"

	"harborgate/agents/atif"
	"harborgate/agents/packages"
	"harborgate/agents/settings"
	"harborgate/providers"
	"harborgate/trials"
)

// opencode is a native program. It keeps its things in the user's directories, if they
// are not moved, and asks npm's registry for a module of its own unless it is there.
func opencode() facts {
	programs := native{"opencode", "1.18.33", map[string]packages.Archive{
		"amd64": {Spec: "opencode-linux-x64-baseline@%s", Integrity: "sha512-1KQGBiiDDeL/VHHbHkOvvFo8Jr97WT5+C1tear+p7IcDTnXgVHXqIjU4O4jM4mHQzykTP2i884FCnW5LDa+zCA==", Below: "package/bin"},
	}}
	return facts{
		name: programs.name, doc: "opencode, unmodified, from this host's cache", version: programs.pinned, bundle: programs.bundle,
		dialects: allDialects(), log: "opencode.txt",
		// As the runtime that it was built with, it tells its version without loading itself.
		probe: providers.Command{Args: []string{bundleDir + "/opencode", "--version"}, Env: map[string]string{"BUN_BE_BUN": "1"}},
		glibc: true, quirks: append(bunVariables(), "OPENCODE_CONFIG", "OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG_DIR", "OPENCODE_PERMISSION"),
		options: []Option{
			{Name: "reasoning_effort", Alias: "variant", Doc: "how hard the model thinks: one of the model's variants"},
			{Name: "opencode_config", Doc: "settings over those that it gets here, as opencode.json has them", Type: object},
		},
		tools: true, skills: func(home, _ string) string { return home + "/config/opencode/skills" },
		files:   opencodeFiles,
		command: opencodeCommand,
		outcome: func() outcome { return &opencodeOutcome{} }, steps: opencodeSteps,
	}
}

// opencodeFiles are its settings, and what makes it think that its own module has been
// installed, which only plug-ins would need.
func opencodeFiles(j job) (map[string]string, error) {
	name := j.provider()
	text, err := settings.OpenCode([]settings.Provider{j.settings(name)}, settings.Key{Variable: modelToken}, name+"/"+j.Model, j.Tools...)
	return map[string]string{
		"config/opencode/opencode.json":        text,
		"config/opencode/package-lock.json":    `{"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}`,
		"config/opencode/node_modules/.nobody": "",
	}, err
}

func opencodeCommand(j job) providers.Command {
	args := []string{bundleDir + "/opencode", "run", "--format=json", "--thinking", "--auto", "--title=task", "--model=" + j.provider() + "/" + j.Model}
	if v := j.Options["reasoning_effort"]; v != "" {
		args = append(args, "--variant="+v)
	}
	env := map[string]string{
		modelToken: j.Token, "XDG_CONFIG_HOME": j.Home + "/config", "XDG_DATA_HOME": j.Home + "/data",
		"XDG_STATE_HOME": j.Home + "/state", "XDG_CACHE_HOME": j.Home + "/cache", "OPENCODE_DISABLE_MODELS_FETCH": "1",
		"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
	}
	if v := j.Options["opencode_config"]; v != "" {
		env["OPENCODE_CONFIG_CONTENT"] = v // it merges them itself
	}
	return providers.Command{Args: append(args, "--", j.Instruction), SecretEnv: env}
}

// opencodeEvent is a line of its output.
type opencodeEvent struct {
	Type    string `json:"type"`
	Session string `json:"sessionID"`
	Time    int64  `json:"timestamp"` // milliseconds
	Part    struct {
		Text  string `json:"text"`
		Tool  string `json:"tool"`
		Call  string `json:"callID"`
		State struct {
			Input  json.RawMessage `json:"input"`
			Output string          `json:"output"`
			Error  string          `json:"error"`
			About  json.RawMessage `json:"metadata"` // of a tool's own
		} `json:"state"`
		Cost   dollars `json:"cost"`
		Tokens struct {
			Input     count `json:"input"`  // neither read from nor written to a cache
			Output    count `json:"output"` // without reasoning
			Reasoning count `json:"reasoning"`
			Cache     struct {
				Read  count `json:"read"`
				Write count `json:"write"`
			} `json:"cache"`
		} `json:"tokens"`
	} `json:"part"`
	Error struct {
		Name string `json:"name"`
		Info struct {
			Message string `json:"message"`
		} `json:"data"`
	} `json:"error"`
}

// came is what came of a call, with the exit code of a command that failed.
func (e *opencodeEvent) came() string {
	var of struct {
		Exit int `json:"exit"`
	}
	s := e.Part.State
	text := joined(s.Output, s.Error)
	if json.Unmarshal(s.About, &of) == nil && of.Exit != 0 {
		text = joined(text, fmt.Sprintf("[exit_code] %d", of.Exit))
	}
	return text
}

func (e *opencodeEvent) used() used {
	t := e.Part.Tokens
	return used{in: t.Input + t.Cache.Read + t.Cache.Write, read: t.Cache.Read, out: t.Output + t.Reasoning, cost: e.Part.Cost}
}

// opencodeOutcome sums the steps. An error that no step follows has ended the run.
type opencodeOutcome struct {
	steps   int
	sum     used
	failure string
}

func (o *opencodeOutcome) line(b []byte) {
	var e opencodeEvent
	if json.Unmarshal(b, &e) != nil {
		return
	}
	switch e.Type {
	case "step_finish":
		o.steps, o.failure = o.steps+1, ""
		o.sum.add(e.used())
	case "error":
		o.failure = e.Error.Name + ": " + e.Error.Info.Message
	}
}

func (o *opencodeOutcome) result() (trials.AgentResult, string) {
	var r trials.AgentResult
	if o.steps > 0 {
		r = o.sum.result()
	}
	if o.steps == 0 && o.failure == "" {
		return r, "it ended without finishing a step"
	}
	return r, o.failure
}

// opencodeSteps collects the parts between the start and the end of each step.
func opencodeSteps(r *atif.Run) func([]byte) {
	var s atif.Step
	results := map[string]string{}
	return func(line []byte) {
		var e opencodeEvent
		if json.Unmarshal(line, &e) != nil {
			return
		}
		r.SessionID = e.Session
		switch e.Type {
		case "step_start":
			s = atif.Step{Timestamp: timeOf(e.Time)}
			clear(results)
		case "text":
			s.Message = joined(s.Message, e.Part.Text)
		case "reasoning":
			s.Reasoning = joined(s.Reasoning, e.Part.Text)
		case "tool_use":
			s.ToolCalls = append(s.ToolCalls, atif.ToolCall{ID: e.Part.Call, Name: e.Part.Tool, Arguments: e.Part.State.Input})
			results[e.Part.Call] = e.came()
		case "step_finish":
			s.Source, s.Metrics = atif.FromAgent, e.used().metrics()
			r.Add(s)
			for _, c := range s.ToolCalls {
				r.Observe(c.ID, results[c.ID])
			}
			s = atif.Step{}
		}
	}
}
