package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"harborgate/internal/view"
	"harborgate/trials/results"
)

func newViewCommand(e *env) *cobra.Command {
	return &cobra.Command{
		Use:   "view [DIR]",
		Short: "Browse jobs, trials, logs and files in the terminal",
		Long: `Browse jobs, their trials, what happened in each, its logs, tests and files, in the
whole terminal; also of jobs that run. DIR is a directory of jobs, a job or a trial,
by default the directory jobs. Nothing is changed. ? lists the keys.`,
		Example: `  harbor view                    the jobs of the directory jobs
  harbor view jobs/mine          one job`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			path := "jobs"
			if len(args) == 1 {
				path = args[0]
			}
			return browse(c.Context(), e, path)
		},
	}
}

func browse(ctx context.Context, e *env, path string) error {
	if fi, err := os.Stat(path); err != nil || !fi.IsDir() {
		return nothingRan("%s is no directory: name a directory of jobs, a job or a trial", path)
	}
	out, ok := e.file()
	if !ok || !term.IsTerminal(int(out.Fd())) || !term.IsTerminal(int(e.in.Fd())) {
		return nothingRan("harbor view needs a terminal: `harbor job show %s` prints a job, `harbor trial show` a trial", path)
	}
	err := view.Run(ctx, view.Options{Path: path, Alive: alive, Shown: relative, Now: time.Now, In: e.in, Out: out, Environ: os.Environ()})
	var sig signalError
	if errors.As(context.Cause(ctx), &sig) {
		return codedError{exitSignalled + int(sig.Signal), fmt.Errorf("stopped by %w", sig)}
	}
	if err != nil {
		return codedError{exitNothing, fmt.Errorf("view %s: %w", path, err)}
	}
	return nil
}

// alive reports whether a process of this host runs a job. A lock that is no file
// is not opened: that could wait for ever.
func alive(dir string) bool {
	fi, err := os.Lstat(filepath.Join(dir, ".lock"))
	if err != nil || !fi.Mode().IsRegular() {
		return false
	}
	_, ok := results.Running(dir)
	return ok
}
