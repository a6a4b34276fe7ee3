package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"harborgate/trials/results"
)

// knownFile is the list of jobs in the state directory, one line for each time
// that a process began to work on one.
const knownFile = "jobs.jsonl"

// knownJob is a line of it.
type knownJob struct {
	Dir  string    `json:"dir"`
	ID   string    `json:"id"`
	Time time.Time `json:"time"`
}

// remember lists the job for commands that look for jobs.
func (a *App) remember(dir string, plan *Plan) error {
	b, err := json.Marshal(knownJob{Dir: dir, ID: plan.ID, Time: time.Now().UTC()})
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(a.Dirs.State, knownFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("list the job: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Close())
}

// KnownJobs lists the directories of jobs that this host worked on and that are
// still there, the latest first. Lines that cannot be read are passed over.
func KnownJobs(state string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(state, knownFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the list of jobs: %w", err)
	}
	var out []string
	seen := map[string]bool{}
	lines := bytes.Split(b, []byte("\n"))
	for _, line := range slices.Backward(lines) {
		var k knownJob
		if json.Unmarshal(line, &k) != nil || k.Dir == "" || seen[k.Dir] {
			continue
		}
		seen[k.Dir] = true
		if results.HoldsJob(k.Dir) {
			out = append(out, k.Dir)
		}
	}
	return out, nil
}
