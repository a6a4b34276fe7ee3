package main

import (
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"harborgate/trials/results"
)

func newJobCancelCommand(e *env) *cobra.Command {
	var wait bool
	var jobs string
	c := &cobra.Command{
		Use:   "cancel JOB",
		Short: "Stop the process that runs a job, as Ctrl-C would; the job can go on later",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := findJob(e, jobs, args[0])
			if err != nil {
				return err
			}
			return cancelJob(c, e, dir, wait)
		},
	}
	c.Flags().BoolVar(&wait, "wait", false, "return when the process has ended")
	addJobsDirFlag(c.Flags(), &jobs)
	return c
}

func cancelJob(c *cobra.Command, e *env, dir string, wait bool) error {
	holder, running := results.Running(dir)
	if !running {
		return nothingRan("job %s is not running: there is nothing to cancel", relative(dir))
	}
	ended, err := holder.Signal(syscall.SIGINT)
	if err != nil {
		return nothingRan("job %s: %w", relative(dir), err)
	}
	fmt.Fprintf(e.out, "Job %s: process %d was told to stop\n", relative(dir), holder.PID)
	if !wait {
		return nil
	}
	if err := ended(c.Context()); err != nil {
		return codedError{exitUngraded, fmt.Errorf("the process has not ended yet: %w", err)}
	}
	r, err := results.ReadJobResult(dir)
	if err != nil {
		return codedError{exitUngraded, fmt.Errorf("the process has ended: %w", err)}
	}
	s := r.Stats
	_, err = fmt.Fprintf(e.out, "It has ended: %d finished, %d cancelled, %d not begun; `harbor job resume %s` goes on\n",
		s.Completed-s.Cancelled, s.Cancelled, s.Pending, relative(dir))
	return err
}
