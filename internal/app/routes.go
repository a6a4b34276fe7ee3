package app

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"

	"harborgate/agents"
	"harborgate/trials"
)

// ModelRoute is where an agent's model will be asked, and with which keys: as far as is
// known before anything runs, without a key.
type ModelRoute struct {
	Agent    string   `json:"agent"`
	Model    string   `json:"model"` // as the upstream names it
	Upstream string   `json:"upstream"`
	Dialect  string   `json:"dialect"`
	BaseURL  string   `json:"base_url,omitempty"` // "" is the provider's own
	Keys     []string `json:"keys"`               // references, or "--ae NAME"
	Service  string   `json:"service,omitempty"`  // socket of the auth proxy; "" is the job's own
}

// ModelRoutes are those of a plan's agents, each once.
func (a *App) ModelRoutes(ctx context.Context, p *Plan, set Settings) []ModelRoute {
	m := a.newModels(ctx, set, user{name: p.Config.JobName, id: p.ID, agents: p.Config.Agents}, slog.New(slog.DiscardHandler))
	out := []ModelRoute{}
	for i := range p.Config.Agents {
		r, ok := m.route(&p.Config.Agents[i])
		same := func(o ModelRoute) bool { return o.Agent == r.Agent && o.Model == r.Model && o.Upstream == r.Upstream }
		if ok && !slices.ContainsFunc(out, same) {
			out = append(out, r)
		}
	}
	return out
}

func (m *models) route(a *trials.AgentConfig) (ModelRoute, bool) {
	up, model, ok := m.serves(a)
	if !ok || m.set.PassCredentials || !agents.Thinks(*a) {
		return ModelRoute{}, false
	}
	r := ModelRoute{
		Agent: a.AgentName(), Model: cmp.Or(model, "any"), Upstream: up.name, Dialect: up.dialect, BaseURL: up.base, Keys: []string{}, Service: m.service,
	}
	for _, ref := range up.refs {
		if variable, _ := strings.CutPrefix(ref, "env:"); m.own.keys[variable] != "" {
			ref = "--ae " + strings.TrimPrefix(variable, givenKey)
		}
		r.Keys = append(r.Keys, ref)
	}
	return r, true
}
