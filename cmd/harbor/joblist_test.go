package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/stats"
)

// putVerdicts makes a job of so many planned trials, with the rewards of each task.
func putVerdicts(t *testing.T, planned int, rewards map[string][]float64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "job")
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	write := func(name string, what any) {
		t.Helper()
		b, err := trials.MarshalIndent(what)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, results.ResultFile), trials.JobResult{ID: "id", StartedAt: trials.LocalAt(now), NTotalTrials: planned})
	agent := "oracle"
	lock := trials.JobLock{}
	for range planned {
		lock.Trials = append(lock.Trials, trials.TrialLock{Agent: trials.AgentConfig{Name: &agent}})
	}
	write(filepath.Join(dir, results.LockFile), lock)
	for task, values := range rewards {
		for i, x := range values {
			name := fmt.Sprintf("%s__%d", task, i)
			write(filepath.Join(dir, name, results.ResultFile), trials.Result{
				TrialName: name, TaskName: task, StartedAt: trials.At(now), FinishedAt: trials.At(now), RewardValid: true,
				Config: trials.TrialConfig{Agent: trials.AgentConfig{Name: &agent}}, AgentInfo: trials.AgentInfo{Name: agent},
				VerifierResult: &trials.VerifierResult{Rewards: trials.Rewards{{Key: "reward", Value: trials.Number{Value: x}}}},
				Harborgate:     &trials.Extra{Attempt: i + 1, Suspect: suspicions(task)},
			})
		}
	}
	return dir
}

func suspicions(task string) []trials.Suspicion {
	if !strings.HasPrefix(task, "suspect") {
		return nil
	}
	return []trials.Suspicion{{Code: "nothing_collected"}}
}

// The list and the page of a job have one mean, over tasks, and never a bare one where
// verdicts are missing.
func TestJobListHasTheMeanOfJobShow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		planned int
		rewards map[string][]float64
		want    string
	}{
		"attempts":        {3, map[string][]float64{"a": {1, 1}, "b": {0}}, "3 (100 %) 0.500"},
		"missing":         {6, map[string][]float64{"suspect": {1}}, "1 (17 %), 1 suspect 1.000 (0.167 to 1.000)"},
		"both":            {4, map[string][]float64{"a": {1, 1}, "b": {0}}, "3 (75 %) 0.500 (0.500 to 0.750)"},
		"beyond 0 and 1":  {6, map[string][]float64{"a": {12}}, "1 (17 %) 12.000"},
		"without verdict": {2, nil, "0 (0 %) –"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := putVerdicts(t, c.planned, c.rewards)
			row := rowOf(dir)
			if got := coverage(row) + " " + meanText(row); row.Error != "" || got != c.want {
				t.Errorf("%q, want %q; %s", got, c.want, row.Error)
			}
			job, _, err := readJob(dir, results.ReadTrials)
			if err != nil {
				t.Fatal(err)
			}
			var page bytes.Buffer
			writeSummary(&page, job)
			if want := "mean " + stats.MeanText(row.Mean); !strings.Contains(page.String(), want) {
				t.Errorf("%q is not on the page:\n%s", want, page.String())
			}
		})
	}
}
