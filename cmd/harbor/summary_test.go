package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"harborgate/internal/app"
	"harborgate/trials"
	"harborgate/trials/stats"
)

// updateGolden rewrites the golden files; `make golden` sets it.
const updateGolden = "HARBOR_UPDATE_GOLDEN"

// summaryOf is a finished job with these trials.
func summaryOf(planned int, all ...stats.Trial) app.Summary {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := app.Summary{Trials: all, Planned: planned}
	s.Result = trials.JobResult{
		StartedAt: trials.LocalAt(begin), UpdatedAt: trials.LocalAt(begin.Add(102 * time.Second)),
		FinishedAt: trials.LocalAt(begin.Add(102 * time.Second)), NTotalTrials: planned,
		Stats: stats.Harbor(all, nil), Harborgate: &trials.JobExtra{Provider: "docker"},
	}
	return s
}

// finished is a trial of an agent; rewards are pairs of a key and a number.
func finished(task string, attempt int, rewards ...any) stats.Trial {
	t := stats.Trial{
		Name: fmt.Sprintf("%s__%07d", task, attempt), Task: task, Row: stats.Key{Agent: "oracle", Dataset: "tasks"}, Agent: "oracle", Dataset: "tasks", Attempt: attempt, Tries: 1,
		Valid: len(rewards) > 0, Duration: time.Duration(10+attempt) * time.Second, Waited: 5 * time.Second, Queued: 5 * time.Second,
		Phases: stats.PhaseTimes{1: time.Second, 3: 8 * time.Second},
	}
	for i := 0; i+1 < len(rewards); i += 2 {
		t.Rewards = append(t.Rewards, trials.Reward{Key: rewards[i].(string), Value: trials.Number{Value: rewards[i+1].(float64)}})
	}
	return t
}

func failed(t stats.Trial, blame trials.Blame, exception string) stats.Trial {
	t.Blame, t.Exception, t.Cancelled = blame, exception, exception == trials.ExcCancelled
	if !t.Cancelled {
		t.Reason = "why " + t.Name + " failed: exit code: 3"
	}
	return t
}

func suspect(t stats.Trial, codes ...string) stats.Trial {
	t.Suspect, t.Doubts = true, codes
	return t
}

func by(t stats.Trial, agent, model, dataset string) stats.Trial {
	t.Row = stats.Key{Agent: agent, Model: model, Dataset: dataset}
	return t
}

// costing also reports tokens.
func costing(t stats.Trial, usd float64, in, out int64) stats.Trial {
	t.Usage = trials.Usage{CostUSD: &usd, InputTokens: &in, OutputTokens: &out}
	return t
}

func summaries() map[string]app.Summary {
	out := map[string]app.Summary{
		"one-trial": summaryOf(1, finished("hello", 1, "reward", 1.0)),
		"nothing-graded": summaryOf(2,
			failed(finished("a", 1), trials.BlameTask, trials.ExcRewardMissing),
			failed(finished("b", 1), trials.BlameInfrastructure, trials.ExcSandboxLost)),
		"several-keys":      summaryOf(2, finished("a", 1, "accuracy", 0.5, "speed", 12.0), finished("b", 1, "accuracy", 0.75)),
		"without-verifying": summaryOf(2, finished("a", 1), finished("b", 1)),
		"mixed":             mixed(),
		"arms":              arms(),
		"interrupted":       interrupted(),
	}
	out["suspect-arms"] = summaryOf(3, suspect(finished("a", 1, "reward", 1.0), "command_not_found"),
		by(finished("a", 1, "reward", 0.5), "claude-code", "opus-4-5-with-a-very-long-name", "tasks"), by(finished("b", 1, "reward", 0.0), "nop", "", "tasks"))
	running := summaryOf(4, finished("a", 1, "reward", 1.0), finished("b", 1, "reward", 0.0))
	running.Result.FinishedAt = nil
	out["running"] = running
	var many []any
	for i := range 30 {
		many = append(many, fmt.Sprintf("metric_with_a_long_name_%02d", i), float64(i)/30)
	}
	out["many-keys"] = summaryOf(1, finished("a", 1, many...))
	return out
}

// mixed has one of everything.
func mixed() app.Summary {
	var all []stats.Trial
	for i := range 12 {
		all = append(all, finished(fmt.Sprintf("task-%02d", i), 1, "reward", float64(i%2)))
	}
	again := finished("flaky", 1, "reward", 1.0)
	again.Tries = 3
	all = append(all, again,
		failed(finished("slow", 1, "reward", 1.0), trials.BlameAgent, trials.ExcAgentTimeout),
		suspect(finished("offline", 1, "reward", 0.0), "host_not_resolved", "command_not_found"),
		suspect(finished("empty", 1, "reward", 0.0), "nothing_collected"),
		failed(finished("unsupported", 1), trials.BlameTask, trials.ExcUnsupportedTask),
		failed(finished("stopped", 1), trials.BlameNone, trials.ExcCancelled))
	for i := range 5 {
		all = append(all, failed(finished(fmt.Sprintf("lost-%d", i), 1), trials.BlameInfrastructure, trials.ExcSandboxLost))
	}
	s := summaryOf(len(all), all...)
	s.Result.Harborgate.InvalidTasks = []string{"tasks/no-instruction", "tasks/wrong-toml"}
	for i := range 12 {
		s.Result.Harborgate.CleanupFailed = append(s.Result.Harborgate.CleanupFailed, fmt.Sprintf("sandbox-%02d of task-%02d: the engine does not answer", i, i))
	}
	return s
}

