package agents

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"harborgate/agents/atif"
	"harborgate/agents/packages"
	"harborgate/trials"
)

func TestInstalledAgentsSayWhatBecameOfThem(t *testing.T) {
	t.Parallel()
	for file, c := range map[string]struct {
		outcome           outcome
		in, cache, output int64
		cost              float64
		failure           string
	}{
		"claude-code-stdout-success.jsonl": {claudeCode().outcome(), 2640, 600, 84, 0.00759, ""},
		"claude-code-stdout-402.jsonl":     {claudeCode().outcome(), 0, 0, 0, 0, "402"},
		"codex-stdout-success.jsonl":       {codex().outcome(), 2000, 600, 84, 0, ""},
		"codex-stdout-401.jsonl":           {codex().outcome(), 0, 0, 0, 0, "401 Unauthorized"},
		"pi-stdout-success.jsonl":          {pi().outcome(), 2000, 600, 84, 0.002665, ""},
		"pi-stdout-401.jsonl":              {pi().outcome(), 0, 0, 0, 0, "mock 401"},
		"omp-stdout-success.jsonl":         {omp().outcome(), 2040, 600, 84, 0.00579, ""},
		"omp-stdout-401.jsonl":             {omp().outcome(), 0, 0, 0, 0, "401 mock 401"},
		"opencode-stdout-success.jsonl":    {opencode().outcome(), 2000, 600, 84, 0.002665, ""},
		"opencode-stdout-401.jsonl":        {opencode().outcome(), 0, 0, 0, 0, "APIError: mock 401"},
		"gemini-cli-stdout-success.jsonl":  {gemini().outcome(), 2000, 600, 84, 0, ""},
		"gemini-cli-stdout-401.jsonl":      {gemini().outcome(), 0, 0, 0, 0, "told to fail"},
		"qwen-coder-stdout-success.jsonl":  {qwen().outcome(), 2000, 600, 84, 0, ""},
		"qwen-coder-stdout-401.jsonl":      {qwen().outcome(), 0, 0, 0, 0, "401 the mock"},
		"goose-stdout-success.jsonl":       {goose().outcome(), 2040, 600, 84, 0.00579, ""},
		"goose-stdout-401.jsonl":           {goose().outcome(), 0, 0, 0, 0, "Authentication error"},
		"goose-stdout-402.jsonl":           {goose().outcome(), 0, 0, 0, 0, "account is used up"}, // it exits with 0
		"goose-stdout-400.jsonl":           {goose().outcome(), 0, 0, 0, 0, "Request failed: Bad request (400)"},
	} {
		text, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		l := &lines{to: c.outcome.line}
		for piece := range slices.Chunk(text, 100) {
			_, _ = l.Write(piece)
		}
		l.end()
		got, failure := c.outcome.result()
		if (failure != "") != (c.failure != "") || !strings.Contains(failure, c.failure) {
			t.Errorf("%s: failure %q, want %q", file, failure, c.failure)
		}
		if c.failure != "" {
			continue
		}
		if value(got.InputTokens) != c.in || value(got.CacheTokens) != c.cache || value(got.OutputTokens) != c.output || c.cost > 0 && (got.CostUSD == nil || *got.CostUSD-c.cost > 1e-9) {
			t.Errorf("%s: %d %d %d %v", file, value(got.InputTokens), value(got.CacheTokens), value(got.OutputTokens), got.CostUSD)
		}
	}
}

