package main

import (
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/spf13/pflag"

	"harborgate/internal/app"
	"harborgate/trials/results"
)

// findJob returns the directory of a job that is given by its path, or by its name:
// in the directory of jobs, or else the newest of that name that this host ran.
func findJob(e *env, jobsDir, name string) (string, error) {
	for _, dir := range []string{name, filepath.Join(jobsDir, name), known(e, name)} {
		if dir != "" && results.HoldsJob(dir) {
			return dir, nil
		}
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return "", nothingRan("%s is no job directory: name a job, not the directory that holds jobs", name)
	}
	return "", nothingRan("there is no job %s, neither in %s nor among those that this host ran: give the path of its directory; `harbor job list` shows those that are known", name, jobsDir)
}

// known is the directory of the newest job of a name or id among those of this host,
// "" when there is none.
func known(e *env, name string) string {
	dirs, err := app.FindDirs(e.lookup)
	if err != nil {
		return ""
	}
	all, err := app.KnownJobs(dirs.State)
	if err != nil {
		return ""
	}
	for _, dir := range all {
		if filepath.Base(dir) == name {
			return dir
		}
	}
	if uuid.Validate(name) != nil {
		return ""
	}
	for _, dir := range all {
		if r, err := results.ReadJobResult(dir); err == nil && r.ID == name {
			return dir
		}
	}
	return ""
}

func addJobsDirFlag(s *pflag.FlagSet, dir *string) {
	s.StringVar(dir, "jobs-dir", "jobs", "directory in which jobs are found by name")
}
