package stats

import (
	"math"
	"testing"
	"time"

	"harborgate/trials"
)

func TestTexts(t *testing.T) {
	t.Parallel()
	money := func(x float64) string { return MoneyText(&x) }
	tokens := func(x float64) string { return CountText(&x) }
	for _, c := range []struct{ got, want string }{
		{MeanText(new(0.5)), "0.500"}, {MeanText(new(2.0 / 3)), "0.667"}, {MeanText(nil), "–"},
		{PText(1), "p = 1.0"}, {PText(0.6249), "p = 0.62"}, {PText(0.03125), "p = 0.031"}, {PText(0.001), "p = 0.0010"},
		{PText(0.00099), "p < 0.001"}, {PText(0), "p < 0.001"}, {PText(math.NaN()), "p = –"},
		{money(12.3456), "$12.35"}, {money(0.1), "$0.10"}, {money(0.01234), "$0.012"}, {money(0.00345), "$0.0034"},
		{money(0.000012), "$0.000012"}, {money(0), "$0.00"}, {MoneyText(nil), "–"},
		{tokens(0), "0"}, {tokens(999), "999"}, {tokens(1000), "1.00k"}, {tokens(45_600), "45.6k"}, {tokens(999_499), "999k"},
		{tokens(999_999), "1.00M"}, {tokens(1_234_567), "1.23M"}, {tokens(9_999), "10.0k"}, {tokens(99_960), "100k"}, {tokens(2.5e12), "2500G"}, {CountText(nil), "–"},
		{TimeText(0), "0.0s"}, {TimeText(1234 * time.Millisecond), "1.2s"}, {TimeText(9960 * time.Millisecond), "10s"},
		{TimeText(42 * time.Second), "42s"}, {TimeText(59600 * time.Millisecond), "1m 0s"}, {TimeText(102 * time.Second), "1m 42s"},
		{TimeText(3*time.Hour + 5*time.Minute + 12*time.Second), "3h 5m 12s"}, {TimeText(50 * time.Hour), "50h 0m 0s"},
		{SecondsText(nil), "–"}, {SecondsText(new(61.2)), "1m 1s"},
		{Amount{Sum: new(0.5), AtLeast: true}.Text(MoneyText), "≥ $0.50"}, {Amount{}.Text(MoneyText), "–"},
		{Estimate{}.Text(), "–"}, {Estimate{Mean: new(1.0)}.Text(), "1.000"},
		{Estimate{Mean: new(0.5), StandardError: new(0.0412)}.Text(), "0.500 ± 0.041"},
		{Estimate{Mean: new(0.5), StandardError: new(0.0001)}.Text(), "0.500 ± <0.001"},
		{(*Interval)(nil).Text(), "–"}, {(&Interval{Low: 0.4, High: 0.61549}).Text(), "0.400 to 0.615"},
		{Key{Agent: "a", Model: "m", Dataset: "d"}.Title(), "d · a · m"}, {Key{Agent: "a", Dataset: "d"}.Title(), "d · a"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	source := "set"
	r := &trials.Result{
		TrialName: "t__x", TaskName: "org/t", Source: &source, RewardValid: true,
		Config:         trials.TrialConfig{Agent: trials.AgentConfig{Name: new("a"), ModelName: new("p/m")}},
		AgentInfo:      trials.AgentInfo{Name: "a", ModelInfo: &trials.ModelInfo{Name: "m"}},
		AgentResult:    &trials.AgentResult{Usage: trials.Usage{CostUSD: new(0.5)}},
		VerifierResult: &trials.VerifierResult{Rewards: one("reward", 1)},
		ExceptionInfo:  &trials.ExceptionInfo{Type: trials.ExcAgentTimeout},
		StartedAt:      trials.At(begin), FinishedAt: trials.At(begin.Add(time.Minute)),
		AgentExecution: &trials.Timing{StartedAt: trials.At(begin), FinishedAt: trials.At(begin.Add(time.Second))},
		Verifier:       &trials.Timing{StartedAt: trials.At(begin)}, // it was cut off
		Harborgate: &trials.Extra{
			Attempt: 2, Try: 5, Retries: 2, WaitSec: 1.5, SnapshotSec: 0.5, SnapshotQueueSec: 0.25, Failure: &trials.Failure{Blame: trials.BlameAgent},
			Suspect: []trials.Suspicion{{Code: "killed"}, {Code: "nothing_collected"}},
		},
	}
	got := Of(r)
	if got.Row != (Key{Agent: "a", Model: "p/m", Dataset: "set"}) || got.Eval() != "a__m__set" || got.Attempt != 2 || got.Tries != 3 || !got.Valid || got.Cancelled {
		t.Errorf("%+v", got)
	}
	if got.Phases != (PhaseTimes{3: time.Second}) || got.Duration != time.Minute {
		t.Errorf("%v of %v", got.Phases, got.Duration)
	}
	if got.Waited != 1500*time.Millisecond || got.Snapshot != 500*time.Millisecond || got.Queued != 1750*time.Millisecond || got.Blame != trials.BlameAgent {
		t.Errorf("%+v", got)
	}
	if !got.Suspect || len(got.Doubts) != 2 || got.Doubts[1] != "nothing_collected" || *got.Usage.CostUSD != 0.5 {
		t.Errorf("%+v", got)
	}
	// A file of Harbor knows less.
	bare := Of(&trials.Result{TrialName: "t", AgentInfo: trials.AgentInfo{Name: "oracle"}, ExceptionInfo: &trials.ExceptionInfo{Type: trials.ExcCancelled}})
	if bare.Eval() != "oracle__adhoc" || bare.Row != (Key{Agent: "oracle", Dataset: Adhoc}) || bare.Attempt != 1 || bare.Tries != 1 || !bare.Cancelled || bare.Duration != 0 || bare.Rewards != nil {
		t.Errorf("%+v", bare)
	}
}

// TestArmOfAnAgentThatWasNotMade holds that a trial that failed before it had an
// agent counts against its arm.
func TestArmOfAnAgentThatWasNotMade(t *testing.T) {
	t.Parallel()
	agent := trials.AgentConfig{Name: new("command"), ModelName: new("p/m")}
	unmade := Of(&trials.Result{TaskName: "a", Config: trials.TrialConfig{Agent: agent}, AgentInfo: trials.AgentInfo{Name: "command"}})
	made := Of(&trials.Result{
		TaskName: "b", Config: trials.TrialConfig{Agent: agent}, RewardValid: true,
		AgentInfo:      trials.AgentInfo{Name: "command", ModelInfo: &trials.ModelInfo{Name: "m"}},
		VerifierResult: &trials.VerifierResult{Rewards: one("reward", 1)},
	})
	r := onlyRow(t, New([]Trial{unmade, made}, Plan{Trials: 2}))
	if r.Title() != "adhoc · command · p/m" || r.Words()[0] != "1 of 2 graded" {
		t.Error(r.Title(), r.Words())
	}
}
