package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"harborgate/internal/app"
	"harborgate/trials"
	"harborgate/trials/stats"
)

// reported is a job as report reads it from disk.
func reported(name string, s app.Summary) *reportedJob {
	cores, half := trials.Cores(2), trials.Float(0.5)
	c := trials.NewJobConfig()
	c.Environment.OverrideCPUs, c.VerifierTimeout = &cores, &half
	path := "tasks"
	c.Datasets = trials.List[trials.DatasetConfig]{{Path: &path}}
	return &reportedJob{
		Name: name, Result: s.Result, Report: stats.New(s.Trials, planOf(s)), Slowest: slowest(s.Trials),
		Config: &c, Harbor: "0.1.0", Versions: map[string][]string{"oracle": {"1.0.0"}},
	}
}

func TestReportPage(t *testing.T) {
	t.Parallel()
	for name, s := range summaries() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			reported(name, s).page().writeMarkdown(&out, 1)
			golden(t, filepath.Join("testdata", "report", name+".md"), out.Bytes())
		})
	}
}
