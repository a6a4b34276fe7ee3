package app

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"harborgate/internal/mockllm"
	"harborgate/providers/fake"
	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/runner"
)

const (
	realKey = "sk-real-0123456789abcdef"
	ask     = `{"model":"claude-sonnet-4-5","max_tokens":100,"messages":[{"role":"user","content":"Hi"}]}`
	// askLine asks once, and keeps the answer.
	askLine = `curl -sf -H "x-api-key: $ANTHROPIC_API_KEY" -d '` + ask + `' $ANTHROPIC_BASE_URL/v1/messages > /logs/agent/answer.json || exit 7`
)

// priced is an upstream whose prices are known, and that is asked once.
const priced = `
upstreams: {anthropic: {dialect: anthropic, base_url: "UPSTREAM", keys: ["env:ANTHROPIC_API_KEY"], local: true, attempts: 1,
  prices: {"*": {input: 3, output: 15}}}}
`

// modelRig is a host with a mock model API, and a job on it.
type modelRig struct {
	t    *testing.T
	mock *mockllm.Server
	url  string // of the mock
	app  *App
	cfg  trials.JobConfig
	set  Settings
}

func newModelRig(t *testing.T, command, config string) *modelRig {
	t.Helper()
	r := &modelRig{t: t, mock: mockllm.New()}
	up := httptest.NewServer(r.mock)
	t.Cleanup(func() {
		up.CloseClientConnections()
		up.Close()
	})
	r.url = up.URL
	if config == "" {
		config = priced
	}
	env := map[string]string{"ANTHROPIC_API_KEY": realKey, "HARBOR_CONFIG": filepath.Join(t.TempDir(), "config.yaml")}
	put(t, env["HARBOR_CONFIG"], strings.ReplaceAll(config, "UPSTREAM", up.URL))
	r.app = newApp(t, hostOf(t, env))
	set := t.TempDir()
	putTask(t, set, "a", "echo 1 > /logs/verifier/reward.txt", "")
	r.cfg = jobOf(t, set)
	agent, model := "command", "anthropic/claude-sonnet-4-5"
	r.cfg.Agents = trials.List[trials.AgentConfig]{{Name: &agent, ModelName: &model, Kwargs: map[string]any{"command": command}}}
	return r
}

// run runs the job, or goes on with it, and returns its only trial.
func (r *modelRig) run() (Summary, *trials.Result, error) {
	r.t.Helper()
	plan, err := NewPlan(r.cfg, "5e0c1f0e-0000-4000-8000-000000000000")
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.app.Continue(plan, Redo{Exceptions: []string{trials.ExcCancelled}}); err != nil {
		r.t.Fatal(err)
	}
	p := fake.New(fake.Options{})
	defer p.Close()
	j, err := r.app.StartJob(plan, Alone(p), r.set)
	if err != nil {
		return Summary{}, nil, errors.Join(err, plan.Close())
	}
	s, err := j.Run(r.t.Context())
	if cerr := j.Close(); cerr != nil {
		r.t.Error(cerr)
	}
	all, rerr := results.ReadWholeTrials(j.Dir)
	if rerr != nil || len(all) != 1 {
		r.t.Fatalf("%d trials, %v", len(all), rerr)
	}
	canary(r.t, j.Dir, realKey)
	canary(r.t, r.app.Dirs.State, realKey)
	return s, all[0].Result, errors.Join(err, plan.Close())
}

