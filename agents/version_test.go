package agents

import (
	"strings"
	"testing"

	"harborgate/trials"
)

// A version is a number: no way out of the cache, no other package, no option of
// npm's, no tag that means something else tomorrow.
func TestVersionThatIsAPathOrAnotherPackageIsRefused(t *testing.T) {
	t.Parallel()
	model := "anthropic/m"
	made := func(agent, version string) error {
		_, err := New(Input{Config: trials.AgentConfig{Name: &agent, ModelName: &model, Kwargs: trials.Object[any]{"version": version}}})
		return err
	}
	for _, k := range Kinds() {
		if len(k.Dialects) == 0 {
			continue
		}
		for _, bad := range []string{
			"../../../../secretdir", "1/../../x", "..", "npm:lodash@4.17.21", "file:/etc", "--registry=http://x", "latest", "1 2", "1\n2", "1'2", "^1", "1@2",
			"1" + strings.Repeat("0", 64),
		} {
			if err := made(k.Name, bad); err == nil || !strings.Contains(err.Error(), "write its number") {
				t.Errorf("%s: version %q gave %v", k.Name, bad, err)
			}
		}
		for _, good := range []string{"1", "2.1.300", "1.0.0-beta.2", "0.86.2.dev1+g12ab"} {
			if err := made(k.Name, good); err != nil {
				t.Errorf("%s: version %q gave %v", k.Name, good, err)
			}
		}
	}
}

// Two names of one release are one package on this host, and one in results.
func TestVersionsThatNameTheSameReleaseAreOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ agent, version, want string }{
		{"mini-swe-agent", "2.4", "2.4.0"},
		{"mini-swe-agent", "2.4.6", "2.4.6"},
		{"mini-swe-agent", "2", "2.0.0"},
		{"aider", "0.86.dev1", "0.86.dev1"},
		{"aider", "", aider().version},
		{"pi", "", pi().version},
		{"pi", "1.5", "1.5"},
	} {
		model := "openai/m"
		a, err := New(Input{Config: trials.AgentConfig{Name: &c.agent, ModelName: &model, Kwargs: trials.Object[any]{"version": c.version}}})
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		parts, err := a.(Bundled).Bundle("amd64")
		if err != nil || a.Info().Version != c.want || parts[0].Version != c.want {
			t.Errorf("%+v: %s, %+v %v", c, a.Info().Version, parts, err)
		}
	}
}

// What an agent would take for something else than a model's name, it would not ask for.
func TestNamesThatAgentsReadOtherwiseAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ agent, model, want string }{
		{"pi", "openai/gpt-5:high", "reasoning_effort=high"},
		{"omp", "openai/gpt-5:off", "reasoning_effort=off"},
		{"pi", "openrouter/qwen/qwen3:free", ""},
		{"opencode", "openai/gpt-5:high", ""},
		{"pi", "anthropic/sonnet*", "a pattern is no model"},
		{"claude-code", "anthropic/claude-*", "a pattern is no model"},
	} {
		_, err := New(Input{Config: trials.AgentConfig{Name: &c.agent, ModelName: &c.model}})
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	k, err := Find("claude-code")
	if err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]string{"claude-sonnet-4-5[1m]": "claude-sonnet-4-5", "claude-sonnet-4-5": "claude-sonnet-4-5"} {
		if got := k.Asks(model); got != want {
			t.Errorf("%s is asked for as %s", model, got)
		}
	}
}
