package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"harborgate/internal/app"
	"harborgate/trials"
)

// openFleet opens the providers that a configuration names, whose environment may be from
// the flags.
func openFleet(s *pflag.FlagSet, a *app.App, c trials.EnvironmentConfig) (app.Fleet, error) {
	if _, err := a.Host.Choices(app.EnvironmentName(c)); err != nil && given(s, "env") {
		return nil, usageError{fmt.Errorf("-e: %w", err)}
	}
	return a.Open(c)
}

// fleet opens the providers of a plan and says which do not answer. It is an error when
// none does, or when none could do what the job asks for.
func (o *runOptions) fleet(ctx context.Context, a *app.App, plan *app.Plan) (app.Fleet, error) {
	fleet, err := openFleet(o.cmd.Flags(), a, plan.Config.Environment)
	if err != nil {
		return nil, err
	}
	down, err := fleet.Check(ctx)
	if err != nil {
		return nil, err
	}
	o.warn(down)
	o.warn(a.TooLarge(ctx, fleet, plan))
	return fleet, fleet.Installable(plan)
}

func (o *runOptions) sweep(ctx context.Context, a *app.App, fleet app.Fleet) {
	if err := fleet.Sweep(ctx, a); err != nil {
		fmt.Fprintln(o.err, "harbor: leftovers of earlier runs could not be removed:", printable(err.Error()))
	}
}

// sweepUnburied removes what a killed process left although nothing is to run. That
// the provider cannot be reached is no failure of a job that has ended.
func (o *runOptions) sweepUnburied(ctx context.Context, a *app.App, cfg trials.JobConfig) {
	if o.flags.dryRun || !a.Unburied() {
		return
	}
	fleet, err := a.Open(cfg.Environment)
	if err != nil {
		return
	}
	if _, err := fleet.Check(ctx); err == nil {
		o.sweep(ctx, a, fleet)
	}
}
