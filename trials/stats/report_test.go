package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harborgate/trials"
)

// verdict is a graded trial of a task.
func verdict(task string, reward float64) Trial {
	return Trial{Name: task + "__x", Task: task, Row: Key{Agent: "a", Dataset: "d"}, Agent: "a", Dataset: "d", Rewards: one("reward", reward), Valid: true, Tries: 1}
}

// missing is a trial without a verdict.
func missing(task string, blame trials.Blame, exception string) Trial {
	return Trial{Name: task + "__x", Task: task, Row: Key{Agent: "a", Dataset: "d"}, Agent: "a", Dataset: "d", Blame: blame, Exception: exception, Tries: 1,
		Cancelled: exception == trials.ExcCancelled}
}

// onlyRow is the report's only row.
func onlyRow(t *testing.T, r Report) *Row {
	t.Helper()
	if len(r.Rows) != 1 {
		t.Fatalf("%d rows", len(r.Rows))
	}
	return &r.Rows[0]
}

func TestNothingIsKnownOfNothing(t *testing.T) {
	t.Parallel()
	for _, r := range []Report{New(nil, Plan{}), New(nil, Plan{Trials: 3})} {
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Rows) != 0 || r.Coverage != nil && *r.Coverage != 0 {
			t.Errorf("%s", b)
		}
	}
	r := onlyRow(t, New(nil, Plan{Trials: 3, ByKey: map[Key]int{{Agent: "a", Dataset: "d"}: 3}}))
	if r.Pending != 3 || r.Planned != 3 || *r.Coverage != 0 || r.Main() != nil || r.Cost.Sum != nil || r.Duration.Median != nil || r.Waiting.Share != nil {
		t.Errorf("%+v", r)
	}
}

// TestEveryTrialIsCountedOnce holds the sum of all counts for random jobs.
func TestEveryTrialIsCountedOnce(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	blames := append(trials.Blames(), trials.BlameNone)
	for range 200 {
		var all []Trial
		for i := range rnd.IntN(30) {
			x := missing(fmt.Sprint("t", i), blames[rnd.IntN(len(blames))], []string{"", "XError", trials.ExcCancelled}[rnd.IntN(3)])
			x.Row.Agent, x.Valid, x.Suspect = []string{"a", "b"}[rnd.IntN(2)], rnd.IntN(2) == 0, rnd.IntN(3) == 0
			if x.Valid {
				x.Rewards = one("reward", rnd.Float64())
			}
			all = append(all, x)
		}
		r := New(all, Plan{Trials: len(all) + rnd.IntN(5)})
		sum := r.Unplaced
		for _, row := range r.Rows {
			checkCounts(t, row.Counts)
			sum += row.Planned
			for _, c := range row.Rewards {
				checkEstimate(t, c)
			}
		}
		checkCounts(t, r.Counts)
		if len(all) > 0 && sum != r.Planned {
			t.Errorf("rows add up to %d of %d planned", sum, r.Planned)
		}
	}
}

func checkCounts(t *testing.T, c Counts) {
	t.Helper()
	sum := c.Graded + c.Unblamed + c.Installed + c.Cancelled + c.Pending
	for _, n := range c.Ungraded {
		sum += n
	}
	if sum != c.Planned || c.Suspect > c.Graded {
		t.Errorf("%d of %d: %+v", sum, c.Planned, c)
	}
}

func checkEstimate(t *testing.T, c Column) {
	t.Helper()
	m := *c.Mean
	if i := c.Interval; i == nil || i.Low > m || i.High < m || i.Low < 0 || i.High > 1 || i.Low >= i.High {
		t.Errorf("mean %v, interval %+v", m, i)
	}
	if b := c.Bounds; b != nil && (b.Low > m || b.High < m || b.Low < 0 || b.High > 1) {
		t.Errorf("mean %v, bounds %+v", m, *b)
	}
}

