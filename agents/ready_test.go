package agents

import (
	"errors"
	"path"
	"strings"
	"testing"

	"harborgate/providers"
	"harborgate/trials"
)

// sh runs a script of the test in the sandbox.
func (d *desk) sh(t *testing.T, script string, args ...string) {
	t.Helper()
	status, err := d.Sandbox.Exec(t.Context(), providers.Command{Args: append([]string{"sh", "-c", script, "sh"}, args...), User: "root"})
	if err != nil || !status.OK() {
		t.Fatal(status, err)
	}
}

// program puts a script where an agent's program is.
func (d *desk) program(t *testing.T, file, script string) {
	t.Helper()
	d.sh(t, `mkdir -p "$1" && printf '#!/bin/sh\n%s\n' "$3" > "$2" && chmod 755 "$2"`, path.Dir(file), file, script)
}

func TestProgramsThatCannotBeStartedAreNotTheAgentsFailure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ agent, file, script, want string }{
		"it starts":         {"claude-code", bundleDir + "/claude", "exit 0", ""},
		"no program":        {"claude-code", "/opt/other", "exit 0", "its package lacks " + bundleDir + "/claude"},
		"no loader":         {"pi", runtimeDir + "/node", "echo node: not found; exit 127", "wants glibc"},
		"an old libc":       {"pi", runtimeDir + "/node", "echo version GLIBC_2.38 not found; exit 1", "wants glibc"},
		"something else":    {"opencode", bundleDir + "/opencode", "echo Illegal instruction; exit 132", "exit code 132: Illegal instruction"},
		"one without glibc": {"codex", bundleDir + "/bin/codex", "exit 127", "--version ended with exit code 127"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, nil)
			d.program(t, c.file, c.script)
			err := thinkingAgent(t, c.agent).Setup(t.Context(), &d.Workplace)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			f, ok := errors.AsType[*trials.Failure](err)
			if !ok || f.Exception != trials.ExcAgentSetup || f.Blame != trials.BlameInfrastructure || !strings.Contains(f.Message, c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func thinkingAgent(t *testing.T, name string) Agent {
	t.Helper()
	model := map[string]string{"gemini-cli": "gemini/m", "claude-code": "anthropic/m"}[name]
	if model == "" {
		model = "openai/m"
	}
	a, err := New(Input{Config: trials.AgentConfig{Name: &name, ModelName: &model}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestUsersWithoutADirectoryForTheAgentAreNotTheAgentsFailure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ agent, spoil, home, want string }{
		"qwen without a home":       {"qwen-coder", "true", "/home/worker", "home directory, which does not exist: /home/worker"},
		"pi without its settings":   {"pi", "echo x > /tmp/.harborgate", "/root", "/tmp/.harborgate/pi"},
		"mini without its settings": {"mini-swe-agent", "echo x > /tmp/.harborgate", "/root", "/tmp/.harborgate/mini-swe-agent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, nil)
			d.program(t, runtimeDir+"/node", "exit 0")
			d.program(t, runtimeDir+"/python", "exit 0")
			d.sh(t, c.spoil)
			d.Env = map[string]string{"HOME": c.home}
			err := thinkingAgent(t, c.agent).Setup(t.Context(), &d.Workplace)
			f, ok := errors.AsType[*trials.Failure](err)
			if !ok || f.Exception != trials.ExcAgentSetup || !strings.Contains(f.Message, c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// What an image says of a runtime, or of other ways to models, does not count; what
// users say of a runtime does.
func TestVariablesOfTheImageDoNotBreakAgents(t *testing.T) {
	t.Parallel()
	for name, quirk := range map[string]string{"pi": "NODE_OPTIONS", "gemini-cli": "NODE_OPTIONS", "qwen-coder": "NODE_OPTIONS", "claude-code": "BUN_OPTIONS", "omp": "BUN_BE_BUN", "opencode": "BUN_BE_BUN"} {
		a := thinkingAgent(t, name).(*installed)
		c := a.facts.shielded(a.facts.command(testJob(a.facts.dialects[0])))
		if v, set := c.Env[quirk]; !set || v != "" {
			t.Errorf("%s: %s is %q, %v", name, quirk, v, set)
		}
		for _, way := range a.facts.ways {
			if v, set := c.SecretEnv[way]; !set || v != "" {
				t.Errorf("%s: %s is %q, %v", name, way, v, set)
			}
		}
	}
	d := newDesk(t, nil)
	d.program(t, runtimeDir+"/node", `[ "$NODE_OPTIONS" = --mine ]`)
	d.Env = map[string]string{"NODE_OPTIONS": "--mine"}
	if err := thinkingAgent(t, "pi").Setup(t.Context(), &d.Workplace); err != nil {
		t.Error(err)
	}
}

func TestVariablesThatLeadPastTheAuthProxyAreRefused(t *testing.T) {
	t.Parallel()
	for way, agent := range map[string]string{"CLAUDE_CODE_USE_BEDROCK": "claude-code", "GOOGLE_GENAI_USE_VERTEXAI": "gemini-cli"} {
		model := "anthropic/m"
		_, err := New(Input{Config: trials.AgentConfig{Name: &agent, ModelName: &model, Env: trials.Env{way: "1"}}})
		if err == nil || !strings.Contains(err.Error(), way) {
			t.Errorf("%s: got %v", way, err)
		}
	}
}
