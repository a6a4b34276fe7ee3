package app

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"harborgate/authproxy"
	"harborgate/configs"
	"harborgate/trials"
)

const otherKey = "sk-other-0123456789abcdef"

func agentOf(name, model string, change func(*trials.AgentConfig)) trials.AgentConfig {
	a := trials.AgentConfig{Name: &name}
	if model != "" {
		a.ModelName = &model
	}
	if change != nil {
		change(&a)
	}
	return a
}

// endpointModels are the models of a job with one agent, on a host with a
// configuration and variables.
func endpointModels(t *testing.T, config string, host map[string]string, a trials.AgentConfig) *models {
	t.Helper()
	env := map[string]string{"HARBOR_CONFIG": filepath.Join(t.TempDir(), "config.yaml")}
	for k, v := range host {
		env[k] = v
	}
	put(t, env["HARBOR_CONFIG"], config)
	app := newApp(t, hostOf(t, env))
	return app.newModels(t.Context(), Settings{}, user{name: "j", id: "i", agents: []trials.AgentConfig{a}}, slog.New(slog.DiscardHandler))
}

func flags(base, key, format string) func(*trials.AgentConfig) {
	return func(a *trials.AgentConfig) {
		for to, v := range map[**string]string{&a.BaseURL: base, &a.ModelAPIKeyName: key, &a.ModelAPIFormat: format} {
			if v != "" {
				*to = &v
			}
		}
	}
}

func given(env trials.Env) func(*trials.AgentConfig) {
	return func(a *trials.AgentConfig) { a.Env = env }
}

