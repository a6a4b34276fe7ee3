package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"harborgate/agents"
	"harborgate/tasks"
	"harborgate/trials"
)

// serves is the upstream of an agent's model, and its name for the model: an endpoint
// of the agent's own, or one that serves the model. No agent has none.
func (m *models) serves(a *trials.AgentConfig) (up upstream, name string, ok bool) {
	if a == nil {
		return upstream{}, "", false
	}
	for _, e := range m.endpoints(a) {
		if e.main {
			return m.named(m.own.names[e.endpoint]), m.endpointModel(a), true
		}
	}
	return m.serving(value(a.ModelName))
}

// named is an upstream of the job's proxy, also one that an agent brought.
func (m *models) named(name string) upstream {
	all := slices.Concat(m.upstreams, m.own.list)
	return all[slices.IndexFunc(all, func(u upstream) bool { return u.name == name })]
}

// serving is the upstream of a model as agents name it, and the upstream's own name
// for the model.
func (m *models) serving(model string) (up upstream, name string, ok bool) {
	ups, name := m.candidates(model)
	if len(ups) == 0 {
		return upstream{}, "", false
	}
	if i := slices.IndexFunc(ups, upstream.ofShell); i >= 0 {
		return ups[i], name, true
	}
	return ups[0], name, true
}

// candidates are the upstreams that may serve a model: of "provider/model" the one
// with that name, else those of that dialect; without a provider the only one, or
// those of the model's family.
func (m *models) candidates(model string) (ups []upstream, name string) {
	provider, rest, split := strings.Cut(model, "/")
	switch {
	case model == "":
		return nil, ""
	case !split && len(m.upstreams) == 1:
		return m.upstreams, model
	case !split:
		provider, rest = family(model), model
	}
	if i := slices.IndexFunc(m.upstreams, func(u upstream) bool { return split && u.name == provider }); i >= 0 {
		return m.upstreams[i : i+1], rest
	}
	if provider == "google" {
		provider = "gemini"
	}
	for _, u := range m.upstreams {
		if u.dialect == provider {
			ups = append(ups, u)
		}
	}
	return ups, rest
}

// ofShell reports whether the upstream's key is the one that people have in their
// shells for its provider: who says the provider's name alone means that one.
func (u upstream) ofShell() bool {
	return slices.ContainsFunc(knownProviders(), func(p known) bool {
		return p.name == u.dialect && slices.ContainsFunc(p.keys, func(k string) bool { return slices.Contains(u.keys, k) })
	})
}

// family is the dialect in which a model is served by its maker.
func family(model string) string {
	for _, f := range []struct{ prefix, dialect string }{
		{"claude", "anthropic"}, {"gpt", "openai"}, {"o1", "openai"}, {"o3", "openai"}, {"o4", "openai"},
		{"codex", "openai"}, {"gemini", "gemini"},
	} {
		if strings.HasPrefix(model, f.prefix) {
			return f.dialect
		}
	}
	return ""
}

// suits says why an agent and its model cannot go together, or in a note what it has
// to do without.
func (m *models) suits(a trials.AgentConfig) (note string, err error) {
	kind, _ := agents.Find(a.AgentName()) // an unknown one is refused elsewhere
	model := value(a.ModelName)
	switch {
	case !kind.Thinks:
		return "", nil
	case m.set.PassCredentials:
		return "", passes(kind, a)
	case model == "" || m.hasOwn(&a):
		return "", nil
	}
	ups, _ := m.candidates(model)
	if len(ups) == 0 {
		return m.unserved(kind, a)
	}
	up, _, _ := m.serving(model)
	if len(ups) > 1 && !up.ofShell() {
		var names []string
		for _, u := range ups {
			names = append(names, u.name)
		}
		return "", fmt.Errorf("model %s is served by several upstreams, %s: name one of them instead of the provider, like %s/…", model, strings.Join(names, ", "), names[0])
	}
	if len(kind.Dialects) > 0 && !slices.Contains(kind.Dialects, up.dialect) {
		return "", fmt.Errorf("agent %s speaks %s, and upstream %s, which serves %s, speaks %s: choose another model or agent",
			kind.Name, strings.Join(kind.Dialects, ", "), up.name, model, up.dialect)
	}
	return "", inFormat(kind, a, up)
}

