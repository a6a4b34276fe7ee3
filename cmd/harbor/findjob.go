package main

import (
	"bufio"
	"encoding/json"
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
		if dir != "" && isJob(dir) {
			return dir, nil
		}
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return "", nothingRan("%s is no job directory: it has no %s; name a job, not the directory that holds jobs", name, results.ResultFile)
	}
	return "", nothingRan("there is no job %s: give the path of its directory, or its name with --jobs-dir (now %s)", name, jobsDir)
}

func isJob(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, results.ResultFile))
	return err == nil && info.Mode().IsRegular()
}

// known is the directory of the newest job of a name in the list of this host's jobs,
// "" when there is none.
func known(e *env, name string) (dir string) {
	dirs, err := app.FindDirs(e.lookup)
	if err != nil {
		return ""
	}
	f, err := os.Open(filepath.Join(dirs.State, "jobs.jsonl"))
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var job struct {
			Dir string `json:"dir"`
		}
		if json.Unmarshal(lines.Bytes(), &job) == nil && filepath.Base(job.Dir) == name {
			dir = job.Dir
		}
	}
	return dir
}

func addJobsDirFlag(s *pflag.FlagSet, dir *string) {
	s.StringVar(dir, "jobs-dir", "jobs", "directory in which jobs are found by name")
}
