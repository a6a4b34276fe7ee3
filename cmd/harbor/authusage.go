package main

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"harborgate/authproxy/usage"
	"harborgate/internal/app"
	"harborgate/trials/stats"
)

func newAuthUsageCommand(e *env) *cobra.Command {
	var by, job string
	var last time.Duration
	c := jsonFlag(e, &cobra.Command{
		Use:   "usage",
		Short: "Add up what was used, by the auth proxy that runs and by this user's jobs",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return withApp(e, func(e *env, a *app.App) error {
				f := usage.Filter{Job: job}
				if last > 0 {
					f.Since = time.Now().Add(-last)
				}
				r, err := a.AuthUsage(c.Context(), usage.By(by), f)
				if err != nil {
					return codedError{exitNothing, err}
				}
				return printUsage(e, r)
			})
		},
	})
	s := section(c)
	s.StringVar(&by, "by", string(usage.ByJob), "what is added up together: job, trial, model, upstream or day (UTC)")
	s.StringVar(&job, "job", "", "only what this job used, by name")
	s.DurationVar(&last, "last", 0, "only what was used lately, like 24h")
	return c
}

func printUsage(e *env, r usage.Report) error {
	if e.json {
		return printJSON(e, r)
	}
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.ToUpper(string(r.By))+"\tREQUESTS\tREFUSED\tFAILED\tINPUT\tCACHE READ\tCACHE WRITE\tOUTPUT\tUSD")
	for _, row := range append(r.Rows, r.Total) {
		usd := stats.Unknown
		if row.Cost != nil {
			usd = row.Cost.String()
		}
		if row.Unpriced > 0 {
			usd += fmt.Sprintf(" and %d without a price", row.Unpriced)
		}
		u := row.Usage
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", oneLine(cmp.Or(row.Key, "-")), row.Requests, row.Refused, row.Failed,
			u.Input, u.CacheRead, u.CacheWrite+u.CacheWriteLong, u.Output, usd)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if r.Unrecorded > 0 {
		fmt.Fprintf(e.err, "harbor: and %s USD, as budgets count it, for requests that a kill cut off or that are open: they have no record\n", r.Unrecorded)
	}
	if r.Damaged > 0 {
		fmt.Fprintf(e.err, "harbor: warning: %s left out: as a rule the last one of a process that was killed\n", plural(r.Damaged, "damaged line"))
	}
	return nil
}