func TestEndpointsOfAgents(t *testing.T) {
	t.Parallel()
	const own = `upstreams: {main: {dialect: anthropic, keys: ["env:MAIN"], limits: {concurrent: 3}}, gateway: {dialect: openai, base_url: "https://llm.example.com/v1", keys: ["env:MAIN"]}}`
	for name, c := range map[string]struct {
		config string
		host   map[string]string
		agent  trials.AgentConfig
		// want is the upstream of the agent's model, its dialect, base URL, where its
		// key is, and the model's name there.
		want string
	}{
		"flags": {
			host:  map[string]string{"COMPANY_KEY": otherKey},
			agent: agentOf("claude-code", "anthropic/claude-x", flags("https://llm.example.com/anthropic/v1/", "COMPANY_KEY", "")),
			want:  "anthropic anthropic https://llm.example.com/anthropic env:COMPANY_KEY claude-x",
		},
		"beside the shell's": {
			host:  map[string]string{"OPENAI_API_KEY": realKey, "COMPANY_KEY": otherKey},
			agent: agentOf("codex", "openai/gpt-5", flags("https://llm.example.com/v1", "COMPANY_KEY", "openai_responses")),
			want:  "openai-2 openai https://llm.example.com/v1 env:COMPANY_KEY gpt-5",
		},
		"with the key of the shell": {
			host:  map[string]string{"OPENAI_API_KEY": realKey},
			agent: agentOf("codex", "openai/gpt-5", flags("https://llm.example.com/v1", "", "")),
			want:  "openai-2 openai https://llm.example.com/v1 env:OPENAI_API_KEY gpt-5",
		},
		"a server of one's own wants no key": {
			agent: agentOf("command", "meta-llama/Llama-3", flags("http://10.0.0.5:8000/v1", "", "")),
			want:  "openai openai http://10.0.0.5:8000/v1 none meta-llama/Llama-3",
		},
		"format": {
			agent: agentOf("command", "house/m", flags("http://127.0.0.1:9", "", "anthropic_messages")),
			want:  "anthropic anthropic http://127.0.0.1:9 none house/m",
		},
		"another key of a configured upstream": {
			config: own, host: map[string]string{"COMPANY_KEY": otherKey},
			agent: agentOf("claude-code", "main/claude-x", flags("", "COMPANY_KEY", "")),
			want:  "anthropic anthropic  env:COMPANY_KEY claude-x limit 3",
		},
		"a base URL that is configured": {
			config: own, agent: agentOf("codex", "openai/gpt-5", flags("https://llm.example.com/v1/", "", "")),
			want: "gateway openai https://llm.example.com/v1 env:MAIN gpt-5",
		},
		"variables": {
			agent: agentOf("codex", "openai/gpt-5", given(trials.Env{"OPENAI_API_KEY": otherKey, "OPENAI_BASE_URL": "https://llm.example.com/v1"})),
			want:  "openai openai https://llm.example.com/v1 env:AE_OPENAI_API_KEY gpt-5",
		},
		"a variable of the host under another name": {
			host:  map[string]string{"OPENAI_API_KEY": realKey, "TEAM_KEY": otherKey},
			agent: agentOf("codex", "openai/gpt-5", given(trials.Env{"OPENAI_API_KEY": "${TEAM_KEY}"})),
			want:  "openai-2 openai  env:TEAM_KEY gpt-5",
		},
		"the usual key": {
			config: own, host: map[string]string{"ANTHROPIC_API_KEY": realKey},
			agent: agentOf("claude-code", "anthropic/claude-x", given(trials.Env{"ANTHROPIC_API_KEY": "${ANTHROPIC_API_KEY}"})),
			want:  "main anthropic  env:MAIN claude-x limit 3",
		},
		"the usual key, written out by the shell": {
			host:  map[string]string{"ANTHROPIC_API_KEY": realKey},
			agent: agentOf("claude-code", "anthropic/claude-x", given(trials.Env{"ANTHROPIC_API_KEY": realKey})),
			want:  "anthropic anthropic  env:ANTHROPIC_API_KEY claude-x",
		},
		"flags before variables": {
			host: map[string]string{"COMPANY_KEY": otherKey},
			agent: agentOf("codex", "openai/gpt-5", func(a *trials.AgentConfig) {
				flags("https://a.example.com/v1", "COMPANY_KEY", "")(a)
				a.Env = trials.Env{"OPENAI_BASE_URL": "https://b.example.com/v1"}
			}),
			want: "openai openai https://a.example.com/v1 env:COMPANY_KEY gpt-5",
		},
		"a token of a gateway": {
			agent: agentOf("claude-code", "claude-x", given(trials.Env{"ANTHROPIC_AUTH_TOKEN": otherKey, "ANTHROPIC_BASE_URL": "https://llm.example.com"})),
			want:  "anthropic anthropic https://llm.example.com env:AE_ANTHROPIC_AUTH_TOKEN bearer claude-x",
		},
		"none of its own": {
			host: map[string]string{"ANTHROPIC_API_KEY": realKey}, agent: agentOf("claude-code", "anthropic/claude-x", given(trials.Env{"PLAIN": "1", "OPENAI_BASE_URL": "https://b.example.com/v1"})),
			want: "anthropic anthropic  env:ANTHROPIC_API_KEY claude-x",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := endpointModels(t, c.config, c.host, c.agent)
			if m.own.err != nil || m.err != nil {
				t.Fatal(m.own.err, m.err)
			}
			up, model, ok := m.serves(&c.agent)
			if !ok {
				t.Fatalf("nothing serves it: %+v", m.upstreams)
			}
			conf, isOwn := m.own.upstreams[up.name]
			if !isOwn {
				all, err := ProxyConfig(endpointHost(t, c.config), m.lookup)
				if err != nil {
					t.Fatal(err)
				}
				conf = all.Upstreams[up.name]
			}
			got := fmt.Sprint(up.name, " ", conf.Dialect, " ", conf.BaseURL, " ", keyText(conf), " ", model)
			if n := conf.Limits.Concurrent; n > 0 {
				got += fmt.Sprint(" limit ", n)
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func keyText(u authproxy.Upstream) string {
	var parts []string
	for _, k := range u.Keys {
		parts = append(parts, string(k))
	}
	if u.KeyIn != "" {
		parts = append(parts, string(u.KeyIn))
	}
	return strings.Join(parts, " ")
}

func TestEndpointMistakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		agent trials.AgentConfig
		want  string
	}{
		"plain http":       {agentOf("codex", "openai/m", flags("http://llm.example.com/v1", "KEY", "")), "plain http would show the key"},
		"no URL":           {agentOf("codex", "openai/m", flags("llm.example.com", "KEY", "")), "cannot be read"},
		"key in the URL":   {agentOf("codex", "openai/m", flags("https://u:"+otherKey+"@llm.example.com/v1", "KEY", "")), "keys go to keys"},
		"no such variable": {agentOf("codex", "openai/m", flags("https://llm.example.com/v1", "NO_SUCH", "")), "the variable NO_SUCH is not set"},
		"no key":           {agentOf("codex", "openai/m", flags("https://llm.example.com/v1", "", "")), "export OPENAI_API_KEY, or name"},
		"other format":     {agentOf("claude-code", "anthropic/m", flags("https://llm.example.com", "KEY", "openai_responses")), "claude-code does not speak openai_responses (--api-format): it speaks anthropic_messages"},
		"chat for codex":   {agentOf("codex", "openai/m", flags("https://llm.example.com", "KEY", "openai_chat_completions")), "it speaks openai_responses"},
		"bedrock":          {agentOf("command", "m", flags("https://llm.example.com", "KEY", "bedrock_converse")), "the auth proxy does not speak it"},
		"metadata":         {agentOf("codex", "openai/m", given(trials.Env{"OPENAI_BASE_URL": "ftp://x", "OPENAI_API_KEY": otherKey})), "neither https nor http"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := endpointModels(t, "", map[string]string{"KEY": realKey}, c.agent)
			if m.own.err == nil || !strings.Contains(m.own.err.Error(), c.want) {
				t.Fatalf("got %v", m.own.err)
			}
			if strings.Contains(m.own.err.Error(), otherKey) {
				t.Errorf("a key is in %v", m.own.err)
			}
		})
	}
}

func endpointHost(t *testing.T, config string) configs.Host {
	t.Helper()
	if config == "" {
		return configs.Host{}
	}
	return configured(t, config)
}

// askOpenAI asks once in the format of OpenAI, and keeps the answer.
const askOpenAI = `curl -sf -H "Authorization: Bearer $OPENAI_API_KEY" -d '{"model":"gpt-5","max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}' $OPENAI_BASE_URL/chat/completions > /logs/agent/answer.json || exit 7; env > /logs/agent/env.txt`

// brings gives the rig's agent an endpoint of its own: the rig's mock, in a format
// that no configuration has.
func (r *modelRig) brings(change func(a *trials.AgentConfig, base string)) {
	a := agentOf("command", "openai/gpt-5", nil)
	a.Kwargs = map[string]any{"command": askOpenAI}
	change(&a, r.url+"/v1")
	r.cfg.Agents = trials.List[trials.AgentConfig]{a}
}

func (r *modelRig) asked(key string) {
	r.t.Helper()
	got := r.mock.Requests()
	if len(got) != 1 || got[0].Header.Get("Authorization") != "Bearer "+key || got[0].Path != "/v1/chat/completions" {
		r.t.Errorf("the upstream got %+v", got)
	}
}

// What a user gives an agent with --ae is what the proxy uses, and never reaches the
// sandbox.
func TestKeysAndURLsOfAgentsAreTheProxys(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, "", "")
	r.brings(func(a *trials.AgentConfig, base string) {
		a.Env = trials.Env{"OPENAI_API_KEY": otherKey, "OPENAI_BASE_URL": base, "OPENAI_API_BASE": base}
	})
	_, res, err := r.run()
	if err != nil || !res.RewardValid {
		t.Fatalf("%v %+v", err, res.ExceptionInfo)
	}
	r.asked(otherKey)
	if codes := codes(res.Harborgate.Notes); codes["credential_replaced"] != 1 || codes["endpoint"] != 2 {
		t.Errorf("notes %v", res.Harborgate.Notes)
	}
	canary(t, r.cfg.JobsDir, otherKey)
	canary(t, r.app.Dirs.State, otherKey)
	canary(t, filepath.Join(r.cfg.JobsDir, "job", res.TrialName, "agent"), r.url)
}

