package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"harborgate/agents"
	"harborgate/authproxy"
	"harborgate/trials"
)

// CheckModels finds out what is wrong with a plan's way to models, and what users should
// know about it, without running or making anything.
func (a *App) CheckModels(ctx context.Context, p *Plan, set Settings) (notes []trials.Note, err error) {
	if set, err = set.over(p.Past); err != nil {
		return nil, err
	}
	m := a.newModels(ctx, set, user{name: p.Config.JobName, id: p.ID, agents: p.Config.Agents}, a.log)
	needed := m.needed(p)
	switch {
	case m.own.err != nil:
		return nil, m.own.err
	case needed && m.err != nil:
		return nil, m.err
	case m.service != "":
		if _, err := m.proxy(); err != nil {
			return nil, err
		}
		defer m.close()
	case needed:
		if err := a.checkKeys(ctx, p.ID, m.own); err != nil {
			return nil, err
		}
	}
	return m.check(ctx, p.Config.Agents, needed)
}

// checkKeys finds keys that a job's own proxy could not start with.
func (a *App) checkKeys(ctx context.Context, id string, own ownEndpoints) error {
	c, err := a.jobConfig(id)
	if err != nil {
		return err
	}
	maps.Copy(c.Upstreams, own.upstreams)
	return c.CheckKeys(ctx, authproxy.Sources{LookupEnv: own.over(a.opt.Lookup)})
}

// check says why agents and their models cannot go together; notes are what users should
// know where they can. needed says that somebody wants models.
func (m *models) check(ctx context.Context, all []trials.AgentConfig, needed bool) (notes []trials.Note, err error) {
	if m.own.err != nil {
		return nil, m.own.err
	}
	for _, a := range all {
		if names := agents.Ignored(a); len(names) > 0 {
			notes = append(notes, trials.Note{Code: "option_ignored", Message: fmt.Sprintf("agent %s does not use its options: %s", a.AgentName(), strings.Join(names, ", "))})
		}
		note, err := m.suits(a)
		if err == nil {
			err = m.usable(ctx, a)
		}
		if err != nil {
			return notes, err
		}
		if n := (trials.Note{Code: "no_upstream", Message: note}); note != "" && !slices.Contains(notes, n) {
			notes = append(notes, n)
		}
	}
	if needed {
		for _, note := range m.remarks(all) {
			notes = append(notes, trials.Note{Code: "endpoint", Message: note})
		}
	}
	return notes, nil
}

// ready checks an agent that has no job; what users should know is logged.
func (m *models) ready(ctx context.Context, a trials.AgentConfig) error {
	notes, err := m.check(ctx, []trials.AgentConfig{a}, true)
	for _, n := range notes {
		m.log.Warn("note", "code", n.Code, "message", n.Message)
	}
	return err
}

// usable says why the upstream of an agent's model would refuse every request for it.
func (m *models) usable(ctx context.Context, a trials.AgentConfig) error {
	kind, _ := agents.Find(a.AgentName()) // an unknown one is refused elsewhere
	up, model, ok := m.serves(&a)
	if !ok || !kind.Thinks || m.set.PassCredentials || model == "" {
		return nil
	}
	if err := carried(kind, up.dialect, model); err != nil {
		return err
	}
	model = kind.Asks(model)
	dated := func(pattern string) bool { return strings.HasPrefix(pattern, model+datedForm) }
	if !authproxy.Lists(up.models, model) && !slices.ContainsFunc(up.models, dated) {
		return fmt.Errorf("upstream %s serves %s only, and not %s: choose another model, or add it to upstreams.%s.models",
			up.name, strings.Join(up.models, ", "), model, up.name)
	}
	budget := m.moneyBudget()
	if budget == "" {
		return nil
	}
	priced, err := m.priced(ctx, up.name, model)
	if err != nil {
		return err
	}
	where := fmt.Sprintf("add it to upstreams.%s.prices in config.yaml", up.name)
	if _, own := m.own.upstreams[up.name]; own {
		where = "add an upstream with that base_url, and with prices, to config.yaml"
	}
	switch {
	case !priced.Tokens:
		return fmt.Errorf("model %s has no price, so that %s would let no request pass: %s, or set no budget", model, budget, where)
	case kind.Searches && !priced.Search:
		return fmt.Errorf("model %s has no price for the provider's search, which agent %s offers it, so that %s would let no request pass: %s (search: 0.01), or set no budget",
			model, kind.Name, budget, where)
	}
	return nil
}

// carried says why no request could name a model.
func carried(kind agents.Kind, dialect, model string) error {
	if authproxy.Carries(authproxy.Dialect(dialect), kind.Asks(model)) {
		return nil
	}
	hint := "choose another model, or another format (--api-format)"
	if rest, ok := strings.CutPrefix(model, "models/"); ok {
		hint = "leave out models/, write -m gemini/" + rest
	}
	return fmt.Errorf("agent %s, model %q: requests in Gemini's format have the model's name in their path, where it is of letters, digits, '.', '_', '-' and '@' alone: %s",
		kind.Name, model, hint)
}

// moneyBudget names a budget of money that holds for requests of the job; "" is none.
func (m *models) moneyBudget() string {
	for _, b := range []struct {
		name string
		usd  USD
	}{
		{"--budget-usd", m.set.Budget}, {"--trial-budget-usd", m.set.TrialBudget},
		{"budgets.job", m.budgets.Job}, {"budgets.trial", m.budgets.Trial}, {"budgets.day", m.budgets.Day},
	} {
		if b.usd > 0 {
			return b.name
		}
	}
	return ""
}

// unansweredSocket tells who named a socket on purpose that nobody answers there.
func (a *App) unansweredSocket() []string {
	set, err := ReadAuthSettings(a.Host, a.Dirs, a.opt.Lookup)
	if err != nil || !set.alone {
		return nil
	}
	return []string{fmt.Sprintf("no auth proxy answers at %s, which HARBOR_AUTH_SOCKET names: this one is of the job's own, with limits and budgets of its own", set.Socket)}
}
