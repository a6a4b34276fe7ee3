package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// jobRow is one job of the list. Mean is null when the job has no verdict, or
// several arms, which share none.
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
	s := statsOf(dir, job)
	row.Planned, row.Running, row.Pending, row.Cancelled = job.Planned, s.Running, s.Pending, s.Cancelled
	row.Started, row.Finished, row.Arms = r.StartedAt, r.FinishedAt, len(s.Evals)
	if state != results.StateRunning { // what a killed process left
		row.Running, row.Pending = 0, s.Running+s.Pending
	}
	for _, eval := range s.Evals {
		row.Graded += eval.NTrials
		if len(s.Evals) == 1 {
			row.Mean, row.Bounds = meanOf(eval), boundsOf(eval, row.Planned)
		}
	}
	for _, t := range job.Trials {
		if t.Suspect {
			row.Suspect++
		}
	}
	row.Ungraded = max(0, s.Completed-row.Graded-row.Cancelled)
	row.N = row.Graded
	if row.Planned > 0 {
		c := float64(row.Graded) / float64(row.Planned)
		row.Coverage = &c
	}
	return row
}

// statsOf are the numbers of the trials that can be read, which are those that job show
// has, and not what the job's own result once said.
func statsOf(dir string, job app.Summary) trials.JobStats {
	cfg, err := results.ReadJobConfig(dir)
	if err != nil {
		cfg = trials.JobConfig{} // of its metrics only: the mean is always there
	}
	s := stats.Harbor(job.Trials, cfg.Metrics)
	left := max(0, job.Planned-s.Completed)
	s.Running = min(job.Result.Stats.Running, left)
	s.Pending = left - s.Running
	return s
}

// meanOf is the mean of an arm's main reward, if that is what its metrics are.
func meanOf(eval *trials.EvalStats) *float64 {
	for _, m := range eval.Metrics {
		if v, ok := m["mean"]; ok {
			return (*float64)(&v)
		}
		if v, ok := m["reward"]; ok {
			return (*float64)(&v)
		}
	}
	return nil
}

// boundsOf are how far the verdicts that are missing of the planned ones could move the
// mean of the only reward key.
func boundsOf(eval *trials.EvalStats, planned int) *stats.Bounds {
	n, missing := eval.NTrials, planned-eval.NTrials
	mean := meanOf(eval)
	if mean == nil || missing <= 0 || len(eval.RewardStats) != 1 {
		return nil
	}
	for _, values := range eval.RewardStats {
		for value := range values {
			if x, err := strconv.ParseFloat(value, 64); err != nil || x < 0 || x > 1 {
				return nil
			}
		}
	}
	sum := *mean * float64(n)
	return &stats.Bounds{Low: sum / float64(planned), High: (sum + float64(missing)) / float64(planned), Missing: missing}
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