// passes says why an agent cannot have keys of the host themselves.
func passes(kind agents.Kind, a trials.AgentConfig) error {
	switch {
	case len(kind.Dialects) > 0 && a.ModelName != nil:
		return fmt.Errorf("agent %s gets at models by the auth proxy alone: leave out --pass-credentials", kind.Name)
	case a.BaseURL != nil || a.ModelAPIKeyName != nil || a.ModelAPIFormat != nil:
		return errors.New("--base-url, --api-key-name and --api-format are settings of the auth proxy: leave out --pass-credentials, or give the agent variables with --ae")
	}
	return nil
}

// inFormat refuses a format that the upstream of an agent's model does not have.
func inFormat(kind agents.Kind, a trials.AgentConfig, up upstream) error {
	f := value(a.ModelAPIFormat)
	if f == "" {
		return nil
	}
	d, err := formatDialect(kind, f)
	if err == nil && d != up.dialect {
		err = fmt.Errorf("--api-format %s: upstream %s, which serves %s, speaks %s: leave it out, or give the endpoint with --base-url", f, up.name, value(a.ModelName), up.dialect)
	}
	return err
}

// unset names a variable of the host that an agent's key or base URL refers to, and that
// has no value; "" is none.
func (m *models) unset(a trials.AgentConfig) string {
	for _, p := range knownProviders() {
		for _, name := range slices.Concat(p.keys, p.agentKeys, p.urls) {
			if t, ok := tasks.ParseTemplate(a.Env[name]); ok && resolved(a.Env[name], m.lookup) == "" {
				return fmt.Sprintf("%s of the agent (--ae) refers to %s, which is not set on this host, or empty: export it", name, t.Name)
			}
		}
	}
	return ""
}

// whose is the provider, or the upstream, that a model without one may be meant to be
// of; "" where several could be.
func (m *models) whose(kind agents.Kind) string {
	var names []string
	for _, u := range m.upstreams {
		if len(kind.Dialects) > 0 && slices.Contains(kind.Dialects, u.dialect) {
			names = append(names, u.name)
		}
	}
	if len(names) != 1 {
		return ""
	}
	return names[0]
}

// unserved is what to say of a model that no upstream serves.
func (m *models) unserved(kind agents.Kind, a trials.AgentConfig) (note string, err error) {
	if m.err != nil && len(kind.Dialects) > 0 {
		return "", m.err
	}
	model := value(a.ModelName)
	const next = "export the key of its provider (ANTHROPIC_API_KEY, OPENAI_API_KEY, …), or add an upstream to config.yaml (see docs/auth-proxy.md)"
	provider, rest, split := strings.Cut(model, "/")
	var names []string
	for _, u := range m.upstreams {
		names = append(names, u.name, u.dialect)
	}
	near := tasks.Closest(provider, names)
	whose := m.whose(kind)
	switch {
	case m.unset(a) != "":
		return "", fmt.Errorf("agent %s: no upstream serves %s: %s", kind.Name, model, m.unset(a))
	case !split && whose != "":
		return "", fmt.Errorf("no upstream serves %s, whose it is cannot be told: did you mean %s/%s?", model, whose, model)
	case split && near != "":
		return "", fmt.Errorf("no upstream serves %s: did you mean %s/%s?", model, near, rest)
	case len(kind.Dialects) > 0:
		return "", fmt.Errorf("agent %s: no upstream serves %s: %s", kind.Name, model, next)
	case m.set.Budget > 0 || m.set.TrialBudget > 0:
		return "", errors.New("a budget is set, and no upstream serves " + model + ", so that it would hold nothing: " + next)
	}
	return fmt.Sprintf("no upstream serves %s, its agent has no way to models: %s", model, next), nil
}
