package agents

import (
	"encoding/json"
	"strings"
	"testing"

	"harborgate/trials"
)

// What an agent cannot read ends its run; a user's slip must not be its failure.
func TestValuesOfOptionsAreCheckedBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	model := "anthropic/m"
	for _, c := range []struct {
		agent, option string
		value         any
		said          string // "" is accepted
	}{
		{"claude-code", "max_turns", "abc", "must be a whole number of 1 or more"},
		{"claude-code", "max_turns", -1.0, "must be a whole number of 1 or more"},
		{"claude-code", "max_turns", 2.5, "must be a whole number of 1 or more"},
		{"claude-code", "max_turns", 3.0, ""},
		{"claude-code", "max_turns", nil, ""},
		{"claude-code", "max_turn", 3.0, "did you mean max_turns?"},
		{"claude-code", "max_turn", nil, "did you mean max_turns?"},
		{"claude-code", "reasoning_effort", "ultra", "must be one of low, medium, high"},
		{"qwen-coder", "max_turns", "0", "must be a whole number"},
		{"mini-swe-agent", "cost_limit", "abc", "must be a number of 0 or more"},
		{"mini-swe-agent", "cost_limit", -0.5, "must be a number of 0 or more"},
		{"mini-swe-agent", "cost_limit", "NaN", "must be a number of 0 or more"},
		{"mini-swe-agent", "cost_limit", 0.5, ""},
		{"aider", "map_tokens", "abc", "must be a whole number of 0 or more"},
		{"aider", "thinking_tokens", "many", "must be a whole number of 0 or more"},
		{"aider", "thinking_tokens", 1e6, ""},
		{"aider", "stream", "maybe", "must be true or false"},
		{"aider", "stream", false, ""},
		{"opencode", "opencode_config", "[1]", "must be a JSON object"},
		{"opencode", "opencode_config", map[string]any{"a": 1.0}, ""},
	} {
		_, err := New(Input{Config: trials.AgentConfig{Name: &c.agent, ModelName: &model, Kwargs: trials.Object[any]{c.option: c.value}}})
		if (err == nil) != (c.said == "") || err != nil && !strings.Contains(err.Error(), c.said) {
			t.Errorf("%s %s=%v: %v, want %q", c.agent, c.option, c.value, err, c.said)
		}
	}
}

// Not every agent reads "1e+06".
func TestLargeNumbersReachAgentsWithoutAnExponent(t *testing.T) {
	t.Parallel()
	for v, want := range map[any]string{1e6: "1000000", 0.25: "0.25", true: "true", "1e6": "1e6"} {
		if got := optionText(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

func TestSchemaHasTheTypesOfOptions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ agent, option, want string }{
		{"claude-code", "max_turns", `{"description":"turns at most","minimum":1,"type":"integer"}`},
		{"mini-swe-agent", "cost_limit", `{"default":0,"description":"dollars that it may spend by its own count, 0 is any","minimum":0,"type":"number"}`},
		{"aider", "stream", `{"description":"let the model answer piece by piece","type":"boolean"}`},
		{"pi", "thinking", `{"default":"","description":"how hard the model thinks","enum":["","off","minimal","low","medium","high","xhigh","max"],"type":"string"}`},
	} {
		kind, err := Find(c.agent)
		if err != nil {
			t.Fatal(err)
		}
		props, _ := kind.Schema()["properties"].(map[string]any)
		if got, _ := json.Marshal(props[c.option]); string(got) != c.want {
			t.Errorf("%s %s: %s, want %s", c.agent, c.option, got, c.want)
		}
	}
}

func TestNamesOfAgentsThatWereMeant(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"qwen-code": "did you mean qwen-coder?", "claude": "did you mean claude-code?", "gemini": "did you mean gemini-cli?",
		"openhands": "use `-a command --ak script=…`", "nobody": "`-a command --ak script=…`",
	} {
		if _, err := Find(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func TestModelsThatAreNoneOrTwo(t *testing.T) {
	t.Parallel()
	agent := "codex"
	for model, said := range map[string]string{
		"anthropic/": "lacks a part", "/gpt-5": "lacks a part", "": "needs a model",
		"openai/gpt-5,anthropic/x":         "-m openai/gpt-5 -m anthropic/x",
		"openai/gpt-5":                     "",
		"gpt-5":                            "",
		"openrouter/vendor/model,quantity": "", // an upstream's own name
	} {
		_, err := New(Input{Config: trials.AgentConfig{Name: &agent, ModelName: &model}})
		if (err == nil) != (said == "") || err != nil && !strings.Contains(err.Error(), said) {
			t.Errorf("%q: %v, want %q", model, err, said)
		}
	}
}

func TestRefusalsNameAgentsThatCan(t *testing.T) {
	t.Parallel()
	agent, model := "aider", "openai/gpt-5"
	_, err := New(Input{Config: trials.AgentConfig{Name: &agent, ModelName: &model, Skills: trials.List[string]{"/skills"}}})
	if err == nil || !strings.Contains(err.Error(), "leave it out, or choose one of claude-code, ") || strings.Contains(err.Error(), ", aider") {
		t.Errorf("%v", err)
	}
}
