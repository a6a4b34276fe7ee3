package agents

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"harborgate/agents/atif"
	"harborgate/agents/packages"
	"harborgate/trials"
)

func nodeAgents() []facts { return []facts{pi(), omp(), opencode(), gemini(), qwen()} }

func testJob(dialect string) job {
	return job{
		Instruction: "--do it", Route: "http://127.0.0.1:7/up", Base: "http://127.0.0.1:7/up/v1", Dialect: dialect, Token: "hgt", Model: "maker/m:free",
		Home: "/tmp/home", LogsDir: "/logs/agent", Options: map[string]string{"reasoning_effort": "high", "max_turns": "3"},
	}
}

func filesOf(t *testing.T, f facts, j job) string {
	t.Helper()
	files, err := f.files(j)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(slices.Collect(maps.Values(files)), "\n")
}

func TestNodeAgentsAreStartedWithTheirAccessAlone(t *testing.T) {
	t.Parallel()
	for _, f := range nodeAgents() {
		for _, dialect := range f.dialects {
			j := testJob(dialect)
			cmd := f.command(j)
			args := strings.Join(cmd.Args, " ")
			if !strings.HasSuffix(args, "--do it") || !strings.HasPrefix(args, "/opt/harborgate/") || !strings.Contains(args, j.Model) {
				t.Errorf("%s: %s", f.name, args)
			}
			if strings.Contains(args, "hgt") || len(cmd.Env) > 0 || cmd.Stdin != nil {
				t.Errorf("%s: the token is on the command line or in what is logged, or it reads input: %s", f.name, args)
			}
			env := slices.Collect(maps.Values(cmd.SecretEnv))
			if !slices.Contains(env, "hgt") {
				t.Errorf("%s: %v", f.name, cmd.SecretEnv)
			}
			files := filesOf(t, f, j)
			if all := files + strings.Join(env, "\n"); !strings.Contains(all, j.Route) || strings.Contains(files, "hgt") || !strings.Contains(all, j.Home) {
				t.Errorf("%s of %s: its base or home is nowhere, or a file has the token: %s", f.name, dialect, all)
			}
		}
	}
}

func TestNodeAgentsTakeWhatHarborCallsTheirOptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ option, value, flag string }{
		"pi":         {"thinking", "high", "--thinking high"},
		"omp":        {"reasoning_effort", "xhigh", "--thinking=xhigh"},
		"opencode":   {"variant", "max", "--variant=max"},
		"qwen-coder": {"max_turns", "3", "--max-session-turns=3"},
	} {
		kind, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		kw, err := kind.kwargs(map[string]any{c.option: c.value})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(nodeAgents(), func(f facts) bool { return f.name == name })
		j := testJob("openai")
		j.Options = kw
		if args := strings.Join(nodeAgents()[i].command(j).Args, " "); !strings.Contains(args, c.flag) {
			t.Errorf("%s: %s", name, args)
		}
		props := kind.Schema()["properties"].(map[string]any)
		if _, ok := props[c.option]; !ok {
			t.Errorf("%s: the schema lacks %s", name, c.option)
		}
	}
}

func TestOpencodeMergesSettingsOfTheUser(t *testing.T) {
	t.Parallel()
	kind, err := Find("opencode")
	if err != nil {
		t.Fatal(err)
	}
	j := testJob("openai")
	if j.Options, err = kind.kwargs(map[string]any{"opencode_config": map[string]any{"instructions": []any{"CODE.md"}}}); err != nil {
		t.Fatal(err)
	}
	if got := opencode().command(j).SecretEnv["OPENCODE_CONFIG_CONTENT"]; got != `{"instructions":["CODE.md"]}` {
		t.Errorf("got %s", got)
	}
}

