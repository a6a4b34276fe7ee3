package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"harborgate/internal/app"
)

func newEnvStatusCommand(e *env) *cobra.Command {
	var watch bool
	c := jsonFlag(e, &cobra.Command{
		Use: "status", Short: "Show what all jobs of this host have of each provider, and what they may have", Args: cobra.NoArgs,
		Long: `Show what all harbor processes of this host have of each provider together, and
what they may have. Limits are those of config.yaml (providers.NAME.limits), and
where it says nothing of CPUs and memory, what the provider's host has, as long as
a job runs that asked it.

WAITING are trials that would run now if there was room, over all processes; one
that could run at several providers counts at each. Those that wait for a slot of
their job (-n) or for an image are none. Rates are over the latest minute, and "–"
where there is no limit: nothing is counted then.`,
		RunE: func(c *cobra.Command, _ []string) error {
			return withApp(e, func(e *env, a *app.App) error {
				if watch {
					return watching(c.Context(), e, func() error { return showEnv(e, a) })
				}
				return showEnv(e, a)
			})
		},
	})
	c.Flags().BoolVar(&watch, "watch", false, "show it again every two seconds, until interrupted")
	return c
}

func showEnv(e *env, a *app.App) error {
	all, err := a.Standings()
	if err != nil {
		return err
	}
	if e.json {
		return printJSON(e, all)
	}
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROVIDER\tSANDBOXES\tCPUS\tMEMORY MIB\tDISK MIB\tGPUS\tCREATES/S\tCALLS/S\tWAITING")
	for _, s := range all {
		l := s.Limits
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", s.Provider,
			ofLimit(float64(s.Use.Sandboxes), float64(l.Sandboxes)), ofLimit(s.Use.CPUs, l.CPUs),
			ofLimit(float64(s.Use.MemoryMiB), float64(l.MemoryMiB)), ofLimit(float64(s.Use.DiskMiB), float64(l.DiskMiB)),
			ofLimit(float64(s.Use.GPUs), float64(l.GPUs)),
			rateOf(s.Standing, "creates", l.CreatesPerSec), rateOf(s.Standing, "calls", l.CallsPerSec), s.Waiting)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range all {
		paceNotes(e.out, s)
		standingNotes(e.out, s.Standing)
	}
	return nil
}

// ofLimit is "used of limit"; without a limit, used alone.
func ofLimit(used, limit float64) string {
	if limit == 0 {
		return number(used)
	}
	return number(used) + " of " + number(limit)
}

// number has two digits behind the point where they say something.
func number(x float64) string {
	return strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64)
}

// rateOf is "–" without a limit, because calls are counted only to hold them to one.
func rateOf(s app.Standing, class string, limit float64) string {
	if limit == 0 {
		return "–"
	}
	used := 0.0
	for _, p := range s.Paces {
		if p.Class == class {
			used = p.PerSecond
		}
	}
	return ofLimit(used, limit)
}

// paceNotes tell of classes of calls that have a limit of their own beside creates.
func paceNotes(w io.Writer, s app.ProviderStanding) {
	for _, c := range []struct {
		class string
		limit float64
	}{
		{"deletes", s.Limits.DeletesPerSec}, {"reads", s.Limits.ReadsPerSec}, {"execs", s.Limits.ExecsPerSec},
	} {
		if c.limit > 0 {
			fmt.Fprintf(w, "%s: %s %s a second\n", s.Provider, rateOf(s.Standing, c.class, c.limit), c.class)
		}
	}
}

// standingNotes says who has what, and what holds them up.
func standingNotes(w io.Writer, s app.Standing) {
	if s.Unread != "" {
		fmt.Fprintf(w, "%s: what is used is not known: %s\n", s.Provider, oneLine(s.Unread))
	}
	for _, o := range s.Owners {
		state := ""
		if o.Waiting > 0 {
			state = fmt.Sprintf(", %s for room", waits(o.Waiting))
		}
		if !o.Alive {
			state = ", is dead: its share comes back with the next job there, or `harbor cleanup`"
		}
		fmt.Fprintf(w, "%s: process %d has %s%s%s\n", s.Provider, o.PID, boxes(o.Use.Sandboxes), state, labelText(o.Label))
	}
	if s.Away != "" {
		fmt.Fprintf(w, "%s: does not answer for %s now: %s\n", s.Provider, s.AwayFor.Round(time.Second), oneLine(s.Away))
	}
	for _, p := range s.Pauses {
		fmt.Fprintf(w, "%s: no %s for %s: %s\n", s.Provider, p.Class, p.Left.Round(time.Second), p.Why)
	}
	if s.Capacity > 0 {
		fmt.Fprintf(w, "%s: has room for %s only: %s\n", s.Provider, boxes(s.Capacity), s.CapacityWhy)
	}
	if s.Refused != "" && s.RefusedAgo < recent {
		fmt.Fprintf(w, "%s: a sandbox was last held back %s ago: %s\n", s.Provider, s.RefusedAgo.Round(time.Second), s.Refused)
	}
}

// recent is how long it is of interest what held a sandbox back.
const recent = 10 * time.Minute

func boxes(n int) string {
	if n == 1 {
		return "1 sandbox"
	}
	return fmt.Sprintf("%d sandboxes", n)
}

func waits(trials int) string {
	if trials == 1 {
		return "1 trial waits"
	}
	return fmt.Sprintf("%d trials wait", trials)
}

func labelText(label string) string {
	if label = strings.TrimSpace(label); label == "" {
		return ""
	}
	return " (" + label + ")"
}
