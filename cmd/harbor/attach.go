package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"harborgate/internal/app"
	"harborgate/internal/events"
	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/stats"
)

func newAttachCommand(e *env) *cobra.Command {
	var quiet bool
	var jobs string
	c := &cobra.Command{
		Use:   "attach [JOB]",
		Short: "Follow a job that another process runs, from what happened so far to its end",
		Long: `Follow a job that another process runs: what happened so far, its progress, and in
the end its numbers, with the exit code of that process. JOB is the job's name or
directory, by default the only one that runs. Ctrl-C detaches and leaves the job
running.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := attachTo(e, jobs, args)
			if err != nil {
				return err
			}
			return attach(c.Context(), e, dir, quiet)
		},
	}
	c.Flags().BoolVarP(&quiet, "quiet", "q", false, "progress on one line; the numbers at the end stay")
	addJobsDirFlag(c.Flags(), &jobs)
	return jsonFlag(e, c)
}

// attachTo is the job that is meant.
func attachTo(e *env, jobs string, args []string) (string, error) {
	if len(args) == 1 {
		return findJob(e, jobs, args[0])
	}
	running, err := runningJobs(e, jobs)
	switch {
	case err != nil:
		return "", codedError{exitNothing, err}
	case len(running) == 0:
		return "", nothingRan("no job is running on this host: `harbor job list` shows those that are known")
	case len(running) > 1:
		return "", nothingRan("%d jobs are running, say which one:\n  harbor attach %s", len(running), strings.Join(running, "\n  harbor attach "))
	}
	return running[0], nil
}

// runningJobs are those that this host knows and those of a directory.
func runningJobs(e *env, jobs string) ([]string, error) {
	dirs, err := app.FindDirs(e.lookup)
	if err != nil {
		return nil, err
	}
	all, err := app.KnownJobs(dirs.State)
	if err != nil {
		return nil, err
	}
	if here, err := jobsIn(jobs); err == nil {
		all = append(all, here...)
	}
	var out []string
	seen := map[string]bool{}
	for _, dir := range all {
		if real, err := filepath.EvalSymlinks(dir); err == nil && !seen[real] && alive(dir) {
			seen[real] = true
			out = append(out, relative(dir))
		}
	}
	return out, nil
}

// attach shows a job until it ends, or the context does.
func attach(ctx context.Context, e *env, dir string, quiet bool) error {
	holder, running := results.Running(dir)
	if running {
		fmt.Fprintf(e.err, "harbor: attached to job %s of process %d, Ctrl-C detaches\n", relative(dir), holder.PID)
		err := followJob(ctx, e, dir, quiet)
		if ctx.Err() != nil {
			fmt.Fprintf(e.err, "harbor: detached: process %d goes on with the job, `harbor attach %s` shows it again\n", holder.PID, relative(dir))
		}
		if err != nil {
			return err
		}
	} else {
		fmt.Fprintf(e.err, "harbor: no process runs job %s, this is how it stands\n", relative(dir))
	}
	s, _, err := readJob(dir, results.ReadTrials)
	if err != nil {
		return err
	}
	o := runOptions{env: e, shown: relative(dir)}
	if err := o.showEnd(dir, s); err != nil {
		return err
	}
	return attachedOutcome(ctx, s, relative(dir))
}

// followJob sends the job's events to a display until its process has ended. An
// error says that somebody wanted to see no more.
func followJob(ctx context.Context, e *env, dir string, quiet bool) error {
	state := newJobState(0)
	state.earlier = finishedIn(dir)
	ch := make(chan trials.Event)
	progress := startProgress(context.WithoutCancel(ctx), e, state, ch, quiet)
	err := relay(ctx, dir, ch)
	close(ch)
	progress.wait()
	return err
}

// relay ends when the process has ended and all that it wrote was sent.
func relay(ctx context.Context, dir string, ch chan<- trials.Event) error {
	log := events.NewReader(filepath.Join(dir, results.EventsFile))
	for {
		running := alive(dir) // asked first: what it wrote before it ended is read below
		if err := drain(ctx, log, ch); err != nil {
			return err
		}
		if !running {
			return nil
		}
		select {
		case <-ctx.Done():
			return detached(ctx)
		case <-time.After(events.FollowPause):
		}
	}
}

// drain sends all events that there are now.
func drain(ctx context.Context, log *events.Reader, ch chan<- trials.Event) error {
	for {
		found, err := log.Read()
		if err != nil {
			return codedError{exitUngraded, err}
		}
		if len(found) == 0 {
			return nil
		}
		for _, e := range found {
			select {
			case ch <- e:
			case <-ctx.Done():
				return detached(ctx)
			}
		}
	}
}

// detached is the end that a signal makes.
func detached(ctx context.Context) error {
	var sig signalError
	if errors.As(context.Cause(ctx), &sig) {
		return codedError{code: exitSignalled + int(sig.Signal)}
	}
	return context.Cause(ctx)
}

// finishedIn reads the trials of a job that were finished before a moment, when the
// next process took it up: what had to be done again is not there any more.
func finishedIn(dir string) func(before time.Time) []stats.Trial {
	return func(before time.Time) []stats.Trial {
		found, err := results.ReadTrials(dir)
		if err != nil {
			return nil // the numbers of the end will say it
		}
		var out []stats.Trial
		for _, f := range found {
			if f.Result != nil && f.Result.Finished() && f.Result.FinishedAt.Before(before) {
				out = append(out, stats.Of(f.Result))
			}
		}
		return out
	}
}

// attachedOutcome is the exit code of the process that ran the job, as far as the
// job's files tell.
func attachedOutcome(ctx context.Context, s app.Summary, shown string) error {
	if s.Result.FinishedAt != nil {
		return outcome(ctx, s)
	}
	why := "its process is gone"
	if x := s.Result.Harborgate; x != nil && x.Interrupted != "" {
		why = printable(x.Interrupted)
	}
	for sig, name := range signalNames {
		if why == name {
			return codedError{exitSignalled + int(sig), fmt.Errorf("the job was stopped by %s: `harbor job resume %s` goes on", name, shown)}
		}
	}
	return codedError{exitUngraded, fmt.Errorf("the job was interrupted, %s: `harbor job resume %s` goes on", why, shown)}
}
