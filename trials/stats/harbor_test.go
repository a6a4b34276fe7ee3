package stats

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harborgate/trials"
)

func one(key string, value float64) trials.Rewards {
	return trials.Rewards{{Key: key, Value: trials.Number{Value: value}}}
}

// TestHarborNumbers compares the stats of jobs of Harbor 0.26 with ours, to the
// byte.
func TestHarborNumbers(t *testing.T) {
	t.Parallel()
	oracle := func(name, task string, rewards trials.Rewards) Trial {
		return Trial{Name: name, Task: task, Agent: "oracle", Dataset: Adhoc, Rewards: rewards, Valid: rewards != nil, Tries: 1}
	}
	inTasks := func(t Trial) Trial { t.Dataset = "tasks"; return t }
	failed := func(t Trial, exception string) Trial { t.Exception = exception; return t }

	for file, all := range map[string][]Trial{
		"multi-attempt": {
			inTasks(oracle("hello-bad__t5ScSCp", "hello-bad", one("reward", 0))),
			inTasks(oracle("hello-ok__RKesjRP", "hello-ok", one("reward", 1))),
			inTasks(oracle("hello-bad__AHstN2z", "hello-bad", one("reward", 0))),
			inTasks(oracle("hello-ok__2VQuDEZ", "hello-ok", one("reward", 1))),
		},
		"json-reward-artifacts": {
			oracle("json-reward__k2pqSEG", "json-reward", trials.Rewards{
				{Key: "accuracy", Value: trials.Number{Value: 0.5}}, {Key: "passed", Value: trials.Number{Value: 1, Int: true}},
			}),
		},
		"agent-timeout": {
			failed(oracle("slow-agent__D4SCjop", "slow-agent", one("reward", 1)), "AgentTimeoutError"),
		},
		"no-reward": {
			failed(oracle("no-reward__KESnqBW", "no-reward", nil), "RewardFileNotFoundError"),
		},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile("testdata/harbor/" + file + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var want struct{ Stats json.RawMessage }
			if err := json.Unmarshal(b, &want); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(Harbor(all, nil))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(compact(t, want.Stats), string(got)); diff != "" {
				t.Errorf("(-Harbor +ours)\n%s", diff)
			}
		})
	}
}

func compact(t *testing.T, b []byte) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestHarborMetrics(t *testing.T) {
	t.Parallel()
	all := []Trial{
		{Task: "a", Agent: "x", Dataset: "d", Valid: true, Rewards: trials.Rewards{{Key: "p", Value: trials.Number{Value: 1}}, {Key: "q", Value: trials.Number{Value: 4}}}},
		{Task: "b", Agent: "x", Dataset: "d", Valid: true, Rewards: one("p", 0.5)},
		{Task: "c", Agent: "x", Dataset: "d", Rewards: one("p", 9)}, // does not count
	}
	metrics := []trials.MetricConfig{{Type: "sum"}, {Type: "mean"}, {Type: "min"}, {Type: "max"}, {Type: "uv-script"}}
	got := Harbor(all, metrics).Evals["x__d"].Metrics
	want := trials.List[map[string]trials.Float]{
		{"p": 1.5, "q": 4}, {"p": 0.75, "q": 2}, {"p": 0.5, "q": 0}, {"p": 1, "q": 4},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	single := Harbor(all[1:2], metrics).Evals["x__d"].Metrics
	if diff := cmp.Diff(trials.List[map[string]trials.Float]{{"sum": 0.5}, {"mean": 0.5}, {"min": 0.5}, {"max": 0.5}}, single); diff != "" {
		t.Error(diff)
	}
}

// TestHarborPrintsEqualRewardsAlike holds that 1 and 1.0 share the first one's key.
func TestHarborPrintsEqualRewardsAlike(t *testing.T) {
	t.Parallel()
	number := func(name string, isInt bool) Trial {
		return Trial{Name: name, Task: name, Agent: "x", Dataset: "d", Valid: true,
			Rewards: trials.Rewards{{Key: "reward", Value: trials.Number{Value: 1, Int: isInt}}}}
	}
	got := Harbor([]Trial{number("a", true), number("b", false)}, nil).Evals["x__d"].RewardStats
	if diff := cmp.Diff(map[string]map[string][]string{"reward": {"1": {"a", "b"}}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestHarborPassAtK(t *testing.T) {
	t.Parallel()
	attempts := func(task string, rewards ...float64) (out []Trial) {
		for _, r := range rewards {
			out = append(out, Trial{Task: task, Agent: "x", Dataset: "d", Valid: true, Rewards: one("reward", r)})
		}
		return out
	}
	for _, c := range []struct {
		name string
		all  []Trial
		want map[string]trials.Float
	}{
		{"once", attempts("a", 1), map[string]trials.Float{}},
		{"least of the tasks", append(attempts("a", 1, 0, 0, 0, 0), attempts("b", 0, 0, 1, 0)...), map[string]trials.Float{"2": 0.45, "4": 0.9}},
		{"five", attempts("a", 1, 0, 0, 0, 0), map[string]trials.Float{"2": 0.4, "4": 0.8, "5": 1}},
		{"graded rewards", attempts("a", 1, 0.5), map[string]trials.Float{}},
	} {
		got := Harbor(c.all, nil).Evals["x__d"].PassAtK
		if diff := cmp.Diff(c.want, got, cmp.Comparer(func(a, b trials.Float) bool { return near(float64(a), float64(b)) })); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestHarborSumsUsage(t *testing.T) {
	t.Parallel()
	all := []Trial{
		{Usage: trials.Usage{InputTokens: new(int64(3)), CostUSD: new(0.5)}},
		{Exception: "CancelledError", Cancelled: true},
		{Usage: trials.Usage{InputTokens: new(int64(4)), OutputTokens: new(int64(0))}},
	}
	got := Harbor(all, nil)
	want := trials.Usage{InputTokens: new(int64(7)), OutputTokens: new(int64(0)), CostUSD: new(0.5)}
	if diff := cmp.Diff(want, got.Usage); diff != "" {
		t.Error(diff)
	}
	if got.Completed != 3 || got.Errored != 1 || got.Cancelled != 1 {
		t.Errorf("%+v", got)
	}
}

func TestCostHasNoDigitsOfFloatingPoint(t *testing.T) {
	t.Parallel()
	var all []Trial
	for range 3 {
		all = append(all, Trial{Usage: trials.Usage{CostUSD: new(0.00215)}})
	}
	if got := *Harbor(all, nil).CostUSD; got != 0.00645 {
		t.Errorf("%v", got)
	}
}
