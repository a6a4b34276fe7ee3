package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
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
	c.AddCommand(newRunCommand(e, "start"), newResumeCommand(e), newJobRegradeCommand(e), newJobListCommand(e), newJobCancelCommand(e), newJobDeleteCommand(e), newJobInitCommand(e), newJobSchemaCommand(e), newJobShowCommand(e))
	return addNotBuilt(c, "job")
}

func newJobShowCommand(e *env) *cobra.Command {
	var jobs string
	c := &cobra.Command{
		Use: "show JOB", Short: "Show the numbers of a job and its trials", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := findJob(e, jobs, args[0])
			if err != nil {
				return err
			}
			return showJob(e, dir)
		},
	}
	addJobsDirFlag(c.Flags(), &jobs)
	return jsonFlag(e, c)
}

// loadJob reads a job from disk with all that its results hold, also one that is
// still running. Trials without a result that can be read are left out.
func loadJob(dir string) (app.Summary, []*trials.Result, error) {
	s, found, err := readJob(dir, results.ReadWholeTrials)
	var all []*trials.Result
	for _, f := range found {
		if f.Result != nil {
			all = append(all, f.Result)
		}
	}
	return s, all, err
}

func readJob(dir string, read func(string) ([]results.Found, error)) (app.Summary, []results.Found, error) {
	res, damage := results.ReadJobResult(dir)
	if damage != nil && !goesWithout(dir) {
		return app.Summary{}, nil, notA("job", dir, damage)
	}
	if damage != nil {
		res = app.RestoredResult(dir)
	}
	found, err := read(dir)
	if err != nil {
		return app.Summary{}, nil, notA("job", dir, err)
	}
	s := app.Summary{Result: res, Planned: res.NTotalTrials, Damage: damage}
	for _, f := range found {
		if f.Result != nil {
			s.Trials = append(s.Trials, stats.Of(f.Result))
		}
	}
	if len(s.Trials) < s.Planned { // else the trials say it themselves
		s.ByKey = plannedBy(dir)
	}
	s.Planned = max(s.Planned, len(s.Trials)) // more, if nobody knows how many
	return s, found, nil
}

// goesWithout reports whether a directory is a job's that can be shown although its
// result cannot be read: its configuration says that it is one.
func goesWithout(dir string) bool {
	_, err := results.ReadJobConfig(dir)
	_, trial := results.ReadTrialResult(dir)
	return err == nil && trial != nil
}

// sayDamaged says why the numbers of a job are those of its trials alone.
func sayDamaged(e *env, dir string, damage error) {
	if damage != nil {
		fmt.Fprintf(e.err, "harbor: the job's own result is damaged; this is what its trials say: %s; `harbor job resume %s` writes it anew\n", printable(damage.Error()), dir)
	}
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
	if e.json {
		s, all, err := loadJob(dir)
		if err != nil {
			return err
		}
		sayDamaged(e, dir, s.Damage)
		state, _ := results.StateOf(dir, s.Result)
		return printJSON(e, map[string]any{"state": state, "result": s.Result, "report": reportOf(s), "trials": all})
	}
	s, found, err := readJob(dir, results.ReadTrials)
	if err != nil {
		return err
	}
	sayDamaged(e, dir, s.Damage)
	sayUnreadable(e, dir, found)
	out := bufio.NewWriter(e.out)
	writeSummary(out, s)
	switch state, holder := results.StateOf(dir, s.Result); state {
	case results.StateRunning:
		fmt.Fprintf(out, "\nRunning, as process %d\n", holder.PID)
	case results.StateInterrupted:
		fmt.Fprintf(out, "\nInterrupted: `harbor job resume %s` goes on\n", dir)
	default:
	}
	if err := out.Flush(); err != nil { // the numbers first: trials may be thousands
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nTRIAL\tREWARD\tTIME\tEXCEPTION\tBLAME")
	for _, t := range s.Trials {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", oneLine(t.Name), verdictText(t), t.Duration.Round(100e6), oneLine(t.Exception), t.Blame)
	}
	return errors.Join(w.Flush(), out.Flush())
}

// sayUnreadable names results that are there and cannot be read.
func sayUnreadable(e *env, dir string, found []results.Found) {
	for _, f := range found {
		switch {
		case f.Err == nil || errors.Is(f.Err, fs.ErrNotExist):
		case f.CopyOf != "":
			fmt.Fprintf(e.err, "harbor: %s\n", printable(f.Err.Error()))
		default:
			fmt.Fprintf(e.err, "harbor: %s; `harbor job resume %s` runs the trial again\n", printable(f.Err.Error()), dir)
		}
	}
}

// verdictText is the reward, – when there is none that counts.
func verdictText(t stats.Trial) string {
	if !t.Valid {
		return "–"
	}
	text := oneLine(rewardText(t.Rewards))
	if t.Suspect {
		text += " (suspect)"
	}
	return text
}

func newTrialCommand(e *env) *cobra.Command {
	c := group("trial", "Run and inspect single trials", "trials")
	c.AddCommand(newTrialStartCommand(e), newTrialRegradeCommand(e), newTrialInitCommand(e), newTrialSchemaCommand(e), jsonFlag(e, &cobra.Command{
		Use: "show DIR…", Short: "Show what happened in trials", Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return showTrials(e, args) },
	}), &cobra.Command{
		Use: "logs DIR [FILE]", Short: "List a trial's files, or print one", Args: cobra.RangeArgs(1, 2),
		RunE: func(_ *cobra.Command, args []string) error { return trialLogs(e, args) },
	})
	return addNotBuilt(c, "trial")
}