func TestIntervals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		tasks  [][]float64
		method string // "" is none
		low    float64
		high   float64
		se     bool
	}{
		{"one success", [][]float64{{1}}, MethodWilson, 0.2065493143772374, 1, false},
		{"one failure", [][]float64{{0}}, MethodWilson, 0, 0.7934506856227627, false},
		{"all solved", [][]float64{{1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}}, MethodWilson, 0.7224672001371106, 1, false},
		{"half solved", [][]float64{{1}, {0}, {1}, {0}, {1}, {0}, {1}, {0}, {1}, {0}}, MethodWilson, 0.23659309051256394, 0.7634069094874361, true},
		{"attempts make no tasks", [][]float64{{1, 1, 1, 1, 1}}, MethodWilson, 0.2065493143772374, 1, false},
		{"several attempts", [][]float64{{1, 1}, {0, 0}, {1, 0}}, MethodT, 0, 1, true}, // cut to the range
		{"graded rewards", [][]float64{{0.25}, {0.5}, {0.75}, {1}}, MethodT, 0.11143493580986985, 1, true},
		{"equal graded rewards", [][]float64{{0.1 + 0.2}, {0.3}, {0.3}}, MethodWilson, 0.0510162, 0.7735826, false},
		{"unknown range, one", [][]float64{{12}}, "", 0, 0, false},
		{"unknown range, equal", [][]float64{{12}, {12}}, "", 0, 0, false},
		{"unknown range", [][]float64{{-1}, {1}}, MethodT, -12.7062047, 12.7062047, true},
	} {
		e := estimate(c.tasks, scaleOf(c.tasks))
		if (e.StandardError != nil) != c.se {
			t.Errorf("%s: standard error %v", c.name, e.StandardError)
		}
		if c.method == "" {
			if e.Interval != nil {
				t.Errorf("%s: %+v", c.name, *e.Interval)
			}
			continue
		}
		if i := e.Interval; i == nil || i.Method != c.method || math.Abs(i.Low-c.low) > 1e-6 || math.Abs(i.High-c.high) > 1e-6 {
			t.Errorf("%s: %+v, want %s %v to %v", c.name, i, c.method, c.low, c.high)
		}
	}
}

// TestMeanIsOverTasks holds that a task with more attempts weighs no more.
func TestMeanIsOverTasks(t *testing.T) {
	t.Parallel()
	all := []Trial{verdict("a", 1), verdict("a", 1), verdict("a", 1), verdict("b", 0)}
	c := onlyRow(t, New(all, Plan{Trials: 4})).Main()
	if *c.Mean != 0.5 || *c.TrialMean != 0.75 || c.N != 4 || c.Tasks != 2 {
		t.Errorf("%+v", c)
	}
}

// TestB096NoVerdictIsNotZero holds that a missing reward is no 0, has a blame, and
// that bounds say what it could change.
func TestB096NoVerdictIsNotZero(t *testing.T) {
	t.Parallel()
	all := []Trial{
		verdict("a", 1), verdict("b", 0),
		missing("c", trials.BlameTask, trials.ExcRewardMissing), missing("d", trials.BlameInfrastructure, trials.ExcSandboxLost),
		missing("e", trials.BlameNone, trials.ExcCancelled),
	}
	r := onlyRow(t, New(all, Plan{Trials: 8, ByKey: map[Key]int{{Agent: "a", Dataset: "d"}: 8}}))
	c := r.Main()
	if *c.Mean != 0.5 || c.N != 2 {
		t.Errorf("mean %v of %d", *c.Mean, c.N)
	}
	if diff := cmp.Diff(&Bounds{Low: 0.125, High: 0.875, Missing: 6}, c.Bounds); diff != "" {
		t.Error(diff)
	}
	if got, want := strings.Join(r.Words(), " · "), "2 of 8 graded · 1 task · 1 infrastructure · 1 cancelled · 3 pending"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if *r.Coverage != 0.25 {
		t.Errorf("coverage %v", *r.Coverage)
	}
}

