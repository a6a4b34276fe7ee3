package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"harborgate/internal/app"
	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/stats"
)

func newJobListCommand(e *env) *cobra.Command {
	return jsonFlag(e, &cobra.Command{
		Use: "list [DIR…]", Aliases: []string{"ls"},
		Short: "List jobs: those that this host worked on, those of ./jobs, and those of DIR",
		RunE:  func(_ *cobra.Command, args []string) error { return listJobs(e, args) },
	})
}

// jobRow is one job of the list. Mean is over tasks, and null when the job has no
// verdict, or several arms, which share none.
type jobRow struct {
	Name      string            `json:"name"`
	Dir       string            `json:"dir"`
	State     results.State     `json:"state,omitempty"`
	PID       int               `json:"pid,omitempty"`
	Error     string            `json:"error,omitempty"` // why the rest is not known
	Planned   int               `json:"planned"`
	Graded    int               `json:"graded"`
	Ungraded  int               `json:"ungraded"`
	Cancelled int               `json:"cancelled"`
	Running   int               `json:"running"`
	Pending   int               `json:"pending"`
	Arms      int               `json:"arms"`
	Suspect   int               `json:"suspect"`
	Mean      *float64          `json:"mean"`
	Bounds    *stats.Bounds     `json:"bounds"` // null when no verdict is missing, or rewards are not within 0 and 1
	N         int               `json:"n"`
	Coverage  *float64          `json:"coverage"`
	Started   *trials.LocalTime `json:"started_at"`
	Finished  *trials.LocalTime `json:"finished_at"`
}

func listJobs(e *env, args []string) error {
	dirs, err := app.FindDirs(e.lookup)
	if err != nil {
		return codedError{exitNothing, err}
	}
	all, err := app.KnownJobs(dirs.State)
	if err != nil {
		return codedError{exitNothing, err}
	}
	if len(args) == 0 {
		args = []string{"jobs"}
		if _, err := os.Stat("jobs"); errors.Is(err, os.ErrNotExist) {
			args = nil
		}
	}
	for _, dir := range args {
		more, err := jobsIn(dir)
		if err != nil {
			return nothingRan("%s: %w", dir, err)
		}
		all = append(all, more...)
	}
	rows := []jobRow{}
	seen := map[string]bool{}
	for _, dir := range all {
		if real, err := filepath.EvalSymlinks(dir); err == nil && !seen[real] {
			seen[real] = true
			rows = append(rows, rowOf(dir))
		}
	}
	slices.SortStableFunc(rows, func(a, b jobRow) int { return begun(b).Compare(begun(a)) })
	if e.json {
		return printJSON(e, rows)
	}
	return printJobs(e, rows)
}

func begun(r jobRow) time.Time {
	if r.Started == nil {
		return time.Time{}
	}
	return r.Started.Time
}

// jobsIn lists the jobs of a directory, or the directory when it is a job.
func jobsIn(dir string) ([]string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if results.HoldsJob(dir) {
		return []string{dir}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if d := filepath.Join(dir, e.Name()); results.HoldsJob(d) {
			out = append(out, d)
		}
	}
	return out, nil
}

func rowOf(dir string) jobRow {
	row := jobRow{Name: filepath.Base(dir), Dir: dir}
	job, _, err := readJob(dir, results.ReadTrials)
	r := job.Result
	state, holder := results.StateOf(dir, r)
	row.State, row.PID = state, holder.PID
	if err = errors.Join(err, job.Damage); err != nil {
		row.Error = err.Error()
		return row
	}
	n := numbersOf(job) // those of job show, and not what the job's own result once said
	row.Planned, row.Graded, row.Cancelled, row.Suspect, row.Coverage = n.Planned, n.Graded, n.Cancelled, n.Suspect, n.Coverage
	row.Ungraded = n.Planned - n.Graded - n.Cancelled - n.Pending
	row.Started, row.Finished, row.Arms, row.N = r.StartedAt, r.FinishedAt, len(n.Rows), n.Graded
	if state == results.StateRunning { // else it is what a killed process left
		row.Running = min(r.Stats.Running, n.Pending)
	}
	row.Pending = n.Pending - row.Running
	if len(n.Rows) == 1 {
		if c := n.Rows[0].Main(); c != nil {
			row.Mean, row.Bounds = c.Mean, c.Bounds
		}
	}
	return row
}

func printJobs(e *env, rows []jobRow) error {
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "JOB\tSTATE\tTRIALS\tGRADED\tMEAN (BOUNDS)\tSTARTED\tDIRECTORY")
	for _, r := range rows {
		if r.Error != "" {
			fmt.Fprintf(w, "%s\t%s\t\t\t\t\t%s: %s\n", oneLine(r.Name), r.State, oneLine(relative(r.Dir)), oneLine(r.Error))
			continue
		}
		started := ""
		if r.Started != nil {
			started = r.Started.Format("2006-01-02 15:04")
		}
		state := string(r.State)
		if r.PID != 0 {
			state = fmt.Sprintf("%s (%d)", state, r.PID)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", oneLine(r.Name), state, r.Planned, coverage(r), meanText(r), started, oneLine(relative(r.Dir)))
	}
	return w.Flush()
}

func coverage(r jobRow) string {
	if r.Coverage == nil {
		return stats.Unknown
	}
	text := fmt.Sprintf("%d (%.0f %%)", r.Graded, *r.Coverage*100)
	if r.Suspect > 0 {
		text += fmt.Sprintf(", %d suspect", r.Suspect)
	}
	return text
}

func meanText(r jobRow) string {
	if r.Arms > 1 {
		return fmt.Sprintf("%d arms", r.Arms)
	}
	text := stats.MeanText(r.Mean)
	if b := r.Bounds; b != nil {
		text += fmt.Sprintf(" (%.3f to %.3f)", b.Low, b.High)
	}
	return text
}
