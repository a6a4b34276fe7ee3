package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"harborgate/authproxy/probe"
	"harborgate/internal/app"
)

func newAuthCheckCommand(e *env) *cobra.Command {
	var model string
	c := jsonFlag(e, &cobra.Command{
		Use:   "check [UPSTREAM…]",
		Short: "Make one tiny real request to each upstream and say what is wrong",
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, names []string) error {
			return withApp(e, func(e *env, a *app.App) error {
				results, where, err := a.AuthCheck(c.Context(), names, model)
				if err != nil {
					return codedError{exitNothing, err}
				}
				return printChecks(e, results, where)
			})
		},
	})
	c.Flags().StringVarP(&model, "model", "m", "", "model to ask for (default one that the upstream lists, or a small one of its provider)")
	return c
}

func printChecks(e *env, results []probe.Result, where string) error {
	bad := 0
	for _, r := range results {
		if !r.OK {
			bad++
		}
	}
	if e.json {
		return errorsToCode(printJSON(e, results), bad)
	}
	fmt.Fprintln(e.out, "Asked through", cmp.Or(where, "a proxy of this process: none runs for this host"))
	for _, r := range results {
		if r.OK {
			fmt.Fprintf(e.out, "%s: ok, %s answered in %s\n", r.Upstream, oneLine(r.Model), r.Took.Round(time.Millisecond))
		} else {
			fmt.Fprintf(e.out, "%s: %s: %s\n", r.Upstream, oneLine(r.Problem), oneLine(r.Next))
		}
		for _, k := range r.Keys {
			fmt.Fprintf(e.out, "  key %s\n", oneLine(k))
		}
	}
	return errorsToCode(nil, bad)
}
