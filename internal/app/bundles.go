package app

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"harborgate/agents"
	"harborgate/tasks"
	"harborgate/trials"
)

// FetchAgents gets the programs of a plan's agents to this host before anything is
// made: a trial would only meet the same error. fetching hears of each package that
// this process fetches: what another one is at is waited for.
func (a *App) FetchAgents(ctx context.Context, p *Plan, fetching func(name, version string)) error {
	return a.eachPart(p, func(part agents.Part) error {
		lacks, err := a.packages.Lacks(ctx, part.Package)
		if err != nil || !lacks {
			return err
		}
		_, err = a.packages.Fetch(ctx, part.Package, func() { fetching(part.Name, part.Version) })
		return err
	})
}

// LacksAgents reports whether programs of a plan's agents would have to be fetched; the
// error says why this host could not. It makes nothing.
func (a *App) LacksAgents(ctx context.Context, p *Plan) (lacks bool, err error) {
	err = a.eachPart(p, func(part agents.Part) error {
		one, err := a.packages.Lacks(ctx, part.Package)
		lacks = lacks || one
		return err
	})
	return lacks, err
}

// SweepAgents removes what killed fetches left in the cache, or only finds it.
func (a *App) SweepAgents(onlyFind bool) (left []string, err error) {
	return a.packages.Sweep(onlyFind)
}

// Installable says why agents could not be installed, which is wanted inside of sandboxes
// without a network: that is the job's choice, no fault of the tasks. A provider that
// keeps snapshots installs them beforehand, with one.
func (f Fleet) Installable(p *Plan) error {
	if slices.ContainsFunc(f, func(m Member) bool { return m.Info().Can.Snapshots }) {
		return nil
	}
	for _, t := range p.Trials {
		if err := t.installable(); err != nil {
			return err
		}
	}
	return nil
}

func (p PlannedTrial) installable() error {
	c := p.Config.Agent
	if p.Config.SourceTrial != nil || p.Task.Config.Environment.Network.Mode != tasks.NetworkNone || !agents.InstallsInside(c) {
		return nil
	}
	return fmt.Errorf("agent %s cannot be installed in the sandbox of task %s, which allows no network: leave out --ak install=inside, this host's cache needs none", c.AgentName(), p.Task.Name)
}

// eachPart goes through the packages of the agents that trials of a plan want.
func (a *App) eachPart(p *Plan, do func(agents.Part) error) error {
	seen := map[string]bool{}
	for _, t := range p.Trials {
		c := t.Config.Agent
		key := fmt.Sprint(c.AgentName(), c.Kwargs["version"], c.Kwargs["install"], c.Kwargs["binary"])
		if t.Config.SourceTrial != nil || seen[key] {
			continue
		}
		seen[key] = true
		parts, err := parts(c)
		for i := 0; i < len(parts) && err == nil; i++ {
			err = do(parts[i])
		}
		if err != nil {
			return fmt.Errorf("agent %s: %w", c.AgentName(), err)
		}
	}
	return nil
}

// parts are the packages of an agent. One that cannot be made has none: its trials
// say why.
func parts(c trials.AgentConfig) ([]agents.Part, error) {
	a, err := agents.New(agents.Input{Config: c})
	if err != nil {
		return nil, nil //nolint:nilerr // see above
	}
	if b, ok := a.(agents.Bundled); ok {
		return b.Bundle(runtime.GOARCH)
	}
	return nil, nil
}