func TestEndpointThatTheServiceDoesNotKnow(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, "", "")
	socket := r.serve()
	r.brings(func(a *trials.AgentConfig, base string) {
		a.Env = trials.Env{"OPENAI_API_KEY": otherKey}
		a.BaseURL = &base
	})
	s, res, err := r.run()
	if err != nil || !res.RewardValid {
		t.Fatalf("%v %+v", err, res.ExceptionInfo)
	}
	r.asked(otherKey)
	if notes := fmt.Sprint(s.Result.Harborgate.Notes); !strings.Contains(notes, socket) || !strings.Contains(notes, "a proxy of its own") {
		t.Errorf("notes %s", notes)
	}
}

func TestEndpointThatTheServiceHas(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, "", `upstreams: {house: {dialect: openai, base_url: "UPSTREAM/v1/", keys: ["env:ANTHROPIC_API_KEY"], local: true, prices: {"*": {input: 1, output: 1}}}}`)
	r.serve()
	r.brings(func(a *trials.AgentConfig, base string) { a.BaseURL = &base })
	s, res, err := r.run()
	if err != nil || !res.RewardValid {
		t.Fatalf("%v %+v", err, res.ExceptionInfo)
	}
	r.asked(realKey)
	if len(s.Result.Harborgate.Notes) != 0 {
		t.Errorf("notes %v", s.Result.Harborgate.Notes)
	}
}