// arms are two models, an agent with graded rewards, and one without a verdict.
func arms() app.Summary {
	var all []stats.Trial
	for task := range 3 {
		for attempt := 1; attempt <= 4; attempt++ {
			name := fmt.Sprintf("task-%d", task)
			solved := float64((task + attempt) % 2)
			all = append(all, costing(by(finished(name, attempt, "reward", solved), "claude-code", "anthropic/sonnet-4-5", "terminal-bench"), 0.0123*float64(attempt), 45_600, 1_234))
			big := by(finished(name, attempt, "reward", 1.0), "claude-code", "opus-4-5-with-a-very-long-name", "terminal-bench")
			if task == 2 && attempt == 4 {
				big = failed(by(finished(name, attempt), big.Row.Agent, big.Row.Model, big.Row.Dataset), trials.BlameHarness, trials.ExcHarness)
			} else {
				big = costing(big, 1.5, 1_200_000, 9_999)
			}
			all = append(all, big)
		}
		all = append(all, by(finished(fmt.Sprintf("task-%d", task), 1, "reward", 0.25*float64(task)), "nop", "", "adhoc"))
	}
	all = append(all, failed(by(finished("x", 1), "broken", "", "adhoc"), trials.BlameAgent, trials.ExcNonZeroExit))
	return summaryOf(len(all), all...)
}

func interrupted() app.Summary {
	s := summaryOf(9, finished("a", 1, "reward", 1.0), by(finished("a", 1, "reward", 0.0), "nop", "", "tasks"),
		failed(finished("b", 1), trials.BlameNone, trials.ExcCancelled))
	s.Result.FinishedAt, s.Result.Harborgate.Interrupted = nil, "interrupt"
	return s
}

func TestSummary(t *testing.T) {
	t.Parallel()
	for name, s := range summaries() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			writeSummary(&out, s)
			for line := range strings.Lines(out.String()) {
				line = strings.TrimSuffix(line, "\n")
				if n := utf8.RuneCountInString(line); n > columns {
					t.Errorf("%d columns: %s", n, line)
				}
				if strings.Contains(line, "mean ") && !strings.Contains(line, "graded") && !strings.Contains(line, "n = ") {
					t.Errorf("a mean without a number: %s", line)
				}
			}
			golden(t, filepath.Join("testdata", "summary", name+".golden"), out.Bytes())
		})
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if os.Getenv(updateGolden) != "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is no longer what is printed (run `make golden`):\n%s", path, diff)
	}
}

// TestSummaryOfNothing holds that a job that failed before anything is no crash.
func TestSummaryOfNothing(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	writeSummary(&out, app.Summary{Planned: 5})
	if !strings.Contains(out.String(), "0 of 5 graded · 5 pending") {
		t.Error(out.String())
	}
}

// TestReportIsTheTable holds that --json has the numbers that the table shows.
func TestReportIsTheTable(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(reportOf(mixed()))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Planned, Graded, Suspect int
		WallSec                  float64 `json:"wall_sec"`
		Rows                     []struct {
			MainKey string `json:"main_key"`
			Rewards []struct {
				N    int
				Mean float64
			}
		}
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if got.Planned != 23 || got.Graded != 16 || got.Suspect != 2 || got.WallSec != 102 || len(got.Rows) != 1 {
		t.Fatalf("%s", b)
	}
	if r := got.Rows[0]; r.MainKey != "reward" || r.Rewards[0].N != 16 || r.Rewards[0].Mean != 0.5 {
		t.Errorf("%s", b)
	}
}

// TestLongArmsKeepDataSetAndModel holds what a name that is cut must still tell.
func TestLongArmsKeepDataSetAndModel(t *testing.T) {
	t.Parallel()
	name := "terminal-bench · claude-code · " + strings.Repeat("vendor/", 20) + "opus"
	got := middle(name, 40)
	if utf8.RuneCountInString(got) != 40 || !strings.HasPrefix(got, "terminal-bench") || !strings.HasSuffix(got, "opus") {
		t.Errorf("%q", got)
	}
	if whole := middle("tasks · nop", 11); whole != "tasks · nop" {
		t.Errorf("%q", whole)
	}
}

func TestCostWithoutAPriceSaysSo(t *testing.T) {
	t.Parallel()
	unpriced, priced := finished("a", 1, "reward", 1.0), costing(finished("b", 1, "reward", 1.0), 0.5, 10, 10)
	unpriced.Unpriced = 3
	for want, s := range map[string]app.Summary{
		"cost          – · 3 requests without a price\n": summaryOf(1, unpriced),
		" 3 requests without a price\n":                  summaryOf(2, unpriced, priced),
	} {
		var out bytes.Buffer
		writeSummary(&out, s)
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestAStopThatLeftNothingOutDoesNotCountIt(t *testing.T) {
	t.Parallel()
	s := summaryOf(1, finished("a", 1, "reward", 1.0))
	s.Result.Harborgate.Interrupted = "SIGTERM"
	var out bytes.Buffer
	writeSummary(&out, s)
	if text := out.String(); !strings.Contains(text, "SIGTERM\n") || strings.Contains(text, "have no result") {
		t.Errorf("%s", text)
	}
}
