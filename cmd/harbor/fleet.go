package main

import (
	"context"
	"fmt"

	"harborgate/internal/app"
	"harborgate/trials"
)

// fleet opens the providers of a plan and says which do not answer. It is an error when
// none does, or when none could do what the job asks for.
func (o *runOptions) fleet(ctx context.Context, a *app.App, plan *app.Plan) (app.Fleet, error) {
	fleet, err := a.Open(plan.Config.Environment)
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
