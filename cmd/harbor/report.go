package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"harborgate/internal/app"
	"harborgate/internal/atomicfile"
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
	s.StringVarP(&o.output, "output", "o", "", "file to write instead of standard output")
	s.StringVar(&o.reward, "reward", "", "reward key that stands for the verdict (default: reward, or the only one)")
	s.IntVar(&o.k, "k", 0, "a k of pass@k to show beside the usual ones")
	addJobsDirFlag(s, &o.jobsDir)
	return c
}

// reportedJob is a job with all that a report says. Its JSON is stable: members may
// be added.
type reportedJob struct {
	Name    string           `json:"name"`
	Dir     string           `json:"dir"`
	Result  trials.JobResult `json:"result"`
	Report  stats.Report     `json:"report"`
	Slowest []slowTrial      `json:"slowest_trials"`
	Config  trials.JobConfig `json:"config"`
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
		jobs = append(jobs, j)
	}
	var text bytes.Buffer
	to := *o.env
	to.out = &text
	if o.json {
		if err := printJSON(&to, jobs); err != nil {
			return err
		}
	} else {
		for i, j := range jobs {
			if i > 0 {
				fmt.Fprintln(&text)
			}
			j.page().writeMarkdown(&text, 1)
		}
	}
	if o.output == "" {
		_, err := o.out.Write(text.Bytes())
		return err
	}
	if err := atomicfile.Write(o.output, text.Bytes(), 0o644); err != nil {
		return nothingRan("the report could not be written: %w", err)
	}
	return nil
}

// load reads a job, also one that is still running.
func (o *reportOptions) load(dir string) (reportedJob, error) {
	s, all, err := loadJob(dir)
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
	b, err := os.ReadFile(filepath.Join(dir, results.ConfigFile))
	if err == nil {
		j.Config, err = trials.ReadJobConfig(b)
	}
	if err != nil {
		return j, notA("job", dir, err)
	}
	return j, nil
}

// planOf is what a job set out to do.
func planOf(s app.Summary) stats.Plan {
	return stats.Plan{Trials: s.Planned, ByKey: s.ByKey, Wall: s.Result.Worked()}
}