func value(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

// The exit code alone means nothing: an agent that says nothing has not worked.
func TestInstalledAgentsThatSayNothingHaveFailed(t *testing.T) {
	t.Parallel()
	for _, f := range []facts{claudeCode(), codex(), pi(), omp(), opencode(), gemini(), qwen(), goose()} {
		o := f.outcome()
		o.line([]byte("not JSON"))
		o.line([]byte(`{"type":"other"}`))
		if _, failure := o.result(); failure == "" {
			t.Errorf("%s succeeded", f.name)
		}
	}
}

func TestInstalledAgentsAreStartedWithTheirAccessAlone(t *testing.T) {
	t.Parallel()
	j := job{Instruction: "--do it", Base: "http://127.0.0.1:7/up", Token: "hgt", Model: "m", LogsDir: "/logs/agent", Options: map[string]string{"reasoning_effort": "high", "max_turns": "3"}}
	for _, f := range []facts{claudeCode(), codex()} {
		cmd := f.command(j)
		args := strings.Join(cmd.Args, " ")
		if !strings.HasSuffix(args, "-- --do it") || !strings.HasPrefix(args, bundleDir) || !strings.Contains(args, "high") {
			t.Errorf("%s: %s", f.name, args)
		}
		if strings.Contains(args, "hgt") || len(cmd.Env) > 0 || cmd.Stdin != nil {
			t.Errorf("%s: the token is on the command line or in what is logged, or it reads input: %s", f.name, args)
		}
		if !slices.Contains(slices.Collect(maps.Values(cmd.SecretEnv)), "hgt") {
			t.Errorf("%s: %v", f.name, cmd.SecretEnv)
		}
	}
}

func TestInstalledAgentsComeInPinnedPackages(t *testing.T) {
	t.Parallel()
	model := "anthropic/m"
	for _, c := range []struct {
		arch, version string
		pinned, ok    bool
	}{{"amd64", "", true, true}, {"arm64", "", true, true}, {"amd64", "2.1.300", false, true}, {"riscv64", "", false, false}} {
		name := "claude-code"
		cfg := trials.AgentConfig{Name: &name, ModelName: &model}
		if c.version != "" {
			cfg.Kwargs = trials.Object[any]{"version": c.version}
		}
		a, err := New(Input{Config: cfg})
		if err != nil {
			t.Fatal(err)
		}
		parts, err := a.(Bundled).Bundle(c.arch)
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
		for _, p := range parts {
			if from := p.From.(packages.Archive); (from.Integrity != "") != c.pinned || !strings.Contains(from.Spec, "@"+p.Version) {
				t.Errorf("%+v: %+v", c, p)
			}
		}
	}
}

func TestLinesThatAreAbsurdlyLongAreLeftOut(t *testing.T) {
	t.Parallel()
	var got []string
	l := &lines{to: func(b []byte) { got = append(got, string(b)) }}
	for _, piece := range []string{"a", "b\n", strings.Repeat("x", longestLine), "y\nc\n", "d"} {
		_, _ = l.Write([]byte(piece))
	}
	l.end()
	if !slices.Equal(got, []string{"ab", "c", "d"}) {
		t.Errorf("%d lines", len(got))
	}
}

// stepsOf is the trajectory of an output that comes in pieces.
func stepsOf(t *testing.T, f facts, file string) *atif.Trajectory {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var run atif.Run
	run.Add(atif.Step{Source: atif.User, Message: "do it"})
	l := &lines{to: f.steps(&run)}
	for piece := range slices.Chunk(text, 100) {
		_, _ = l.Write(piece)
	}
	l.end()
	traj := run.Trajectory(atif.Agent{Name: f.name, Version: f.version}, atif.Metrics{})
	if err := traj.Validate(); err != nil {
		t.Errorf("%s: %v", file, err)
	}
	return traj
}

func TestTrajectoriesHaveCallsAndWhatCameOfThem(t *testing.T) {
	t.Parallel()
	const ids = "uid=0(root) gid=0(root) groups=0(root)"
	for file, c := range map[string]struct {
		facts   facts
		command string
		output  string
	}{
		"claude-code-stdout-success.jsonl": {claudeCode(), `/app/hello.txt"`, "(Bash completed with no output)"},
		"codex-stdout-success.jsonl":       {codex(), "/app/hello.txt", ""},
		"pi-stdout-success.jsonl":          {pi(), "echo 'Hello", ids + "\n"},
		"omp-stdout-success.jsonl":         {omp(), "echo 'Hello", ids + "\n\n\nWall time: 0.05 seconds"},
		"opencode-stdout-success.jsonl":    {opencode(), "echo 'Hello", ids + "\n"},
		"gemini-cli-stdout-success.jsonl":  {gemini(), "echo 'Hello", ids},
		"qwen-coder-stdout-success.jsonl":  {qwen(), "echo 'Hello", ids},
	} {
		traj := stepsOf(t, c.facts, file)
		last := traj.Steps[len(traj.Steps)-1]
		if traj.SessionID == "" || last.Message != "Done." || last.Source != atif.FromAgent {
			t.Errorf("%s: session %q, last step %+v", file, traj.SessionID, last)
		}
		i := slices.IndexFunc(traj.Steps, func(s atif.Step) bool { return len(s.ToolCalls) > 0 })
		if i < 0 || !strings.Contains(string(traj.Steps[i].ToolCalls[0].Arguments), c.command[:8]) || traj.Steps[i].Observation == nil || traj.Steps[i].Observation.Results[0].Content != c.output {
			t.Errorf("%s: %+v", file, traj.Steps)
		}
	}
}

// A limit of the user's is named, and not taken for a crash.
func TestALimitOfTurnsIsNamed(t *testing.T) {
	t.Parallel()
	o := claudeCode().outcome()
	o.line([]byte(`{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["Reached maximum number of turns (1)"],"usage":{"input_tokens":700,"output_tokens":42}}`))
	if got, failure := o.result(); failure != "Reached maximum number of turns (1)" || value(got.OutputTokens) != 42 {
		t.Errorf("claude-code: %q, %+v", failure, got)
	}
	d := newDesk(t, nil)
	d.program(t, runtimeDir+"/node", "exit 53")
	d.Access = &Access{URL: "http://127.0.0.1:7", Token: "hgt", Model: "m", Upstreams: []Upstream{{Name: "up", Dialect: "openai"}}}
	if _, err := thinkingAgent(t, "qwen-coder").Run(t.Context(), &d.Workplace); err == nil || !strings.Contains(err.Error(), "limit of turns (max_turns)") {
		t.Errorf("qwen-coder: %v", err)
	}
}

func TestTrajectoriesOfOpencodeHaveExitCodesOfCommands(t *testing.T) {
	t.Parallel()
	var run atif.Run
	read := opencode().steps(&run)
	for _, line := range []string{
		`{"type":"step_start","sessionID":"s"}`,
		`{"type":"tool_use","sessionID":"s","part":{"tool":"bash","callID":"c","state":{"input":{"command":"exit 3"},"output":"one\n","metadata":{"exit":3}}}}`,
		`{"type":"step_finish","sessionID":"s"}`,
	} {
		read([]byte(line))
	}
	if got := run.Last().Observation.Results[0].Content; got != "one\n\n[exit_code] 3" {
		t.Errorf("got %q", got)
	}
}
