package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"harborgate/internal/app"
	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/stats"
)

func newJobRegradeCommand(e *env) *cobra.Command {
	o := &runOptions{env: e}
	o.cmd = &cobra.Command{
		Use:   "regrade JOB -p TASKS",
		Short: "Grade what the trials of a job left with the tests of today; no agent runs",
		Long: `Grade what the trials of a job left with the tests of today. It makes a new job: each
trial gets copies of the earlier one's agent/ and artifacts/, and the task's separate
verifier. Tasks whose tests need the agent's own sandbox cannot be graded again.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := findJob(e, "jobs", args[0])
			if err != nil {
				return err
			}
			return o.regrade(c.Context(), dir)
		},
	}
	addRegradeFlags(o.cmd, &o.flags.sharedFlags)
	s, f := o.cmd.Flags(), &o.flags
	s.StringVar(&f.jobName, "job-name", "", "name of the new job's directory (default: the time)")
	s.StringVarP(&f.jobsDir, "jobs-dir", "o", "", "directory of jobs (default jobs)")
	s.StringArrayVar(&f.tasks, "tasks", nil, "task directory or glob of them, like -p (repeatable)")
	s.BoolVar(&f.dryRun, "dry-run", false, "check everything, run nothing")
	addOperationFlags(s, f)
	return jsonFlag(e, o.cmd)
}

// addRegradeFlags are those of jobs and single trials.
func addRegradeFlags(c *cobra.Command, f *sharedFlags) {
	s := section(c)
	s.StringArrayVarP(&f.paths, "path", "p", nil, "task directory, or directory of tasks (repeatable)")
	addPlaceFlag(s, &f.env, "provider to run sandboxes on, see harbor env list (default docker)")
	s.StringArrayVar(&f.verifierEnv, "ve", nil, "environment variable of the verifier, KEY=VALUE (repeatable)")
	s.Float64Var(&f.verifierMul, "verifier-timeout-multiplier", 1, "factor of the verifier's time limit")
	s.StringVar(&f.envFile, "env-file", "", "file of variables to load, KEY=VALUE lines")
	s.BoolVarP(&f.yes, "yes", "y", false, "do not ask before tasks get variables of this host")
	s.BoolVar(&f.debug, "debug", false, "log everything")
}

func (o *runOptions) regrade(ctx context.Context, dir string) error {
	cfg, err := o.regradeConfig(dir)
	if err != nil {
		return codedError{exitNothing, err}
	}
	o.shown = relative(filepath.Join(cfg.JobsDir, cfg.JobName))
	return o.withApp(ctx, cfg)
}

func (o *runOptions) regradeConfig(dir string) (trials.JobConfig, error) {
	cfg := trials.NewJobConfig()
	if err := loadEnvFile(o.flags.envFile); err != nil {
		return cfg, err
	}
	source, err := app.SourceJob(dir)
	if err != nil {
		return cfg, err
	}
	was, err := results.ReadJobConfig(dir)
	if err != nil {
		return cfg, err
	}
	cfg.SourceJobs, cfg.Agents = trials.List[trials.SourceJob]{source}, was.Agents
	if err := o.flags.apply(o.cmd.Flags(), &cfg); err != nil {
		return cfg, err
	}
	return cfg, validate(cfg)
}

// mostChanges is how many verdicts the table of changes has.
const mostChanges = 50

// showRegrades prints what became of the verdicts.
func (o *runOptions) showRegrades(all []app.Regraded) {
	changed := 0
	w := tabwriter.NewWriter(o.out, 0, 0, 2, ' ', 0)
	for _, r := range all {
		if !r.Changed {
			continue
		}
		if changed == 0 {
			fmt.Fprintln(w, "\nTASK\tEARLIER TRIAL\tWAS\tIS")
		}
		if changed++; changed <= mostChanges {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", oneLine(r.Task), oneLine(r.Source), rewardsText(r.Was), rewardsText(r.Now))
		}
	}
	_ = w.Flush() // as with the summary: when it fails, nobody reads any more
	if n := changed - mostChanges; n > 0 {
		fmt.Fprintf(o.out, "and %d more\n", n)
	}
	fmt.Fprintf(o.out, "\nGraded again: %d of %s changed\n", changed, plural(len(all), "verdict"))
}

func rewardsText(r trials.Rewards) string {
	if r == nil {
		return stats.Unknown
	}
	return oneLine(rewardText(r))
}

func newTrialRegradeCommand(e *env) *cobra.Command {
	o := &trialOptions{env: e}
	o.cmd = &cobra.Command{
		Use: "regrade DIR -p TASK", Short: "Grade what a trial left with the tests of today; no agent runs",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.regradeTrial(c.Context(), args[0]) },
	}
	addRegradeFlags(o.cmd, &o.flags)
	o.cmd.Flags().StringVar(&o.name, "trial-name", "", "name of the new trial's directory")
	o.cmd.Flags().StringVar(&o.dir, "trials-dir", "trials", "directory of trials")
	return jsonFlag(e, o.cmd)
}

func (o *trialOptions) regradeTrial(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	source, err := results.ReadTrialResult(dir)
	if err != nil {
		return notA("trial", dir, err)
	}
	if len(o.flags.paths) != 1 {
		return usageError{fmt.Errorf("give the directory of the trial's task with -p")}
	}
	path := named(o.flags.paths[0])
	cfg := trials.NewTrialConfig(trials.TaskConfig{Path: &path})
	cfg.Agent = source.Config.Agent
	cfg.SourceTrial = &trials.SourceTrial{Action: "regrade", Type: "local", TrialID: &source.ID, Path: &dir}
	cfg.TrialsDir, cfg.TrialName = o.dir, o.name
	if cfg.TrialName == "" {
		if cfg.TrialName, err = trials.TrialName(path, rand.Reader); err != nil {
			return err
		}
	}
	if err := o.apply(&cfg); err != nil {
		return codedError{exitNothing, err}
	}
	return o.start(ctx, cfg)
}