// omp gives a token to providers that it knows, past their base URL.
func TestOmpUsesNoProviderThatItKnows(t *testing.T) {
	t.Parallel()
	var config struct {
		Off []string `yaml:"disabledProviders"`
	}
	files, err := omp().files(testJob("gemini"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(files["config.yml"]), &config); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"google", "openai", "anthropic", "openrouter", "ollama", "llama.cpp", "lm-studio", "kilo", "venice"} {
		if !slices.Contains(config.Off, name) {
			t.Errorf("%s is on", name)
		}
	}
	var models struct{ Providers map[string]any }
	if err := yaml.Unmarshal([]byte(files["models.yml"]), &models); err != nil {
		t.Fatal(err)
	}
	for name := range models.Providers {
		if slices.Contains(config.Off, name) {
			t.Errorf("%s is off", name)
		}
	}
}

// In a format that an agent does not expect of a provider, it is one of ours.
func TestFormatsThatWereAskedForAreSpoken(t *testing.T) {
	t.Parallel()
	for _, f := range []facts{pi(), omp(), opencode()} {
		j := testJob("openai")
		if all := filesOf(t, f, j); strings.Contains(all, "completions") || strings.Contains(all, "compatible") {
			t.Errorf("%s: %s", f.name, all)
		}
		j.Format = "openai_chat_completions"
		all := filesOf(t, f, j)
		if !strings.Contains(all, "openai-completions") && !strings.Contains(all, "@ai-sdk/openai-compatible") || !strings.Contains(strings.Join(f.command(j).Args, " "), ownProvider) {
			t.Errorf("%s: %s", f.name, all)
		}
	}
}

func TestNodeAgentsComeWithTheirRuntime(t *testing.T) {
	t.Parallel()
	for _, f := range nodeAgents() {
		for _, version := range []string{f.version, "9.9.9"} {
			parts, err := f.bundle("amd64", version)
			if err != nil {
				t.Fatal(err)
			}
			if parts[0].Dir != bundleDir || parts[0].Version != version || len(parts) == 2 && parts[1].Dir != runtimeDir {
				t.Errorf("%s: %+v", f.name, parts)
			}
			for _, p := range parts {
				for _, a := range archivesOf(p.From) {
					if (a.Integrity == "") != strings.HasSuffix(a.Spec, "@9.9.9") {
						t.Errorf("%s: %+v", f.name, a)
					}
				}
			}
		}
		if _, err := f.bundle("riscv64", f.version); err == nil || !strings.Contains(err.Error(), "riscv64") {
			t.Errorf("%s: %v", f.name, err)
		}
	}
}

func archivesOf(from packages.Source) []packages.Archive {
	if all, ok := from.(packages.Archives); ok {
		return slices.Collect(maps.Values(all))
	}
	return []packages.Archive{from.(packages.Archive)}
}

// What a run that was cut short has left is a trajectory, too.
func TestOutputsThatAreCutAreTrajectories(t *testing.T) {
	t.Parallel()
	for _, f := range nodeAgents() {
		if n := len(stepsOf(t, f, f.name+"-stdout-401.jsonl").Steps); n < 1 {
			t.Errorf("%s: %d steps", f.name, n)
		}
	}
}

func TestAgentsThatSpeakEveryFormatAreFound(t *testing.T) {
	t.Parallel()
	model := "openai/m"
	for _, f := range nodeAgents() {
		if _, err := New(Input{Config: trials.AgentConfig{Name: &f.name, ModelName: &model}}); err != nil {
			t.Error(err)
		}
	}
}

// What an agent prints is the model's to write: whatever it is, it is read, and what
// comes of it is a trajectory.
func FuzzOutputOfNodeAgents(f *testing.F) {
	for _, a := range nodeAgents() {
		for _, of := range []string{"success", "401"} {
			text, err := os.ReadFile("testdata/" + a.name + "-stdout-" + of + ".jsonl")
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, a := range nodeAgents() {
			var run atif.Run
			run.Add(atif.Step{Source: atif.User, Message: "do it"})
			o, step := a.outcome(), a.steps(&run)
			l := &lines{to: func(b []byte) { o.line(b); step(b) }}
			_, _ = l.Write(text)
			l.end()
			o.result()
			if err := run.Trajectory(atif.Agent{Name: a.name, Version: a.version}, atif.Metrics{}).Validate(); err != nil {
				t.Errorf("%s: %v", a.name, err)
			}
		}
	})
}
