package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"harborgate/internal/app"
	"harborgate/trials"
)

// applyDiff names the earlier jobs that a new one is compared with.
func (o *runOptions) applyDiff(s *pflag.FlagSet, c *trials.JobConfig) error {
	if !given(s, "diff") {
		return nil
	}
	c.SourceJobs = nil
	for _, name := range o.flags.diff {
		dir, err := findJob(o.env, c.JobsDir, name)
		if err != nil {
			return fmt.Errorf("--diff: %w", err)
		}
		source, err := app.DiffSource(dir)
		if err != nil {
			return fmt.Errorf("--diff: %w", err)
		}
		c.SourceJobs = append(c.SourceJobs, source)
	}
	return nil
}

// confirmDiff shows what earlier jobs leave to do, and asks.
func (o *runOptions) confirmDiff(plan *app.Plan) error {
	if plan.Diff == nil || plan.Past != nil || o.json && o.flags.dryRun {
		return nil
	}
	to := o.err // where it is beside other output
	if o.flags.dryRun {
		to = o.out
	}
	writeDiff(to, plan.Diff)
	if o.flags.yes || o.flags.dryRun || len(plan.Trials) == 0 {
		return nil
	}
	return o.ask(fmt.Sprintf("Run %s? [y/N] ", plural(len(plan.Trials), "trial")))
}

// ask wants a yes.
func (o *runOptions) ask(question string) error {
	if o.in == nil || !term.IsTerminal(int(o.in.Fd())) {
		return nothingRan("nobody can be asked whether to run this: pass -y to agree, or --dry-run to look only")
	}
	fmt.Fprint(o.err, question)
	answer, err := bufio.NewReader(o.in).ReadString('\n')
	if err != nil {
		return nothingRan("no answer: %w", err)
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return codedError{code: exitNothing, error: errors.New("declined")}
	}
	return nil
}

// writeDiff prints the numbers, then a line for each trial that is wanted.
func writeDiff(to io.Writer, all []app.Diff) {
	numbers := map[trials.DiffAction]int{}
	for _, d := range all {
		numbers[d.Action]++
	}
	var parts []string
	for _, a := range trials.DiffActions() {
		parts = append(parts, fmt.Sprintf("%s %d", a, numbers[a]))
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s: %s\n", plural(len(all), "trial"), strings.Join(parts, ", "))
	fmt.Fprintln(w, "TASK\tARM\tATTEMPT\tACTION\tEARLIER TRIAL\tWHY")
	for _, d := range all {
		source := "–"
		if d.Source != "" {
			source = filepath.Base(d.Source)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n", oneLine(d.Task), oneLine(strings.TrimSpace(d.Agent+" "+d.Model)), d.Attempt, d.Action, oneLine(source), oneLine(d.Why))
	}
	_ = w.Flush() // as with the summary: when it fails, nobody reads any more
}
