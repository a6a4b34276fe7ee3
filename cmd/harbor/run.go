package main

import (
	"fmt"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"harborgate/configs"
	"harborgate/internal/app"
	"harborgate/trials"
	"time"
)

func newRunCommand(e *env, name string) *cobra.Command {
	var path, agent, jobsDir, jobName string
	var n, k int
	c := &cobra.Command{Use: name, Short: "Run a job", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		cfg, problems := configs.LoadJob(nil)
		if err := problems.Err(); err != nil {
			return err
		}
		cfg.JobsDir = jobsDir
		cfg.JobName = jobName
		if jobName == "" {
			cfg.JobName = trials.JobName(time.Now())
		}
		cfg.NConcurrentTrials, cfg.NAttempts = n, k
		cfg.Agents[0].Name = &agent
		cfg.Tasks = trials.List[trials.TaskConfig]{{Path: &path}}
		a, err := app.New(app.Options{Logger: e.log})
		if err != nil {
			return err
		}
		defer a.Close()
		plan, err := app.NewPlan(cfg, uuid.NewString())
		if err != nil {
			return err
		}
		p, err := a.Provider("docker")
		if err != nil {
			return err
		}
		if err := app.CheckProvider(c.Context(), p); err != nil {
			return nothingRan("%w", err)
		}
		j, err := a.StartJob(c.Context(), plan, p, app.Settings{})
		if err != nil {
			return err
		}
		defer j.Close()
		s, err := j.Run(c.Context())
		for _, t := range s.Trials {
			fmt.Fprintln(e.out, t.Name, t.Rewards, t.Valid, t.Exception, t.Duration, t.Phases)
		}
		return err
	}}
	c.Flags().StringVarP(&path, "path", "p", "", "")
	c.Flags().StringVarP(&agent, "agent", "a", "oracle", "")
	c.Flags().StringVarP(&jobsDir, "jobs-dir", "o", "jobs", "")
	c.Flags().StringVar(&jobName, "job-name", "", "")
	c.Flags().IntVarP(&n, "n-concurrent", "n", 4, "")
	c.Flags().IntVarP(&k, "n-attempts", "k", 1, "")
	return c
}