// TestB099SeveralRewardKeys holds which key is the main one, and that a key that a
// verdict lacks is not 0.
func TestB099SeveralRewardKeys(t *testing.T) {
	t.Parallel()
	keys := func(pairs ...any) Trial {
		x := verdict(fmt.Sprint(pairs...), 0)
		x.Rewards = trials.Rewards{}
		for i := 0; i < len(pairs); i += 2 {
			x.Rewards = append(x.Rewards, trials.Reward{Key: pairs[i].(string), Value: trials.Number{Value: pairs[i+1].(float64)}})
		}
		return x
	}
	for _, c := range []struct {
		name   string
		all    []Trial
		wanted string
		want   string // each key with its mean and number; * is the main one
	}{
		{"reward beside others", []Trial{keys("a", 0.5, "reward", 1.0, "tests", 12.0)}, "", "*reward 1 (1) a 0.5 (1) tests 12 (1)"},
		{"the only one", []Trial{keys("accuracy", 0.9), keys("accuracy", 0.7)}, "", "*accuracy 0.8 (2)"},
		{"several", []Trial{keys("b", 1.0, "a", 0.0)}, "", "a 0 (1) b 1 (1)"},
		{"named", []Trial{keys("b", 1.0, "a", 0.0, "reward", 0.5)}, "b", "*b 1 (1) a 0 (1) reward 0.5 (1)"},
		{"named, absent", []Trial{keys("b", 1.0, "a", 0.0)}, "c", "a 0 (1) b 1 (1)"},
		{"of some", []Trial{keys("reward", 1.0), keys("other", 0.25), keys("reward", 0.0)}, "", "*reward 0.5 (2) other 0.25 (1)"},
		{"none", []Trial{keys()}, "", ""},
		{"no number", []Trial{keys("reward", math.NaN()), keys("reward", math.Inf(1)), keys("reward", 1.0)}, "", "*reward 1 (1)"},
		{"only no number", []Trial{keys("reward", math.NaN())}, "", "*reward – (0)"},
	} {
		r := onlyRow(t, New(c.all, Plan{Trials: len(c.all), RewardKey: c.wanted}))
		var got []string
		for i, col := range r.Rewards {
			mark, mean := "", Unknown
			if i == 0 && r.MainKey != nil {
				mark = "*"
			}
			if col.Mean != nil {
				mean = fmt.Sprint(math.Round(*col.Mean*1e9) / 1e9)
			}
			got = append(got, fmt.Sprintf("%s%s %s (%d)", mark, col.Key, mean, col.N))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: got %s, want %s", c.name, s, c.want)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestAVerdictWithoutAKeyIsMissingInItsBounds holds that the mean of every key has
// bounds, whichever key is the main one.
func TestAVerdictWithoutAKeyIsMissingInItsBounds(t *testing.T) {
	t.Parallel()
	both, lone := verdict("a", 1), verdict("b", 1)
	both.Rewards = append(both.Rewards, one("style", 1)...)
	r := onlyRow(t, New([]Trial{both, lone}, Plan{Trials: 3, ByKey: map[Key]int{both.Row: 3}}))
	want := map[string]Bounds{"reward": {Low: 2.0 / 3, High: 1, Missing: 1}, "style": {Low: 1.0 / 3, High: 1, Missing: 2}}
	for _, c := range r.Rewards {
		if c.Bounds == nil || *c.Bounds != want[c.Key] {
			t.Errorf("%s: %+v, want %+v", c.Key, c.Bounds, want[c.Key])
		}
	}
}

// TestNoOtherKeyStandsForTheWantedOne holds that an unknown key has no mean.
func TestNoOtherKeyStandsForTheWantedOne(t *testing.T) {
	t.Parallel()
	r := onlyRow(t, New([]Trial{verdict("a", 1)}, Plan{Trials: 1, RewardKey: "speed"}))
	if r.Main() != nil {
		t.Errorf("%s stands for speed", *r.MainKey)
	}
}

// TestB103TimedOutAgentThatSolved holds that a verdict beside an exception counts
// once as solved and once as an exception.
func TestB103TimedOutAgentThatSolved(t *testing.T) {
	t.Parallel()
	x := verdict("a", 1)
	x.Exception, x.Blame = trials.ExcAgentTimeout, trials.BlameAgent
	all := []Trial{x, verdict("b", 0)}
	r := onlyRow(t, New(all, Plan{Trials: 2}))
	if r.Graded != 2 || r.Ungraded[trials.BlameAgent] != 0 || *r.Main().Mean != 0.5 || r.Main().Solved.Trials != 1 {
		t.Errorf("%+v", r)
	}
	want := []Failure{{Exception: trials.ExcAgentTimeout, Blame: trials.BlameAgent, N: 1, Graded: 1, Trials: []string{"a__x"}}}
	if diff := cmp.Diff(want, r.Failures); diff != "" {
		t.Error(diff)
	}
	if h := Harbor(all, nil); h.Completed != 2 || h.Errored != 1 || h.Evals["a__d"].NTrials != 2 || h.Evals["a__d"].NErrors != 1 {
		t.Errorf("%+v", h)
	}
}

// TestB104VerifierTimeoutIsNoZero holds that it is the task's failure, not a mean.
func TestB104VerifierTimeoutIsNoZero(t *testing.T) {
	t.Parallel()
	r := onlyRow(t, New([]Trial{missing("a", trials.BlameTask, trials.ExcVerifierTimeout)}, Plan{Trials: 1}))
	if r.Main() != nil || r.Ungraded[trials.BlameTask] != 1 || len(r.Rewards) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestSuspectsStayAndAreLeftOutBesides(t *testing.T) {
	t.Parallel()
	doubtful := verdict("c", 0)
	doubtful.Suspect, doubtful.Doubts = true, []string{"killed", "command_not_found", "killed"}
	ungraded := missing("d", trials.BlameTask, "XError")
	ungraded.Suspect, ungraded.Doubts = true, []string{"killed"}
	r := onlyRow(t, New([]Trial{verdict("a", 1), verdict("b", 1), doubtful, ungraded}, Plan{Trials: 4}))
	c := r.Main()
	if !near(*c.Mean, 2.0/3) || c.WithoutSuspect == nil || *c.WithoutSuspect.Mean != 1 || c.WithoutSuspect.N != 2 {
		t.Errorf("%+v without %+v", c, c.WithoutSuspect)
	}
	if diff := cmp.Diff(map[string]int{"killed": 1, "command_not_found": 1}, r.Doubts); diff != "" || r.Suspect != 1 {
		t.Errorf("%d suspect: %s", r.Suspect, diff)
	}
	if clean := onlyRow(t, New([]Trial{verdict("a", 1)}, Plan{Trials: 1})); clean.Main().WithoutSuspect != nil {
		t.Error("nothing is suspect")
	}
}

func TestPassAtKLeavesTasksOut(t *testing.T) {
	t.Parallel()
	var all []Trial
	for i := range 5 {
		all = append(all, verdict("a", float64(i%2))) // 2 of 5
	}
	all = append(all, verdict("b", 1), verdict("b", 1), missing("b", trials.BlameTask, "XError"), missing("c", trials.BlameTask, "XError"))
	c := onlyRow(t, New(all, Plan{Trials: 15, K: 3})).Main()
	text := func(at []AtK) (out []string) {
		for _, a := range at {
			out = append(out, fmt.Sprintf("%d:%s %d-%d", a.K, MeanText(a.Value), a.Tasks, a.LeftOut))
		}
		return out
	}
	if diff := cmp.Diff([]string{"1:0.700 2-1", "2:0.850 2-1", "3:0.900 1-2", "4:1.000 1-2", "5:1.000 1-2"}, text(c.PassAtK)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"1:0.700 2-1", "2:0.550 2-1", "3:0.000 1-2", "4:0.000 1-2", "5:0.000 1-2"}, text(c.PassAllK)); diff != "" {
		t.Error(diff)
	}
	far := onlyRow(t, New(all, Plan{Trials: 15, K: 50})).Main().PassAtK
	if last := far[len(far)-1]; last.K != 50 || last.Value != nil || last.Tasks != 0 || last.LeftOut != 3 {
		t.Errorf("%+v", last)
	}
	if c := onlyRow(t, New([]Trial{verdict("a", 0.5)}, Plan{Trials: 1})).Main(); c.PassAtK != nil {
		t.Error("pass@k of rewards that are not 0 or 1")
	}
	if got := shownKs(33, 0); !slices.Equal(got, []int{1, 2, 4, 5, 8, 10, 15, 16, 20, 25, 30, 32}) {
		t.Errorf("%v", got)
	}
}

// TestRowsAndUnplacedTrials holds that planned trials of rows that are not known
// are seen, and never make a row look complete.
func TestRowsAndUnplacedTrials(t *testing.T) {
	t.Parallel()
	of := func(agent, model, dataset string) Trial {
		x := verdict("t", 1)
		x.Row = Key{Agent: agent, Model: model, Dataset: dataset}
		return x
	}
	all := []Trial{of("b", "", "d"), of("a", "m2", "d"), of("a", "m1", "d"), of("z", "", "c")}
	titles := func(r Report) (out []string) {
		for _, row := range r.Rows {
			out = append(out, row.Title()+": "+row.Words()[0])
		}
		return out
	}
	r := New(all, Plan{Trials: 10})
	want := []string{"c · z: 1 of at least 1 graded", "d · a · m1: 1 of at least 1 graded", "d · a · m2: 1 of at least 1 graded", "d · b: 1 of at least 1 graded"}
	if diff := cmp.Diff(want, titles(r)); diff != "" || r.Unplaced != 6 || r.Pending != 6 {
		t.Errorf("%d unplaced: %s", r.Unplaced, diff)
	}
	if r.Rows[0].Main().Bounds != nil {
		t.Error("bounds of an unknown number of trials")
	}

	// Others may be planned even when only one row has results.
	r = New(all[:1], Plan{Trials: 2})
	if diff := cmp.Diff([]string{"d · b: 1 of at least 1 graded"}, titles(r)); diff != "" || r.Unplaced != 1 {
		t.Errorf("%d unplaced: %s", r.Unplaced, diff)
	}

	r = New(all[:2], Plan{Trials: 5, ByKey: map[Key]int{{Agent: "b", Dataset: "d"}: 2, {Agent: "a", Model: "m2", Dataset: "d"}: 1, {Agent: "y", Dataset: "d"}: 2}})
	want = []string{"d · a · m2: 1 of 1 graded", "d · b: 1 of 2 graded", "d · y: 0 of 2 graded"}
	if diff := cmp.Diff(want, titles(r)); diff != "" || r.Unplaced != 0 {
		t.Errorf("%d unplaced: %s", r.Unplaced, diff)
	}
	if diff := cmp.Diff(&Bounds{0.5, 1, 1}, r.Rows[1].Main().Bounds); diff != "" {
		t.Error(diff)
	}
}

// TestReportJSON holds the names that others read.
func TestReportJSON(t *testing.T) {
	t.Parallel()
	b, err := json.MarshalIndent(New([]Trial{verdict("a", 1), missing("b", trials.BlameTask, "XError")}, Plan{
		Trials: 3, ByKey: map[Key]int{{Agent: "a", Dataset: "d"}: 3}, Wall: time.Second,
	}), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	compareGolden(t, "testdata/report.json", append(b, '\n'))
}

func BenchmarkReport(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2))
	all := make([]Trial, 10_000)
	for i := range all {
		x := verdict(fmt.Sprint("task-", i/10), float64(rnd.IntN(2)))
		x.Name, x.Attempt, x.Row.Agent = fmt.Sprint(x.Task, "__", i), i%5, []string{"a", "b"}[i%2]
		x.Duration = time.Duration(rnd.IntN(1e9))
		x.Usage.CostUSD = new(rnd.Float64())
		x.Phases = PhaseTimes{3: x.Duration}
		all[i] = x
	}
	for b.Loop() {
		New(all, Plan{Trials: len(all)})
	}
}

// TestMeanIsThatOfTheReport holds the number for lists against the whole report.
func TestMeanIsThatOfTheReport(t *testing.T) {
	t.Parallel()
	of := func(key string, v float64) Trial {
		x := verdict("a", v)
		x.Rewards[0].Key = key
		return x
	}
	other := verdict("b", 1)
	other.Row.Agent = "another"
	for name, all := range map[string][]Trial{
		"attempts":        {verdict("a", 1), verdict("a", 1), verdict("b", 0), missing("b", trials.BlameTask, "XError")},
		"nothing":         nil,
		"without verdict": {missing("b", trials.BlameTask, "XError")},
		"one key":         {of("speed", 3)},
		"keys of a rank":  {of("speed", 3), of("taste", 1)},
	} {
		var want *float64
		if r := New(all, Plan{Trials: len(all)}); len(r.Rows) == 1 && r.Rows[0].Main() != nil {
			want = r.Rows[0].Main().Mean
		}
		if diff := cmp.Diff(want, Mean(all)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if m := Mean([]Trial{verdict("a", 1), verdict("a", 1), verdict("b", 0)}); m == nil || *m != 0.5 {
		t.Errorf("mean %v, want 0.5", MeanText(m))
	}
	if m := Mean([]Trial{verdict("a", 1), other}); m != nil {
		t.Errorf("two arms share the mean %v", *m)
	}
}