// People who have exported a base URL expect it to be used, or to hear why not.
func TestBaseURLOfTheShellIsUsedOrNamed(t *testing.T) {
	t.Parallel()
	a := agentOf("codex", "openai/gpt-5", nil)
	all := []trials.AgentConfig{a}
	host := map[string]string{"OPENAI_API_KEY": realKey, "OPENAI_BASE_URL": "https://llm.example.com/v1/"}
	m := endpointModels(t, "", host, a)
	if up, _, ok := m.serves(&a); !ok || up.base != "https://llm.example.com/v1" || strings.Contains(fmt.Sprint(m.remarks(all)), "of the shell") {
		t.Errorf("%+v %v", up, m.remarks(all))
	}
	m = endpointModels(t, `upstreams: {main: {dialect: openai, keys: ["env:OPENAI_API_KEY"]}}`, host, a)
	if got := fmt.Sprint(m.remarks(all)); !strings.Contains(got, "OPENAI_BASE_URL of the shell is not used: upstream main") {
		t.Errorf("got %s", got)
	}
}

// What one agent brings serves no other one, and no verifier.
func TestEndpointsAreTheirAgentsAlone(t *testing.T) {
	t.Parallel()
	a := agentOf("codex", "openai/gpt-5", given(trials.Env{"OPENAI_API_KEY": otherKey, "OPENAI_BASE_URL": "https://llm.example.com/v1"}))
	m := endpointModels(t, "", nil, a)
	other := agentOf("codex", "openai/gpt-5", nil)
	if up, _, ok := m.serves(&other); ok {
		t.Errorf("another agent gets %+v", up)
	}
	if _, err := m.suits(other); err == nil || !strings.Contains(err.Error(), "no upstream serves") {
		t.Errorf("got %v", err)
	}
	got, replaced, _ := m.Guard(trials.PhaseVerifier, nil, trials.Env{"OPENAI_API_KEY": "sk-of-the-verifier"})
	if got["OPENAI_API_KEY"] != "sk-of-the-verifier" || replaced != nil {
		t.Errorf("the verifier gets %v, %v", got, replaced)
	}
	if got, replaced, _ = m.Guard(trials.PhaseVerifier, nil, trials.Env{"JUDGE": otherKey}); got["JUDGE"] != "" || replaced["JUDGE"] != "openai" {
		t.Errorf("the agent's key gets into a verifier: %v, %v", got, replaced)
	}
}

func TestServerOfOnesOwnWithoutKey(t *testing.T) {
	t.Parallel()
	c, err := ProxyConfig(configs.Host{}, variables(map[string]string{"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "ANTHROPIC_BASE_URL": "https://llm.example.com", "GEMINI_API_BASE": "http://127.0.0.1:9/v1beta"}))
	if err != nil || len(c.Upstreams) != 2 || c.Upstreams["openai"].KeyIn != "none" || c.Upstreams["gemini"].BaseURL != "http://127.0.0.1:9" {
		t.Errorf("%+v %v", c.Upstreams, err)
	}
}
