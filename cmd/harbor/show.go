package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"harborgate/internal/app"
	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/stats"
)

func newJobCommand(e *env) *cobra.Command {
	c := group("job", "Run and inspect jobs", "jobs")
	c.AddCommand(newRunCommand(e, "start"), jsonFlag(e, &cobra.Command{
		Use: "show DIR", Short: "Show the numbers of a job and its trials", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return showJob(e, args[0]) },
	}))
	return addNotBuilt(c, "job")
}

// loadJob reads a job from disk, also one that is still running.
func loadJob(dir string) (app.Summary, []*trials.Result, error) {
	res, err := results.ReadJobResult(dir)
	if err != nil {
		return app.Summary{}, nil, notA("job", dir, err)
	}
	dirs, err := results.TrialDirs(dir)
	if err != nil {
		return app.Summary{}, nil, notA("job", dir, err)
	}
	s := app.Summary{Result: res, Planned: res.NTotalTrials, ByKey: plannedBy(dir)}
	var all []*trials.Result
	for _, d := range dirs {
		r, err := results.ReadTrialResult(d)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it runs, or was cut off
		}
		if err != nil {
			return s, nil, codedError{exitNothing, err}
		}
		all = append(all, r)
		s.Trials = append(s.Trials, stats.Of(r))
	}
	return s, all, nil
}

// plannedBy counts a job's planned trials by arm, nil when its lock does not say.
func plannedBy(dir string) map[stats.Key]int {
	lock, err := results.ReadJobLock(dir)
	if err != nil {
		return nil
	}
	out := map[stats.Key]int{}
	for _, t := range lock.Trials {
		out[stats.KeyOf(t.Agent, t.Task.Source)]++
	}
	return out
}

func notA(what, dir string, err error) error {
	return nothingRan("%s is no %s directory: %w", dir, what, err)
}

func showJob(e *env, dir string) error {
	s, all, err := loadJob(dir)
	if err != nil {
		return err
	}
	if e.json {
		return printJSON(e, map[string]any{"result": s.Result, "report": reportOf(s), "trials": all})
	}
	writeSummary(e.out, s)
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nTRIAL\tREWARD\tTIME\tEXCEPTION\tBLAME")
	for _, t := range s.Trials {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.Name, verdictText(t), t.Duration.Round(100e6), t.Exception, t.Blame)
	}
	return w.Flush()
}

// verdictText is the reward, – when there is none that counts.
func verdictText(t stats.Trial) string {
	if !t.Valid {
		return "–"
	}
	text := printable(rewardText(t.Rewards))
	if t.Suspect {
		text += " (suspect)"
	}
	return text
}

func newTrialCommand(e *env) *cobra.Command {
	c := group("trial", "Run and inspect single trials", "trials")
	c.AddCommand(newTrialStartCommand(e), jsonFlag(e, &cobra.Command{
		Use: "show DIR", Short: "Show what happened in a trial", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return showTrial(e, args[0]) },
	}), &cobra.Command{
		Use: "logs DIR [FILE]", Short: "List a trial's files, or print one", Args: cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) error { return trialLogs(e, args) },
	})
	return addNotBuilt(c, "trial")
}

func showTrial(e *env, dir string) error {
	r, err := results.ReadTrialResult(dir)
	if err != nil {
		return notA("trial", dir, err)
	}
	if e.json {
		return printJSON(e, r)
	}
	t := stats.Of(r)
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "trial\t%s\ntask\t%s\nagent\t%s %s\nreward\t%s\n", r.TrialName, r.TaskName, r.AgentInfo.Name, r.AgentInfo.Version, verdictText(t))
	if x := r.ExceptionInfo; x != nil {
		fmt.Fprintf(w, "exception\t%s\nblame\t%s\nmessage\t%s\n", printable(x.Type), t.Blame, printable(x.Message))
	}
	for _, p := range trials.Phases() {
		if d, ok := t.Phases[p]; ok {
			fmt.Fprintf(w, "%s\t%s\n", p, d.Round(1e6))
		}
	}
	if x := r.Harborgate; x != nil {
		fmt.Fprintf(w, "provider\t%s\ntry\t%d\nattempt\t%d\n", x.Provider, x.Try, x.Attempt)
		for _, s := range x.Suspect {
			fmt.Fprintf(w, "suspect\t%s: %s\n", s.Code, printable(s.Message))
		}
		for _, n := range x.Notes {
			fmt.Fprintf(w, "note\t%s: %s\n", n.Code, printable(n.Message))
		}
	}
	return w.Flush()
}

// trialLogs opens files below the trial's directory only, whatever links are in
// it.
func trialLogs(e *env, args []string) error {
	root, err := os.OpenRoot(args[0])
	if err != nil {
		return notA("trial", args[0], err)
	}
	defer root.Close()
	if len(args) == 2 {
		fi, err := root.Lstat(args[1])
		if err != nil || !fi.Mode().IsRegular() {
			return nothingRan("%s has no file %s: `harbor trial logs %s` lists what there is", args[0], args[1], args[0])
		}
		f, err := root.Open(args[1])
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(e.out, f)
		return err
	}
	var names []string
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, p)
		}
		return err
	})
	slices.Sort(names)
	for _, n := range names {
		fmt.Fprintln(e.out, filepath.ToSlash(n))
	}
	return err
}
