package app

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"harborgate/agents"
)

// AgentAuth is what an agent reads to get at models, and what of it this host has:
// names and where they come from, never a value.
type AgentAuth struct {
	Agent string `json:"agent"`
	// Models is false for agents that work without them; then the rest is empty.
	Models  bool     `json:"models"`
	Formats []string `json:"formats"` // of --api-format
	// Service is the socket of the auth proxy that jobs use; "" is one of their own.
	Service   string         `json:"service"`
	Upstreams []AuthUpstream `json:"upstreams"` // that the agent can use
	Variables []AuthVariable `json:"variables"` // that it reads from --ae, or from this host
}

// AuthUpstream is an upstream of the auth proxy.
type AuthUpstream struct {
	Name    string   `json:"name"`
	Dialect string   `json:"dialect"`
	From    string   `json:"from"` // "service", "config.yaml" or "environment"
	Keys    []string `json:"keys"` // references
}

// AuthVariable is a variable that says where a model is, or holds a key to it.
type AuthVariable struct {
	Name    string `json:"name"`
	Dialect string `json:"dialect"`
	What    string `json:"what"` // "key" or "base URL"
	Set     bool   `json:"set"`  // on this host
	Used    bool   `json:"used"` // by one of the upstreams
}

// AgentAuth finds out about an agent. Keys that are in no variable are not looked at.
func (a *App) AgentAuth(ctx context.Context, name string) (AgentAuth, error) {
	kind, err := agents.Find(name)
	if err != nil {
		return AgentAuth{}, err
	}
	out := AgentAuth{Agent: name, Models: kind.Thinks, Formats: kind.Formats(), Upstreams: []AuthUpstream{}, Variables: []AuthVariable{}}
	if !kind.Thinks {
		out.Formats = []string{}
		return out, nil
	}
	m := a.newModels(ctx, Settings{}, user{}, slog.New(slog.DiscardHandler))
	if m.err != nil {
		return out, m.err
	}
	speaks := func(dialect string) bool { return len(kind.Dialects) == 0 || slices.Contains(kind.Dialects, dialect) }
	out.Service = m.service
	for _, u := range m.upstreams {
		if speaks(u.dialect) {
			out.Upstreams = append(out.Upstreams, AuthUpstream{u.name, u.dialect, a.origin(m, u), u.refs})
		}
	}
	for _, p := range knownProviders() {
		if speaks(p.name) {
			out.Variables = append(out.Variables, m.variablesOf(p)...)
		}
	}
	return out, nil
}

func (a *App) origin(m *models, u upstream) string {
	_, configured := a.Host.Upstreams[u.name]
	switch {
	case m.service != "":
		return "service"
	case configured:
		return "config.yaml"
	}
	return "environment"
}

// variablesOf are those of a provider, as a job of this host sees them.
func (m *models) variablesOf(p known) []AuthVariable {
	var out []AuthVariable
	for _, name := range slices.Concat(p.keys, p.agentKeys) {
		v := AuthVariable{Name: name, Dialect: p.name, What: "key", Set: m.host(name) != ""}
		v.Used = v.Set && m.service == "" && m.byVariable(name) != ""
		out = append(out, v)
	}
	for _, name := range p.urls {
		base := m.host(name)
		v := AuthVariable{Name: name, Dialect: p.name, What: "base URL", Set: base != ""}
		v.Used = v.Set && m.service == "" && slices.ContainsFunc(m.upstreams, func(u upstream) bool {
			return u.dialect == p.name && strings.TrimSuffix(u.base, "/") == plainBase(p.name, base)
		})
		out = append(out, v)
	}
	return out
}
