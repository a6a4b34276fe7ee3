package main

import (
	"os"
	"path/filepath"

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
	return "", nothingRan("there is no job %s: give the path of its directory, or its name with --jobs-dir (now %s)", name, jobsDir)
}

// known is the directory of the newest job of a name in the list of this host's jobs,
// "" when there is none.
func known(e *env, name string) (dir string) {
	dirs, err := app.FindDirs(e.lookup)
	if err != nil {
		return ""
	}
	all, _ := app.KnownJobs(dirs.State) // a list that cannot be read knows none
	for _, d := range all {
		if filepath.Base(d) == name {
			return d
		}
	}
	return ""
}

func addJobsDirFlag(s *pflag.FlagSet, dir *string) {
	s.StringVar(dir, "jobs-dir", "jobs", "directory in which jobs are found by name")
}
