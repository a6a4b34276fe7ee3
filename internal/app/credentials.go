package app

import (
	"fmt"
	"maps"
	"slices"

	"harborgate/agents"
	"harborgate/tasks"
	"harborgate/trials"
)

// modelCredentials are the variables under which model providers' keys are
// known, with the dialect of their upstream where one of ours speaks it.
func modelCredentials() map[string]string {
	return map[string]string{
		"ANTHROPIC_API_KEY": "anthropic", "ANTHROPIC_AUTH_TOKEN": "anthropic", "CLAUDE_CODE_OAUTH_TOKEN": "anthropic",
		"OPENAI_API_KEY": "openai", "CODEX_API_KEY": "openai", "OPENROUTER_API_KEY": "openrouter",
		"GEMINI_API_KEY": "gemini", "GOOGLE_API_KEY": "gemini", "GOOGLE_GENERATIVE_AI_API_KEY": "gemini",
		"DEEPSEEK_API_KEY": "", "GROQ_API_KEY": "", "MISTRAL_API_KEY": "", "XAI_API_KEY": "", "TOGETHER_API_KEY": "",
		"TOGETHERAI_API_KEY": "", "FIREWORKS_API_KEY": "", "CEREBRAS_API_KEY": "", "COHERE_API_KEY": "",
		"PERPLEXITYAI_API_KEY": "", "MINIMAX_API_KEY": "", "MOONSHOT_API_KEY": "", "KIMI_API_KEY": "", "DASHSCOPE_API_KEY": "",
		"ZAI_API_KEY": "", "NVIDIA_API_KEY": "", "AZURE_API_KEY": "", "AZURE_OPENAI_API_KEY": "", "AI_GATEWAY_API_KEY": "",
		"VERCEL_AI_GATEWAY_API_KEY": "", "AWS_BEARER_TOKEN_BEDROCK": "", "AWS_SECRET_ACCESS_KEY": "",
		"AWS_SESSION_TOKEN": "", "LLM_API_KEY": "", "MSWEA_API_KEY": "",
	}
}

// Guard implements runner.Credentials: the key of an upstream is replaced by a
// grant. Another model credential is kept from agents; a verifier, which runs when
// the agent is dead, gets it. Endpoints that an agent's variables describe are
// upstreams, too.
func (m *models) Guard(phase trials.Phase, agent *trials.AgentConfig, env map[string]string) (guarded, replaced map[string]string, notes []trials.Note) {
	out := maps.Clone(env)
	own := m.ownVariables(agent)
	note := func(code, format string, args ...any) {
		notes = append(notes, trials.Note{Code: code, Message: fmt.Sprintf(format, args...)})
	}
	who := "the agent"
	if phase == trials.PhaseVerifier {
		who = "the verifier"
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		up, known := own[name]
		if known && up == "" {
			delete(out, name)
			note("endpoint", "%s is the base URL of an upstream of the auth proxy for %s; in the sandbox it is the proxy's", name, who)
			continue
		}
		if !known {
			up, known = m.credential(name, env[name])
		}
		switch {
		case !known:
		case m.set.PassCredentials:
			note("credential_passed", "%s was put into the sandbox for %s because of --pass-credentials", name, who)
		case up != "":
			delete(out, name)
			if replaced == nil {
				replaced = map[string]string{}
			}
			replaced[name] = up
			note("credential_replaced", "%s is a token of the auth proxy for %s, which leads to upstream %s; the key stays on the host", name, who, up)
		case phase == trials.PhaseVerifier:
			note("credential_passed", "%s was put into the sandbox for %s: there is no upstream for it (see docs/auth-proxy.md)", name, who)
		default:
			delete(out, name)
			note("credential_withheld", "%s was not put into the sandbox for %s: model credentials stay on the host, and there is no upstream for it (see docs/auth-proxy.md; --pass-credentials passes it)", name, who)
		}
	}
	return out, replaced, notes
}

// credential reports whether a variable holds a model credential, and of which
// upstream; "" is of none of ours. It goes by the name, and by the value: a key
// under another name is still the key.
func (m *models) credential(name, value string) (up string, known bool) {
	if value == "" {
		return "", false
	}
	all := modelCredentials()
	for _, n := range append([]string{name}, m.sameValue(all, value)...) {
		if up := m.byVariable(n); up != "" {
			return up, true
		}
		dialect, ok := all[n]
		known = known || ok
		if i := slices.IndexFunc(m.upstreams, func(u upstream) bool { return ok && u.dialect == dialect }); i >= 0 {
			return m.upstreams[i].name, true
		}
	}
	up = m.holder(value)
	return up, known || up != ""
}

// holder asks the proxy, when it is open.
func (m *models) holder(value string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open == nil {
		return ""
	}
	return m.open.holder(value)
}

// byVariable is the upstream whose key is in a variable of the host.
func (m *models) byVariable(name string) string {
	for _, u := range slices.Concat(m.upstreams, m.own.list) {
		if slices.Contains(u.keys, name) {
			return u.name
		}
	}
	return ""
}

// sameValue lists variables of the host that hold a model credential of this value.
func (m *models) sameValue(all map[string]string, value string) []string {
	names := slices.Collect(maps.Keys(all))
	for _, u := range slices.Concat(m.upstreams, m.own.list) {
		names = append(names, u.keys...)
	}
	slices.Sort(names)
	var out []string
	for _, name := range slices.Compact(names) {
		if v, ok := m.lookup(name); ok && v == value {
			out = append(out, name)
		}
	}
	return out
}

// needed reports whether a plan wants models or their credentials, so that what is
// wrong with the proxy is said before anything runs.
func (m *models) needed(p *Plan) bool {
	if m.set.PassCredentials {
		return false
	}
	for _, a := range p.Config.Agents {
		_, _, served := m.serves(&a)
		if agents.Thinks(a) && (served || m.err != nil && a.ModelName != nil) || m.wanted(a.Env) {
			return true
		}
	}
	if m.wanted(p.Config.Environment.Env) || m.wanted(p.Config.Verifier.Env) {
		return true
	}
	return slices.ContainsFunc(p.Variables(m.lookup), func(v WantedVariable) bool { return m.ofUpstream(v.Name, m.host(v.Name)) })
}

// wanted reports whether a configured environment names a credential of an upstream.
func (m *models) wanted(env trials.Env) bool {
	for name, v := range env {
		if t, ok := tasks.ParseTemplate(v); ok {
			name, v = t.Name, m.host(t.Name)
		}
		if m.ofUpstream(name, v) {
			return true
		}
	}
	return false
}

func (m *models) host(name string) string {
	v, _ := m.lookup(name)
	return v
}

// ofUpstream reports whether a variable may hold a credential of an upstream: it is
// known to, or only the proxy can tell, which reads keys from elsewhere.
func (m *models) ofUpstream(name, value string) bool {
	if up, known := m.credential(name, value); up != "" || known && m.err != nil {
		return true
	}
	return trials.Sensitive(name) && slices.ContainsFunc(m.upstreams, func(u upstream) bool { return len(u.keys) == 0 })
}
