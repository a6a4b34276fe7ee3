package app

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"harborgate/providers/fake"
	"harborgate/trials"
	"harborgate/trials/runner"
)

// What would be refused in every trial is said before one runs, by a dry run too, and
// leaves no job.
func TestModelsThatWouldBeRefusedAreSaidFirst(t *testing.T) {
	t.Parallel()
	const served = "anthropic: {dialect: anthropic, base_url: \"UPSTREAM\", keys: [\"env:ANTHROPIC_API_KEY\"], local: true, attempts: 1"
	const searchless = "openai: {dialect: openai, base_url: \"UPSTREAM/v1\", keys: [\"env:ANTHROPIC_API_KEY\"], local: true, prices: {g-9: {input: 1, output: 2}}}"
	const google = "google: {dialect: gemini, base_url: \"UPSTREAM\", keys: [\"env:ANTHROPIC_API_KEY\"], local: true}"
	for name, c := range map[string]struct {
		config, agent, model string
		set                  Settings
		said                 string // "" is nothing
	}{
		"another model":            {served + ", models: [claude-haiku-*]}", "command", "anthropic/claude-sonnet-4-5", Settings{}, "upstream anthropic serves claude-haiku-* only, and not claude-sonnet-4-5"},
		"a dated form of it":       {served + ", models: [claude-sonnet-4-5-20250929]}", "command", "anthropic/claude-sonnet-4-5", Settings{}, ""},
		"no price for the job":     {served + "}", "command", "anthropic/claudia-9", Settings{Budget: 1}, "model claudia-9 has no price, so that --budget-usd would let"},
		"no price for the trial":   {served + "}", "command", "anthropic/claudia-9", Settings{TrialBudget: 1}, "--trial-budget-usd"},
		"no price for the day":     {served + "}}\nbudgets: {day: 5", "command", "anthropic/claudia-9", Settings{}, "budgets.day"},
		"no price no budget":       {served + "}", "command", "anthropic/claudia-9", Settings{}, ""},
		"no price for searches":    {searchless, "codex", "openai/g-9", Settings{Budget: 1}, "no price for the provider's search, which agent codex offers it"},
		"searches no budget":       {searchless, "codex", "openai/g-9", Settings{}, ""},
		"a path of two parts":      {google, "gemini-cli", "google/tunedModels/x1", Settings{}, "have the model's name in their path"},
		"a name with its kind":     {google, "gemini-cli", "google/models/gemini-2.5-pro", Settings{}, "write -m gemini/gemini-2.5-pro"},
		"a name with a space":      {google, "opencode", "google/foo bar", Settings{}, "have the model's name in their path"},
		"a larger context":         {served + ", models: [claude-sonnet-4-5]}", "claude-code", "anthropic/claude-sonnet-4-5[1m]", Settings{}, ""},
		"searches nobody asks for": {searchless, "command", "openai/g-9", Settings{Budget: 1}, ""},
	} {
		for _, service := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newModelRig(t, "true", "upstreams: {"+c.config+"}\n")
				if service {
					r.serve()
				}
				a := &r.cfg.Agents[0]
				if a.Name, a.ModelName = &c.agent, &c.model; c.agent != "command" {
					a.Kwargs = nil
				}
				r.set = c.set
				r.refused(c.said)
			})
		}
	}
}

// refused holds the plan's check and its start against what is to be said.
func (r *modelRig) refused(said string) {
	r.t.Helper()
	plan, err := NewPlan(r.cfg, "5e0c1f0e-0000-4000-8000-000000000000")
	if err != nil {
		r.t.Fatal(err)
	}
	wrong := func(err error) bool {
		return (err != nil) != (said != "") || err != nil && !strings.Contains(err.Error(), said)
	}
	if _, err = r.app.CheckModels(r.t.Context(), plan, r.set); wrong(err) {
		r.t.Errorf("dry: %v, want %q", err, said)
	}
	p := fake.New(fake.Options{})
	defer p.Close()
	j, err := r.app.StartJob(plan, Alone(p), r.set)
	if wrong(err) {
		r.t.Errorf("%v, want %q", err, said)
	}
	if err == nil {
		err = j.Close()
	} else if _, serr := os.Stat(plan.Dir()); serr == nil {
		err = &fs.PathError{Op: "start", Path: plan.Dir(), Err: fs.ErrExist}
	} else {
		err = nil
	}
	if err != nil {
		r.t.Error(err)
	}
}

// A job whose day's budget is used up leaves nothing that stands in the way of the next.
func TestAStartThatTheDayRefusesLeavesNoDirectory(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, askLine, priced+"budgets: {day: 0.0001}\n")
	dir := filepath.Join(r.app.authDir(), "jobs", "other")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	today := time.Now().UTC().Format(time.DateOnly)
	put(t, filepath.Join(dir, "ledger.jsonl"), fmt.Sprintf(`{"a":"day/%s","n":{"usd":"0.001"},"t":%d}`+"\n", today, time.Now().Unix()))
	r.refused("budgets.day")
}

// Who names a socket on purpose is told that the job does without.
func TestASocketOfAVariableThatNobodyAnswersIsSaid(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, askLine, "")
	plan, err := NewPlan(r.cfg, "5e0c1f0e-0000-4000-8000-000000000000")
	if err != nil {
		t.Fatal(err)
	}
	notes, err := r.app.CheckModels(t.Context(), plan, r.set)
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0].Message, "auth.sock, which HARBOR_AUTH_SOCKET names") {
		t.Errorf("%+v %v", notes, err)
	}
	r.serve()
	if notes, err = r.app.CheckModels(t.Context(), plan, r.set); err != nil || len(notes) != 0 {
		t.Errorf("with a service: %+v %v", notes, err)
	}
}

// What follows a provider that everybody knows is checked without a look at the host.
func TestNamesThatDoNotFitIntoAPathAreMistakesOfTheCommandLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		agent, model, format string
		ok                   bool
	}{
		{"gemini-cli", "gemini/tunedModels/x1", "", false},
		{"pi", "gemini/foo:bar", "", false},
		{"pi", "gemini/föö", "", false},
		{"opencode", "openai/foo/bar", "google_generate_content", false},
		{"gemini-cli", "gemini/gemini-2.5-pro", "", true},
		{"gemini-cli", "mine/gemini-2.5-pro", "", true}, // an upstream may be called so
		{"pi", "openrouter/qwen/qwen3:free", "", true},
	} {
		a := trials.AgentConfig{Name: &c.agent, ModelName: &c.model}
		if c.format != "" {
			a.ModelAPIFormat = &c.format
		}
		if err := checkEndpoint(a); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Claude Code asks for the model without the end that is about its context.
func TestAGrantIsForTheModelThatTheAgentAsksFor(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, "true", priced)
	name, model := "claude-code", "anthropic/claude-sonnet-4-5[1m]"
	r.cfg.Agents[0] = trials.AgentConfig{Name: &name, ModelName: &model}
	m := r.app.newModels(t.Context(), Settings{}, user{name: "job", id: "id", agents: r.cfg.Agents}, r.app.log)
	t.Cleanup(func() { _ = m.close() })
	_, spec := m.spec(runner.Want{Trial: "t", Phase: trials.PhaseAgentExecution, Agent: &r.cfg.Agents[0]})
	if len(spec.Models) != 2 || spec.Models[0] != "claude-sonnet-4-5" {
		t.Errorf("granted %v", spec.Models)
	}
}