// canary looks for a text in everything below dir.
func canary(t *testing.T, dir, text string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), text) {
			t.Errorf("%s is in %s", text, path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAgentReachesItsModelByAGrant(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, askLine+`; env > /logs/agent/env.txt`, "")
	_, res, err := r.run()
	if err != nil || !res.RewardValid {
		t.Fatalf("%v %+v", err, res.ExceptionInfo)
	}
	m := res.Harborgate.Metered[trials.PhaseAgentExecution]
	served := r.mock.Served()
	if m.Requests != 1 || m.CostUSD == nil || *m.CostUSD == 0 || m.Output != int64(served.Usage.Output) || m.Input != int64(served.Usage.Input) || m.CacheRead != int64(served.Usage.CacheRead) || m.CacheWrite != int64(served.Usage.CacheWrite) {
		t.Errorf("metered %+v, served %+v", m, served)
	}
	if len(m.Models) != 1 || m.Models[0].Model != "claude-sonnet-4-5" {
		t.Errorf("models %+v", m.Models)
	}
	got := r.mock.Requests()
	if len(got) != 1 || got[0].Header.Get("X-Api-Key") != realKey {
		t.Errorf("the upstream got %+v", got)
	}
	dir := filepath.Join(r.cfg.JobsDir, "job", res.TrialName)
	lines, err := os.ReadFile(filepath.Join(dir, requestsFile))
	if err != nil || strings.Count(string(lines), "\n") != 1 || !strings.Contains(string(lines), m.Grant) {
		t.Errorf("%s %v", lines, err)
	}
}

// What a token is worth ends with its phase: the verifier cannot use the agent's.
func TestGrantEndsWithTheAgentsPhase(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, askLine+`; echo "$ANTHROPIC_BASE_URL $ANTHROPIC_API_KEY" > /app/access`, "")
	dir := value(r.cfg.Datasets[0].Path)
	put(t, filepath.Join(dir, "a", "tests", "test.sh"), `#!/bin/sh
read url key < /app/access
[ -z "$ANTHROPIC_API_KEY" ] && ! curl -sf -H "x-api-key: $key" -d '`+ask+`' $url/v1/messages && echo 1 > /logs/verifier/reward.txt
`)
	_, res, err := r.run()
	if err != nil || !res.RewardValid {
		t.Fatalf("%v %+v", err, res.ExceptionInfo)
	}
	if n := len(r.mock.Requests()); n != 1 {
		t.Errorf("%d requests reached the upstream", n)
	}
}

func TestCredentialsOfTasksAreReplaced(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, `case $JUDGE in sk-*) exit 9;; esac; curl -sf -H "x-api-key: $JUDGE" -d '`+ask+`' $ANTHROPIC_BASE_URL/v1/messages`, "")
	r.cfg.Agents[0].ModelName = nil
	r.cfg.Agents[0].Env = trials.Env{"JUDGE": "${ANTHROPIC_API_KEY}"}
	r.cfg.Verifier.Env = trials.Env{"ANTHROPIC_API_KEY": "${ANTHROPIC_API_KEY}"}
	put(t, filepath.Join(value(r.cfg.Datasets[0].Path), "a", "tests", "test.sh"), "#!/bin/sh\n"+strings.ReplaceAll(askLine, "/logs/agent", "/logs/verifier")+"\necho 1 > /logs/verifier/reward.txt\n")
	_, res, err := r.run()
	if err != nil || !res.RewardValid {
		t.Fatalf("%v %+v", err, res.ExceptionInfo)
	}
	phases := res.Harborgate.Metered
	if phases[trials.PhaseAgentExecution].Requests != 1 || phases[trials.PhaseVerifier].Requests != 1 {
		t.Errorf("metered %+v", phases)
	}
	if notes := codes(res.Harborgate.Notes); notes["credential_replaced"] != 2 {
		t.Errorf("notes %v", res.Harborgate.Notes)
	}
}

func codes(notes []trials.Note) map[string]int {
	out := map[string]int{}
	for _, n := range notes {
		out[n.Code]++
	}
	return out
}

