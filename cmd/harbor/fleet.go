package main

import (
	"context"

	"harborgate/internal/app"
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
