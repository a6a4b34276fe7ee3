package agents

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"harborgate/tasks"
	"harborgate/trials"
)

// Kind is one agent that can be asked for.
type Kind struct {
	Name    string   `json:"name"`
	Doc     string   `json:"doc"`
	Options []Option `json:"options"`
	// AnyOption takes kwargs that are not listed and ignores them, as Harbor
	// does for its two built-in agents.
	AnyOption bool `json:"-"`
	// Thinks is set for agents that a task's tool servers and skills are for.
	Thinks bool `json:"-"`
	// Dialects are the formats in which the agent asks models, where it cannot work
	// without one.
	Dialects []string `json:"dialects,omitempty"`
	// Tools and Skills are set for agents that can be given MCP servers and skills.
	Tools  bool `json:"mcp_servers"`
	Skills bool `json:"skills"`
	// Searches is set for agents that offer the provider's own search to every model.
	Searches bool `json:"-"`

	// asks is what it asks for when it is told to use a model; nil is the same.
	asks func(model string) string
	// misread is what it would take the end of a model's name for; nil is nothing.
	misread *regexp.Regexp
	// ways are variables that would lead the agent to other models.
	ways []string
	make func(in Input, kw map[string]string) (Agent, error)
	// layer is its installation in a version; nil has none.
	layer func(version string) (*Layer, error)
}

// Asks is the name that the agent asks its upstream for when it is told to use a model.
func (k Kind) Asks(model string) string {
	if k.asks == nil {
		return model
	}
	return k.asks(model)
}

// Input is what an agent is made from.
type Input struct {
	Config trials.AgentConfig
	// SolutionEnv is the task's resolved [solution.env], for the oracle alone.
	SolutionEnv map[string]string
	// Tools are the task's and the job's MCP servers, with their headers resolved.
	Tools []tasks.MCPServer
}

// Kinds lists the agents that are built, in order of their names.
func Kinds() []Kind { return slices.Clone(kinds()) }

// kinds are made once: each trial of a job looks for its own.
var kinds = sync.OnceValue(func() []Kind {
	return []Kind{
		aider().kind(), claudeCode().kind(), codex().kind(),
		{Name: "command", Doc: "any shell command or script of yours", Options: commandOptions, Thinks: true,
			make: func(in Input, kw map[string]string) (Agent, error) { return newCommand(in.Config, kw) }},
		gemini().kind(), goose().kind(), miniSWE().kind(),
		{Name: "nop", Doc: "does nothing", AnyOption: true,
			make: func(Input, map[string]string) (Agent, error) { return nop{}, nil }},
		omp().kind(), opencode().kind(),
		{Name: "oracle", Doc: "runs the task's own solution", AnyOption: true,
			make: func(in Input, _ map[string]string) (Agent, error) { return &oracle{env: in.SolutionEnv}, nil }},
		pi().kind(), qwen().kind(),
	}
})

// harborAgents are the names that Harbor knows and this program does not run yet.
var harborAgents = []string{
	"acp", "antigravity-cli", "antigravity-sdk", "cline-cli", "code-puppy",
	"computer-1", "copilot-cli", "cortex-code", "cursor-cli", "deerflow", "devin", "dspy-rlm", "eve", "fabric",
	"fx", "fx-dev", "grok-build", "hermes", "junie", "kimi-cli", "kimi-code", "langgraph",
	"mcode", "mimo", "muse-code", "nemo-agent", "openclaw", "opencode-v2",
	"openhands", "openhands-sdk", "rovodev-cli", "strands", "swe-agent", "terminus",
	"terminus-1", "terminus-2", "trae-agent", "vibe",
}

// Find returns the kind of a name. The error of an unknown name says whether
// Harbor knows it.
func Find(name string) (Kind, error) {
	all := kinds()
	i := slices.IndexFunc(all, func(k Kind) bool { return k.Name == name })
	if i >= 0 {
		return all[i], nil
	}
	names := make([]string, len(all))
	for i, k := range all {
		names[i] = k.Name
	}
	if slices.Contains(harborAgents, name) || strings.HasPrefix(name, "acp:") {
		return Kind{}, fmt.Errorf("agent %q is one of Harbor's that is not built yet: use `-a command --ak script=…` to run it yourself, or one of %s", name, strings.Join(names, ", "))
	}
	if near := nearest(name, names); near != "" {
		return Kind{}, fmt.Errorf("agent %q is not known: did you mean %s?", name, near)
	}
	return Kind{}, fmt.Errorf("agent %q is not known: choose one of %s, or run your own with `-a command --ak script=…`", name, strings.Join(names, ", "))
}

// nearest is the agent that may have been meant; "" is none. People leave out how a
// name ends.
func nearest(name string, names []string) string {
	if near := tasks.Closest(name, names); near != "" {
		return near
	}
	i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, name+"-") })
	if i < 0 {
		return ""
	}
	return names[i]
}

// New makes the agent of a configuration. Wrong kwargs are errors that name them.
func New(in Input) (Agent, error) {
	if in.Config.ImportPath != nil {
		return nil, fmt.Errorf("agent import path %q: Python classes cannot be loaded; use `-a command --ak script=…`", *in.Config.ImportPath)
	}
	kind, err := Find(in.Config.AgentName())
	if err != nil {
		return nil, err
	}
	if err := errors.Join(kind.refuse(in.Config), kind.checkModel(in.Config.ModelName)); err != nil {
		return nil, err
	}
	kw, err := kind.kwargs(in.Config.Kwargs)
	if err != nil {
		return nil, err
	}
	return kind.make(in, kw)
}

