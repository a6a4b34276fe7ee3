package agents

import (
	"os"
	"strings"
	"testing"

	"harborgate/agents/atif"
	"harborgate/agents/packages"
	"harborgate/trials"
)

func report(t *testing.T, name string) []byte {
	t.Helper()
	doc, err := os.ReadFile("testdata/mini-swe-agent-report-" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestMiniSaysWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in, cache, output int64
		failure           string
	}{
		"success": {2000, 600, 84, ""},
		"401":     {-1, -1, -1, "AuthenticationError: litellm.AuthenticationError"},
		"no-call": {10, 0, 2, "RepeatedFormatError: see its record"},
	} {
		o := miniSWE().outcome()
		o.line(report(t, name))
		got, failure := o.result()
		if (failure == "") != (c.failure == "") || !strings.Contains(failure, c.failure) {
			t.Errorf("%s: failure %q, want %q", name, failure, c.failure)
		}
		if value(got.InputTokens) != c.in || value(got.CacheTokens) != c.cache || value(got.OutputTokens) != c.output {
			t.Errorf("%s: %d %d %d", name, value(got.InputTokens), value(got.CacheTokens), value(got.OutputTokens))
		}
		if (got.CostUSD != nil) != (name == "success") {
			t.Errorf("%s: cost %v", name, got.CostUSD)
		}
	}
}

// A run that is cut short has a record of the steps before.
func TestMiniThatIsCutShortHasNotSucceeded(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		"":     "no record",
		"{":    "no record",
		"null": "no record",
		`{"info":{"exit_status":""},"messages":[{"role":"system"}]}`: "before it was done",
	} {
		o := miniSWE().outcome()
		o.line([]byte(doc))
		if _, failure := o.result(); !strings.Contains(failure, want) {
			t.Errorf("%q: failure %q, want %q", doc, failure, want)
		}
	}
}

func TestMiniTrajectory(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string]int{"success": 4, "401": 2, "no-call": 4} {
		var r atif.Run
		r.Add(atif.Step{Source: atif.User, Message: "do it"})
		miniSteps(&r)(report(t, name))
		doc := r.Trajectory(atif.Agent{Name: "mini-swe-agent", Version: "1"}, atif.Metrics{})
		if err := doc.Validate(); err != nil || len(doc.Steps) != steps {
			t.Errorf("%s: %d steps, %v", name, len(doc.Steps), err)
		}
		if name != "success" {
			continue
		}
		if doc.Steps[0].Source != atif.System || doc.Steps[1].Source != atif.User || doc.Steps[1].ID != 2 {
			t.Errorf("the system prompt does not come first: %+v", doc.Steps[:2])
		}
		if s := doc.Steps[2]; len(s.ToolCalls) != 1 || s.Observation == nil || s.Timestamp == "" || value(s.Metrics.Prompt) != 1000 {
			t.Errorf("%+v", s)
		}
		if value(doc.FinalMetrics.Prompt) != 2000 {
			t.Errorf("%+v", doc.FinalMetrics)
		}
	}
}

func TestMiniIsStartedWithItsAccessAlone(t *testing.T) {
	t.Parallel()
	for dialect, want := range map[string]struct{ model, base, key string }{
		"anthropic":  {"anthropic/m", "http://p/up", "ANTHROPIC_API_KEY"},
		"openai":     {"openai/m", "http://p/up/v1", "OPENAI_API_KEY"},
		"gemini":     {"gemini/m", "http://p/up/v1beta", "GEMINI_API_KEY"},
		"openrouter": {"openrouter/m", "http://p/up/v1", "OPENROUTER_API_KEY"},
	} {
		up := Upstream{Name: "up", Dialect: dialect}
		j := job{
			Instruction: "--do it", Base: Access{URL: "http://p"}.Base(up), Dialect: dialect, Token: "hgt", Model: "m", LogsDir: "/logs/agent", Home: "/h",
			Options: map[string]string{"config_file": "agent: {step_limit: 3}", "reasoning_effort": "high"},
		}
		cmd := miniSWE().command(j)
		args := strings.Join(cmd.Args[3:], " ")
		for _, part := range []string{
			"minisweagent.run.mini", "--task=--do it", "--model=" + want.model + " ", "api_base=" + want.base + " ", "--cost-limit=0", "-c mini.yaml -c /h/user.yaml", "reasoning_effort=high",
		} {
			if !strings.Contains(args+" ", part) {
				t.Errorf("%s: no %q in %s", dialect, part, args)
			}
		}
		if strings.Contains(args, "hgt") || cmd.SecretEnv[want.key] != "hgt" || cmd.Args[0] != runtimeDir+"/python" {
			t.Errorf("%s: %s %v", dialect, cmd.Args, cmd.SecretEnv)
		}
		if files, err := miniSWE().files(j); err != nil || files["user.yaml"] != "agent: {step_limit: 3}" {
			t.Errorf("files %v", files)
		}
	}
}

func TestPythonAgentsAreLocked(t *testing.T) {
	t.Parallel()
	f := miniSWE()
	for version, locked := range map[string]bool{f.version: true, "2.4.0": false} {
		parts, err := f.bundle("amd64", version)
		if err != nil || len(parts) != 2 {
			t.Fatalf("%v %v", parts, err)
		}
		from := parts[0].From.(packages.Wheels)
		if (from.Lock != "") != locked || !locked && from.Spec != "mini-swe-agent=="+version {
			t.Errorf("%s: %.100v", version, from)
		}
	}
	for name, lock := range map[string]string{"mini-swe-agent": miniLock, "aider": aiderLock} {
		if strings.Contains(lock, "://") || strings.Contains(lock, "--index") {
			t.Errorf("the lock of %s names a registry", name)
		}
		for requirement := range strings.SplitSeq(strings.ReplaceAll(lock, "\\\n", ""), "\n") {
			if requirement != "" && requirement[0] != '#' && !strings.Contains(requirement, "--hash=sha256:") {
				t.Errorf("the lock of %s has no digest of %s", name, requirement)
			}
		}
	}
}

// What an option's file says is read before anything starts.
func TestOptionsThatAreFiles(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/c.yaml"
	if err := os.WriteFile(path, []byte("agent: {}"), 0o600); err != nil {
		t.Fatal(err)
	}
	name, model := "mini-swe-agent", "openai/m"
	for file, ok := range map[string]bool{path: true, path + ".not": false} {
		a, err := New(Input{Config: trials.AgentConfig{Name: &name, ModelName: &model, Kwargs: trials.Object[any]{"config_file": file}}})
		if (err == nil) != ok {
			t.Errorf("%s: %v", file, err)
		}
		if ok && a.(*installed).kw["config_file"] != "agent: {}" {
			t.Errorf("%v", a)
		}
	}
}
