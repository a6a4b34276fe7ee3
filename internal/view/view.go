// Package view is the full-terminal browser of results: jobs, the trials of a job,
// what happened in a trial, its logs, tests and files.
//
// It only reads, and opens nothing outside the directory that it was given: what is
// in there may come from a sandbox, so links are not followed out of it, pipes and
// devices are not opened, files are read as far as they are shown, and text reaches
// the terminal without anything that a terminal would obey. A job that runs is
// followed by its files alone.
package view

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	tea "charm.land/bubbletea/v2"

	"harborgate/trials/results"
)

// Options are what a browser is made from.
type Options struct {
	// Path is a directory of jobs, a job's or a trial's.
	Path string
	// Alive reports whether a process runs the job in a directory.
	Alive func(dir string) bool
	// Shown is a path as the user would type it.
	Shown   func(path string) string
	Now     func() time.Time
	In, Out *os.File // a terminal
	Environ []string // TERM, NO_COLOR and the like, as NAME=value
}

// host is what pages know of the world.
type host struct {
	now   func() time.Time
	alive func(dir string) bool
	shown func(path string) string
}

// Run shows the browser until the user leaves it or the context ends. The terminal
// is then as it was before. An error says that there is nothing to show, or that
// the terminal cannot be used.
func Run(ctx context.Context, o Options) error {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return err
	}
	first, err := open(host{o.Now, o.Alive, o.Shown}, path)
	if err != nil {
		return err
	}
	p := tea.NewProgram(newBrowser(first), tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out),
		tea.WithEnvironment(o.Environ), tea.WithoutSignalHandler())
	_, err = p.Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// open finds out what a directory is.
func open(h host, path string) (page, error) {
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !fi.IsDir():
		return nil, fmt.Errorf("%s is no directory", path)
	case isTrial(path):
		return openTrial(h, path, func(string) *active { return nil })
	case isJob(path):
		return openJob(h, path)
	}
	return openJobs(h, path)
}

// isTrial goes by the log that every trial has, and no job.
func isTrial(path string) bool { return exists(path, results.TrialLogFile) }

// isJob goes by the files that jobs have; a trial has some of them too.
func isJob(path string) bool {
	for _, name := range []string{results.ResultFile, results.ConfigFile, results.EventsFile} {
		if exists(path, name) {
			return true
		}
	}
	return false
}

// exists reports whether a directory has a regular file of a name.
func exists(dir, name string) bool {
	fi, err := os.Lstat(filepath.Join(dir, name))
	return err == nil && fi.Mode().IsRegular()
}
