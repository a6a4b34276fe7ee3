package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"harborgate/internal/app"
	"harborgate/trials"
)

// dryTrial is a trial that would run, or why it cannot.
type dryTrial struct {
	Task    string                  `json:"task"`
	Attempt int                     `json:"attempt"`
	Agent   string                  `json:"agent"`
	Model   string                  `json:"model,omitempty"`
	Grades  string                  `json:"grades_again,omitempty"` // directory of the earlier trial
	Limits  map[string]trials.Limit `json:"limits"`
	Problem string                  `json:"problem,omitempty"`
	// Providers are those that could take it, in their order; NotAt says why others cannot.
	Providers []string          `json:"providers"`
	NotAt     map[string]string `json:"not_at,omitempty"`
}

// dryResult is what --dry-run --json prints.
type dryResult struct {
	OK      bool             `json:"ok"`
	Trials  []dryTrial       `json:"trials"`
	Models  []app.ModelRoute `json:"models,omitempty"`
	Invalid []string         `json:"invalid_tasks"` // left out
	Diff    []app.Diff       `json:"diff,omitempty"`
}

// dryRun prints what would run. It has looked at everything and made nothing.
func (o *runOptions) dryRun(plan *app.Plan, fleet app.Fleet, suited app.Suited, routes []app.ModelRoute) error {
	out := dryResult{Trials: []dryTrial{}, Models: routes, Invalid: []string{}, Diff: plan.Diff}
	cannot := len(plan.Invalid)
	for _, f := range plan.Invalid {
		out.Invalid = append(out.Invalid, f.Path)
	}
	for _, t := range plan.Trials {
		d := dryTrialOf(t, fleet)
		d.Providers, d.NotAt = suited.Of(t)
		if d.Problem != "" {
			cannot++
		}
		out.Trials = append(out.Trials, d)
	}
	out.OK = cannot == 0
	if o.json {
		if err := printJSON(o.env, out); err != nil {
			return err
		}
	} else if err := errors.Join(o.dryTable(out.Trials, len(fleet) > 1), o.routeTable(routes)); err != nil {
		return err
	}
	switch {
	case cannot > 0:
		return nothingRan("%d of the tasks and trials cannot run", cannot)
	case o.json:
		return nil
	}
	return o.dryOK(plan)
}

func (o *runOptions) dryOK(plan *app.Plan) error {
	_, err := fmt.Fprintf(o.out, "Dry run OK — %d trial(s); nothing was run.\n", len(plan.Trials))
	return err
}

func dryTrialOf(t app.PlannedTrial, fleet app.Fleet) dryTrial {
	limits := trials.EffectiveTimeouts(t.Task.Config, nil, *t.Config)
	d := dryTrial{
		Task: t.Task.Name, Attempt: t.Attempt, Agent: t.Config.Agent.AgentName(),
		Limits: limits.Map(), Problem: fleet.Unsupported(t),
	}
	if m := t.Config.Agent.ModelName; m != nil {
		d.Model = *m
	}
	if s := t.Config.SourceTrial; s != nil && s.Path != nil {
		d.Grades = *s.Path
	}
	return d
}

// dryTable has a column for the providers when there are several.
func (o *runOptions) dryTable(all []dryTrial, several bool) error {
	w := tabwriter.NewWriter(o.out, 0, 0, 2, ' ', 0)
	head, at := "TASK\tATTEMPT\tAGENT\tMODEL\tLIMITS", ""
	if several {
		head = "TASK\tATTEMPT\tAGENT\tMODEL\tAT\tLIMITS"
	}
	if len(all) > 0 {
		fmt.Fprintln(w, head)
	}
	above := "" // many trials have the limits of the row above
	for _, d := range all {
		if several {
			at = cmp.Or(strings.Join(d.Providers, ","), "–") + "\t"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s", oneLine(d.Task), d.Attempt, oneLine(d.Agent), oneLine(cmp.Or(d.Model, "–")), at)
		limits := limitsText(d.Limits)
		switch {
		case d.Problem != "":
			above = ""
			fmt.Fprintln(w, "cannot run: "+oneLine(d.Problem))
		case limits == above:
			fmt.Fprintln(w, "as above")
		default:
			above = limits
			fmt.Fprintln(w, limits)
		}
	}
	return errors.Join(w.Flush(), o.dryNotAt(all))
}

// dryNotAt says once for each reason why not every provider could take the trials that
// some could.
func (o *runOptions) dryNotAt(all []dryTrial) error {
	told := map[string]bool{}
	for _, d := range all {
		if d.Problem != "" {
			continue // the table says it
		}
		for _, name := range slices.Sorted(maps.Keys(d.NotAt)) {
			line := fmt.Sprintf("%s not at %s: %s", oneLine(d.Task), name, oneLine(d.NotAt[name]))
			if told[line] {
				continue
			}
			told[line] = true
			if _, err := fmt.Fprintln(o.out, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// routeTable says where models will be asked.
func (o *runOptions) routeTable(routes []app.ModelRoute) error {
	if len(routes) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(o.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nAGENT\tMODEL\tUPSTREAM\tSPEAKS\tBASE URL\tKEYS")
	for _, r := range routes {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Agent, oneLine(r.Model), r.Upstream, r.Dialect,
			oneLine(cmp.Or(r.BaseURL, "the provider's")), oneLine(cmp.Or(strings.Join(r.Keys, " "), "none")))
	}
	fmt.Fprintln(w)
	return w.Flush()
}

func limitsText(limits map[string]trials.Limit) string {
	var out []string
	for _, p := range trials.Phases() {
		if l, ok := limits[string(p)]; ok {
			out = append(out, fmt.Sprintf("%s %s", p, limitText(l)))
		}
	}
	return strings.Join(out, "  ")
}

func limitText(l trials.Limit) string {
	if l.Seconds == 0 {
		return "none"
	}
	return fmt.Sprintf("%g s (%s)", l.Seconds, l.Origin)
}

// dryFailed says of a problem that a dry run found that it was one.
func (o *runOptions) dryFailed(err error) error {
	var coded codedError
	if !o.flags.dryRun || !errors.As(err, &coded) || coded.code != exitNothing || coded.error == nil {
		return err
	}
	return codedError{exitNothing, fmt.Errorf("Dry run failed: %w", coded.error)} //nolint:staticcheck // Harbor's words, which scripts look for
}