// refuse names settings that the agent would not use: none is silently ignored.
func (k Kind) refuse(c trials.AgentConfig) error {
	thinks := func(k Kind) bool { return k.Thinks }
	for _, s := range []struct {
		name string
		set  bool
		can  func(Kind) bool // which agents do; nil is none
	}{
		{"base_url (--base-url)", !k.Thinks && c.BaseURL != nil, thinks},
		{"model_api_key_name (--api-key-name)", !k.Thinks && c.ModelAPIKeyName != nil, thinks},
		{"model_api_format (--api-format)", !k.Thinks && c.ModelAPIFormat != nil, thinks},
		{"skills (--skill)", !k.Skills && len(c.Skills) > 0, func(k Kind) bool { return k.Skills }},
		{"mcp_servers (--mcp-config)", !k.Tools && len(c.MCPServers) > 0, func(k Kind) bool { return k.Tools }},
		{"resume_trajectory", c.ResumeTrajectory, nil},
		{"load_trajectory", c.LoadTrajectory != nil, nil},
	} {
		if s.set {
			return fmt.Errorf("agent %s does not use %s: leave it out%s", k.Name, s.name, orAgents(s.can))
		}
	}
	for _, name := range k.ways {
		if c.Env[name] != "" {
			return fmt.Errorf("agent %s: variable %s (--ae) would lead it past the auth proxy, its only way to models: leave it out", k.Name, name)
		}
	}
	return nil
}

// orAgents names the agents that can do something; nil is for none.
func orAgents(can func(Kind) bool) string {
	if can == nil {
		return ""
	}
	var names []string
	for _, k := range kinds() {
		if can(k) {
			names = append(names, k.Name)
		}
	}
	return ", or choose one of " + strings.Join(names, ", ")
}

// checkModel refuses what is no name of a model; nil and "" are none. Names may hold commas:
// only two that both have a provider are two models.
func (k Kind) checkModel(name *string) error {
	if name == nil || *name == "" {
		return nil
	}
	provider, rest, split := strings.Cut(*name, "/")
	if provider == "" || split && rest == "" {
		return fmt.Errorf("model %q: it lacks a part: write provider/name, as anthropic/claude-sonnet-4-5 (-m)", *name)
	}
	if strings.Contains(*name, "*") {
		return fmt.Errorf("model %q: a pattern is no model: write the name of one (-m)", *name)
	}
	if k.misread != nil && k.misread.MatchString(*name) {
		level := k.misread.FindString(*name)
		return fmt.Errorf("model %q: agent %s takes %s at its end for how hard it is to think, and asks for another model: leave it out, and add --ak reasoning_effort=%s", *name, k.Name, level, level[1:])
	}
	if first, second, two := strings.Cut(*name, ","); two && strings.Contains(first, "/") && strings.Contains(second, "/") {
		return fmt.Errorf("model %q: these are two: give -m for each, -m %s -m %s", *name, strings.TrimSpace(first), strings.TrimSpace(second))
	}
	return nil
}

// unknownVersion is recorded of agents of which nothing ran.
const unknownVersion = "unknown"

// InfoOf is what a configuration says about its agent, before there is one.
func InfoOf(c trials.AgentConfig) trials.AgentInfo {
	return trials.AgentInfo{Name: c.AgentName(), Version: unknownVersion, ModelInfo: modelInfo(c)}
}

// modelInfo splits "provider/model" at the first slash.
func modelInfo(c trials.AgentConfig) *trials.ModelInfo {
	if c.ModelName == nil || *c.ModelName == "" {
		return nil
	}
	provider, name, ok := strings.Cut(*c.ModelName, "/")
	if !ok || c.SkipModelParsing {
		provider = *c.ModelName
		return &trials.ModelInfo{Name: provider}
	}
	return &trials.ModelInfo{Name: name, Provider: &provider}
}

// Lacks are those needs of a task that the agent of a configuration cannot meet.
// Agents that do not think may ignore them all.
func Lacks(c trials.AgentConfig, needs []tasks.Need) []tasks.Need {
	kind, err := Find(c.AgentName())
	if err != nil || !kind.Thinks {
		return nil
	}
	can := map[tasks.Feature]bool{tasks.FeatureMCP: kind.Tools, tasks.FeatureSkills: kind.Skills}
	return slices.DeleteFunc(needs, func(n tasks.Need) bool { return can[n.Feature] })
}

// Ignored are kwargs of a configuration that its agent takes and does not use.
func Ignored(c trials.AgentConfig) []string {
	kind, err := Find(c.AgentName())
	if err != nil || !kind.AnyOption {
		return nil
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.Kwargs)), func(name string) bool {
		return slices.ContainsFunc(kind.Options, func(o Option) bool { return o.is(name) })
	})
}

// Thinks reports whether the agent of a configuration works with a model.
func Thinks(c trials.AgentConfig) bool {
	kind, err := Find(c.AgentName())
	return err == nil && kind.Thinks
}
