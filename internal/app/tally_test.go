package app

import (
	"path/filepath"
	"testing"

	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/stats"
)

// The result of a job has the mean that its page has, over tasks, beside Harbor's, which
// is over trials; several arms share none.
func TestResultHasTheMeanOverTasks(t *testing.T) {
	t.Parallel()
	oracle, nop := trials.AgentConfig{Name: new("oracle")}, trials.AgentConfig{Name: new("nop")}
	row := stats.KeyOf(oracle, nil)
	verdict := func(name, task string, x float64) stats.Trial {
		return stats.Trial{
			Name: name, Task: task, Row: row, Agent: "oracle", Dataset: row.Dataset, Valid: true, Tries: 1,
			Rewards: trials.Rewards{{Key: "reward", Value: trials.Number{Value: x}}},
		}
	}
	for name, c := range map[string]struct {
		more []PlannedTrial
		want string
	}{
		"one arm":                  {nil, "0.500"},
		"another has not begun":    {[]PlannedTrial{{Planned: trials.Planned{Name: "d", Config: &trials.TrialConfig{Agent: nop}}}}, stats.Unknown},
		"more of it has not ended": {[]PlannedTrial{{Planned: trials.Planned{Name: "d", Config: &trials.TrialConfig{Agent: oracle}}}}, "0.500"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, err := results.CreateJob(filepath.Join(t.TempDir(), "job"))
			if err != nil {
				t.Fatal(err)
			}
			defer files.Close()
			plan := &Plan{Config: trials.NewJobConfig(), Trials: c.more, Past: &Past{
				Kept: []stats.Trial{verdict("a1", "a", 1), verdict("a2", "a", 1), verdict("b", "b", 0)},
			}}
			r := newTally(files, plan, "fake").snapshot(nil)
			if got := stats.MeanText(r.Harborgate.Mean); got != c.want {
				t.Errorf("mean %s, want %s", got, c.want)
			}
			for _, e := range r.Stats.Evals {
				if x := float64(e.Metrics[0]["mean"]); stats.MeanText(&x) != "0.667" {
					t.Errorf("Harbor's mean %v", x)
				}
			}
		})
	}
}