// Our own trouble is no verdict about the agent, whatever it made of it.
func TestModelsOutOfReachAreNobodysZero(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		step      mockllm.Step
		exception string
	}{
		"key refused":   {mockllm.Step{Status: http.StatusUnauthorized}, trials.ExcModelKey},
		"upstream down": {mockllm.Step{Reset: true}, trials.ExcModels},
		"overloaded":    {mockllm.Step{Status: 529}, trials.ExcModels},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newModelRig(t, askLine+" || true", "")
			r.mock.Always(func(mockllm.Request) mockllm.Step { return c.step })
			_, res, err := r.run()
			if err != nil || res.RewardValid || res.VerifierResult != nil || res.ExceptionInfo == nil || res.ExceptionInfo.Type != c.exception {
				t.Fatalf("%v valid %v, %+v", err, res.RewardValid, res.ExceptionInfo)
			}
			if res.Harborgate.Failure.Blame != trials.BlameInfrastructure {
				t.Errorf("blame %s", res.Harborgate.Failure.Blame)
			}
		})
	}
}

func TestTranscriptsAreKeptForWhoAsks(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, askLine, "")
	r.mock.Always(func(mockllm.Request) mockllm.Step { return mockllm.Step{Text: "Hello there"} })
	r.set.Transcripts = true
	_, res, err := r.run()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.cfg.JobsDir, "job", res.TrialName, transcriptsFile))
	if err != nil || !strings.Contains(string(text), "Hello there") || !strings.Contains(string(text), "max_tokens") {
		t.Errorf("%s %v", text, err)
	}
}

func TestTrialBudgetEndsTheTrial(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, strings.Repeat(strings.ReplaceAll(askLine, "|| exit 7", "")+"\n", 3), "")
	r.set.TrialBudget = 2_000_000 // one request may come to 0.0016 USD
	r.mock.Always(func(mockllm.Request) mockllm.Step { return mockllm.Step{Usage: &mockllm.Usage{Input: 10, Output: 100}} })
	_, res, err := r.run()
	if err != nil || res.ExceptionInfo == nil || res.ExceptionInfo.Type != trials.ExcBudget || res.Harborgate.Failure.Blame != trials.BlameAgent {
		t.Fatalf("%v %+v %+v %v", err, res.ExceptionInfo, res.Harborgate.Metered, r.mock.Requests())
	}
	m := res.Harborgate.Metered[trials.PhaseAgentExecution]
	if m.Refused == 0 || m.CostUSD == nil || *m.CostUSD > 0.002 || m.Requests-m.Refused != int64(len(r.mock.Requests())) {
		t.Errorf("metered %+v, %d arrived", m, len(r.mock.Requests()))
	}
}

// A job whose money is gone stops, and goes on with more: the budget counts what
// earlier processes spent.
func TestJobBudgetStopsTheJobAndResumeGoesOn(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, askLine+"\n"+askLine, "")
	r.set.Budget = 2_000_000
	r.mock.Always(func(mockllm.Request) mockllm.Step { return mockllm.Step{Usage: &mockllm.Usage{Input: 10, Output: 100}} })
	s, res, err := r.run()
	var spent *BudgetError
	if !errors.As(err, &spent) || !strings.Contains(err.Error(), "--budget-usd") || !res.Cancelled() {
		t.Fatalf("%v, %+v", err, res.ExceptionInfo)
	}
	if s.Result.Harborgate.Interrupted == "" || s.Result.Harborgate.Budgets.Job != "0.002" {
		t.Errorf("job %+v", s.Result.Harborgate)
	}
	r.set = Settings{} // the budget is remembered
	if _, _, err = r.run(); !errors.As(err, &spent) {
		t.Fatalf("a resume has a budget of its own: %v", err)
	}
	r.set.Budget = 20_000_000
	s, res, err = r.run()
	if err != nil || !res.RewardValid {
		t.Errorf("%v %+v", err, res.ExceptionInfo)
	}
	// two requests of this try, and one of each that was cut before it
	if got := s.Result.Harborgate.SpentUSD; got != "0.00459" {
		t.Errorf("spent %s, in %d requests", got, len(r.mock.Requests()))
	}
}

