package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"harborgate/internal/app"
	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/stats"
)

// reportOptions are what `harbor report` works with.
type reportOptions struct {
	*env
	jobsDir, output, reward string
	k                       int
}

func newReportCommand(e *env) *cobra.Command {
	o := &reportOptions{env: e}
	c := jsonFlag(e, &cobra.Command{
		Use:   "report JOB…",
		Short: "Report jobs in Markdown: numbers, failures, cost, settings and versions",
		Args:  cobra.MinimumNArgs(1),
		RunE:  func(_ *cobra.Command, args []string) error { return o.run(args) },
	})
	s := c.Flags()
	addOutputFlag(s, &o.output)
	s.StringVar(&o.reward, "reward", "", "reward key that stands for the verdict (default: reward, or the only one)")
	s.IntVar(&o.k, "k", 0, "a k of pass@k to show beside the usual ones")
	addJobsDirFlag(s, &o.jobsDir)
	return c
}

// reportedJob is a job with all that a report says. Its JSON is stable: members may
// be added.
type reportedJob struct {
	Name    string            `json:"name"`
	Dir     string            `json:"dir"`
	Result  trials.JobResult  `json:"result"`
	Report  stats.Report      `json:"report"`
	Slowest []slowTrial       `json:"slowest_trials"`
	Config  *trials.JobConfig `json:"config"` // null when it cannot be read
	// Versions are those of the program that ran the job, and of its agents.
	Harbor   string              `json:"harbor_version,omitempty"`
	Versions map[string][]string `json:"agent_versions"`
}

func (o *reportOptions) run(args []string) error {
	var jobs []reportedJob
	for _, a := range args {
		dir, err := findJob(o.env, o.jobsDir, a)
		if err != nil {
			return err
		}
		j, err := o.load(dir)
		if err != nil {
			return err
		}
		if err := checkReward(o.reward, j.Report.Rows); err != nil {
			return err
		}
		jobs = append(jobs, j)
	}
	return o.printed(o.output, func(to *env) error {
		if o.json {
			return printJSON(to, jobs)
		}
		for i, j := range jobs {
			if i > 0 {
				fmt.Fprintln(to.out)
			}
			j.page().writeMarkdown(to.out, 1)
		}
		return nil
	})
}

// load reads a job, also one that is still running.
func (o *reportOptions) load(dir string) (reportedJob, error) {
	s, all, err := o.loadWarning(dir)
	if err != nil {
		return reportedJob{}, err
	}
	plan := planOf(s)
	plan.RewardKey, plan.K = o.reward, o.k
	j := reportedJob{
		Name: jobName(dir), Dir: dir, Result: s.Result, Report: stats.New(s.Trials, plan),
		Slowest: slowest(s.Trials), Versions: agentVersions(all),
	}
	if lock, err := results.ReadJobLock(dir); err == nil {
		j.Harbor = lock.Harbor.Version
	}
	if c, err := results.ReadJobConfig(dir); err == nil {
		j.Config = &c
	} else {
		fmt.Fprintln(o.err, "harbor:", oneLine(fmt.Sprintf("%s: its settings are not known: %v", dir, err)))
	}
	return j, nil
}

// loadWarning is loadJob that says which results it could not read: they count as
// pending, and never as anything else.
func (e *env) loadWarning(dir string) (app.Summary, []*trials.Result, error) {
	s, found, err := readJob(dir, results.ReadWholeTrials)
	var all []*trials.Result
	for _, f := range found {
		switch {
		case f.Result != nil:
			all = append(all, f.Result)
		case f.CopyOf != "":
			fmt.Fprintln(e.err, "harbor:", oneLine(f.Err.Error()))
		case !errors.Is(f.Err, fs.ErrNotExist):
			fmt.Fprintln(e.err, "harbor:", oneLine(fmt.Sprintf("trial %s counts as pending: %v", f.Name(), f.Err)))
		}
	}
	return s, all, err
}

// planOf is what a job set out to do.
func planOf(s app.Summary) stats.Plan {
	return stats.Plan{Trials: s.Planned, ByKey: s.ByKey, Wall: s.Result.Worked()}
}