// showTrials prints one trial after another; as JSON several are a list.
func showTrials(e *env, dirs []string) error {
	var all []*trials.Result
	for _, dir := range dirs {
		r, err := results.ReadTrialResult(dir)
		if err != nil {
			return notA("trial", dir, err)
		}
		all = append(all, r)
	}
	if e.json {
		return printTrials(e, dirs, all)
	}
	for i, r := range all {
		if i > 0 {
			fmt.Fprintln(e.out)
		}
		if err := showTrial(e, dirs[i], r); err != nil {
			return err
		}
	}
	return nil
}

// printTrials prints results with where their tries ran and why.
func printTrials(e *env, dirs []string, all []*trials.Result) error {
	type placed struct {
		*trials.Result
		Placement []placement `json:"placement"`
	}
	out := make([]placed, len(all))
	for i, r := range all {
		out[i] = placed{r, placements(dirs[i])}
	}
	if len(out) == 1 {
		return printJSON(e, out[0])
	}
	return printJSON(e, out)
}

func showTrial(e *env, dir string, r *trials.Result) error {
	t := stats.Of(r)
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "trial\t%s\ntask\t%s\nagent\t%s %s\nreward\t%s\n", oneLine(r.TrialName), oneLine(r.TaskName), oneLine(r.AgentInfo.Name), oneLine(r.AgentInfo.Version), verdictText(t))
	if x := r.ExceptionInfo; x != nil {
		fmt.Fprintf(w, "exception\t%s\nblame\t%s\nmessage\t%s\n", oneLine(x.Type), t.Blame, printableEnds(x.Message, filepath.Join(dir, results.ExceptionFile)))
	}
	for _, p := range trials.Phases() {
		if d, ok := t.Phases.Of(p); ok {
			fmt.Fprintf(w, "%s\t%s\n", p, d.Round(1e6))
		}
	}
	for _, line := range meteredLines(r) {
		fmt.Fprintf(w, "%s\n", line)
	}
	for _, line := range placementLines(dir) {
		fmt.Fprintf(w, "%s\n", line)
	}
	if x := r.Harborgate; x != nil {
		fmt.Fprintf(w, "provider\t%s\ntry\t%d\nattempt\t%d\n", oneLine(cmp.Or(x.Provider, "–")), x.Try, x.Attempt)
		for _, s := range x.Suspect {
			fmt.Fprintf(w, "suspect\t%s: %s\n", oneLine(s.Code), oneLine(s.Message))
		}
		for _, n := range x.Notes {
			fmt.Fprintf(w, "note\t%s: %s\n", oneLine(n.Code), oneLine(n.Message))
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
		return e.copyLog(f)
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
		fmt.Fprintln(e.out, oneLine(filepath.ToSlash(n)))
	}
	return err
}