// What is wrong with a proxy is said before anything runs, to those who need it.
func TestBrokenUpstreamStopsOnlyJobsThatWantModels(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, "true", "upstreams: {anthropic: {dialect: anthropic, keys: [\"file:/no/such/key\"]}}\n")
	if _, _, err := r.run(); err == nil || !strings.Contains(err.Error(), "/no/such/key") {
		t.Errorf("got %v", err)
	}
	oracle := "oracle"
	r.cfg.Agents = trials.List[trials.AgentConfig]{{Name: &oracle}}
	r.cfg.JobName = "oracle"
	if _, _, err := r.run(); err != nil {
		t.Errorf("an oracle wants no models: %v", err)
	}
}

func TestDayBudgetCountsOtherJobs(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, askLine, priced+"budgets: {day: 0.002}\n")
	r.mock.Always(func(mockllm.Request) mockllm.Step {
		return mockllm.Step{Usage: &mockllm.Usage{Input: 700, Output: 100}}
	})
	if _, res, err := r.run(); err != nil || !res.RewardValid {
		t.Fatalf("%v %+v", err, res.ExceptionInfo)
	}
	other := r.app.newModels(t.Context(), Settings{}, user{
		name: "other", id: "7e0c1f0e-0000-4000-8000-000000000000", trialDir: func(string) string { return t.TempDir() },
	}, slog.New(slog.DiscardHandler))
	if _, err := other.proxy(); err == nil || !strings.Contains(err.Error(), "budgets.day") {
		t.Errorf("got %v", err)
	}
	if err := other.close(); err != nil {
		t.Error(err)
	}
}

// What others spent is of today: a job that runs past midnight has the whole of the
// next day's budget.
func TestDayBudgetOfTomorrowIsWhole(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, askLine, priced+"budgets: {day: 0.01}\n")
	if _, res, err := r.run(); err != nil || !res.RewardValid {
		t.Fatalf("%v %+v", err, res.ExceptionInfo)
	}
	c, err := r.app.jobConfig("another job")
	now := time.Now()
	if err != nil || c.Budgets.Day.String() != "0.01" || c.Budgets.SpentElsewhere(now) == 0 || c.Budgets.SpentElsewhere(now.Add(24*time.Hour)) != 0 {
		t.Errorf("%+v %v", c.Budgets, err)
	}
}

// A budget must not vanish because somebody damaged what remembers it.
func TestDamagedBudgetIsNotForgotten(t *testing.T) {
	t.Parallel()
	past := &Past{}
	past.Result.Harborgate = &trials.JobExtra{Budgets: &trials.Budgets{Job: "5,00", Trial: "0.5"}}
	if _, err := (Settings{}).over(past); err == nil || !strings.Contains(err.Error(), "--budget-usd") {
		t.Errorf("got %v", err)
	}
	if s, err := (Settings{Budget: 7}).over(past); err != nil || s.Budget != 7 || s.TrialBudget.String() != "0.5" {
		t.Errorf("%+v %v", s, err)
	}
}

func TestModelsAreServedByTheirProvidersUpstream(t *testing.T) {
	t.Parallel()
	m := &models{upstreams: []upstream{{name: "anthropic", dialect: "anthropic"}, {name: "corp", dialect: "openai"}, {name: "gemini", dialect: "gemini"}, {name: "or", dialect: "openrouter"}}}
	for model, want := range map[string]string{
		"anthropic/claude-x": "anthropic claude-x", "corp/gpt": "corp gpt", "openai/gpt": "corp gpt", "google/gemini-3": "gemini gemini-3",
		"openrouter/anthropic/claude-x": "or anthropic/claude-x", "claude-x": "anthropic claude-x", "o3-mini": "corp o3-mini", "deepseek/r1": "", "llama": "", "": "",
	} {
		up, name, ok := m.serving(model)
		if got := strings.TrimSpace(up.name + " " + name); ok != (want != "") || got != want {
			t.Errorf("%q: %q, want %q", model, got, want)
		}
	}
}

func TestModelsThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	command, claude := "command", "claude-code"
	m := &models{upstreams: []upstream{
		{name: "a", dialect: "anthropic"}, {name: "b", dialect: "anthropic"}, {name: "c", dialect: "openai"}, {name: "d", dialect: "openai", keys: []string{"OPENAI_API_KEY"}},
	}}
	for _, c := range []struct {
		agent *string
		model string
		said  string
	}{
		{&command, "anthropic/claude", "several upstreams, a, b"}, {&command, "b/claude", ""}, {&command, "openai/gpt", ""},
		{&command, "antropic/claude", "did you mean anthropic/claude"}, {&command, "mylab/llama", ""},
		{&claude, "openai/gpt", "speaks anthropic"}, {&claude, "mylab/llama", "no upstream serves"},
	} {
		_, err := m.suits(trials.AgentConfig{Name: c.agent, ModelName: &c.model})
		if (err != nil) != (c.said != "") || err != nil && !strings.Contains(err.Error(), c.said) {
			t.Errorf("%s %s: %v, want %q", *c.agent, c.model, err, c.said)
		}
	}
	m.lookup = variables(map[string]string{"EMPTY": ""})
	one := &models{upstreams: []upstream{{name: "anthropic", dialect: "anthropic"}, {name: "openai", dialect: "openai"}}, lookup: m.lookup}
	sonnet, other := "sonnet", "deepseek/r1"
	if _, err := one.suits(trials.AgentConfig{Name: &claude, ModelName: &sonnet}); err == nil || !strings.Contains(err.Error(), "did you mean anthropic/sonnet?") {
		t.Errorf("a model without a provider: %v", err)
	}
	if _, err := one.suits(trials.AgentConfig{Name: &claude, ModelName: &other, Env: trials.Env{"ANTHROPIC_API_KEY": "${EMPTY}"}}); err == nil || !strings.Contains(err.Error(), "ANTHROPIC_API_KEY of the agent (--ae) refers to EMPTY") {
		t.Errorf("a variable that is not set: %v", err)
	}
	if up, _, _ := m.serving("openai/gpt"); up.name != "d" {
		t.Errorf("the provider's name means %s", up.name)
	}
	m.set.Budget = 1
	other = "mylab/llama"
	if _, err := m.suits(trials.AgentConfig{Name: &command, ModelName: &other}); err == nil || !strings.Contains(err.Error(), "budget") {
		t.Errorf("a budget that holds nothing: %v", err)
	}
}

func TestGuardGoesByNameAndValue(t *testing.T) {
	t.Parallel()
	host := variables(map[string]string{"ANTHROPIC_API_KEY": realKey, "GROQ_API_KEY": "gsk-groq-1"})
	env := map[string]string{"ANTHROPIC_API_KEY": "x", "JUDGE": realKey, "GROQ_API_KEY": "gsk-groq-1", "PLAIN": "1", "OPENAI_API_KEY": ""}
	m := &models{lookup: host, upstreams: []upstream{{name: "main", dialect: "anthropic", keys: []string{"ANTHROPIC_API_KEY"}}}}
	for phase, wantGroq := range map[trials.Phase]bool{trials.PhaseAgentExecution: false, trials.PhaseVerifier: true} {
		guarded, replaced, _ := m.Guard(phase, nil, env)
		_, groq := guarded["GROQ_API_KEY"]
		if !maps.Equal(replaced, map[string]string{"ANTHROPIC_API_KEY": "main", "JUDGE": "main"}) || groq != wantGroq || guarded["PLAIN"] != "1" || guarded["JUDGE"] != "" {
			t.Errorf("%s: %v, replaced %v", phase, guarded, replaced)
		}
	}
	m.set.PassCredentials = true
	if guarded, replaced, notes := m.Guard(trials.PhaseAgentExecution, nil, env); !maps.Equal(guarded, env) || replaced != nil || len(notes) != 3 {
		t.Errorf("%v %v %v", guarded, replaced, notes)
	}
	model := "anthropic/claude"
	g, err := m.Grant(context.Background(), runner.Want{Agent: &trials.AgentConfig{ModelName: &model}})
	if g != nil || err != nil {
		t.Errorf("a grant beside the key: %v %v", g, err)
	}
}
