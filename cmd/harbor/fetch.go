package main

import (
	"context"
	"fmt"

	"harborgate/internal/app"
)

// fetchAgents gets the programs of a plan's agents to this host, which takes its time,
// once. What is wrong with their models is said before.
func (o *runOptions) fetchAgents(ctx context.Context, a *app.App, plan *app.Plan) error {
	lacks, err := a.LacksAgents(ctx, plan)
	if err == nil && lacks {
		_, err = a.CheckModels(ctx, plan, o.flags.settings)
	}
	if err == nil && lacks {
		err = a.FetchAgents(ctx, plan, func(name, version string) {
			fmt.Fprintf(o.err, "harbor: fetching %s %s, once for this host\n", name, version)
		})
	}
	if err == nil {
		return nil
	}
	if end := stopped(ctx); end != nil {
		return end
	}
	return codedError{exitNothing, err}
}
