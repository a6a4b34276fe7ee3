package stats

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harborgate/trials"
)

// under gives a trial conditions, as pairs of a name and a value.
func under(t Trial, pairs ...string) Trial {
	for i := 0; i+1 < len(pairs); i += 2 {
		t.Settings = append(t.Settings, Setting{pairs[i], pairs[i+1]})
	}
	return t
}

func TestUnlikeSettingsAreListed(t *testing.T) {
	t.Parallel()
	a := Side{Name: "a", Trials: []Trial{
		under(verdict("1", 1), "task digest", "x1", "agent limit", "600 s", "version of pi", "1.0", "CPUs", "2"),
		under(verdict("2", 1), "task digest", "x2", "agent limit", "600 s", "version of pi", "1.0"),
		under(verdict("3", 1), "task digest", "x3", "agent limit", "60 s"),
		under(verdict("3", 1), "agent limit", "90 s"),
		under(verdict("only-a", 1), "agent limit", "1 s"),
	}}
	b := Side{Name: "b", Trials: []Trial{
		under(verdict("1", 1), "task digest", "y1", "agent limit", "900 s", "version of codex", "9"),
		under(missing("2", trials.BlameTask, "XError"), "task digest", "y2", "agent limit", "900 s"),
		under(verdict("3", 1), "task digest", "x3", "agent limit", "60 s"),
	}}
	c := oneComparison(t, a, b)
	want := []Unlike{
		{Setting: "agent limit", A: "60 s, 90 s", B: "60 s", Tasks: []string{"3"}},
		{Setting: "agent limit", A: "600 s", B: "900 s", Tasks: []string{"1", "2"}},
		{Setting: "task digest", Tasks: []string{"1", "2"}},
	}
	if diff := cmp.Diff(want, c.Unlike); diff != "" {
		t.Error(diff)
	}
	if got := want[1].Text() + "; " + want[2].Text(); got != "agent limit: 600 s against 900 s in 2 tasks; task digest differs in 2 tasks" {
		t.Error(got)
	}
}

func TestSettingsOfResults(t *testing.T) {
	t.Parallel()
	cores := trials.Cores(0.5)
	r := &trials.Result{
		TaskChecksum: "d", AgentInfo: trials.AgentInfo{Name: "pi", Version: "1.2"},
		Config: trials.TrialConfig{
			Multipliers: trials.Multipliers{Timeout: 2},
			Environment: trials.EnvironmentConfig{OverrideCPUs: &cores, CPUEnforcementPolicy: "auto"},
		},
		Harborgate: &trials.Extra{Provider: "docker", Timeouts: map[string]trials.Limit{"verifier": {}, "agent": {Seconds: 3.5}}},
	}
	want := []Setting{
		{"task digest", "d"}, {"version of pi", "1.2"}, {"CPUs", "0.5"}, {"memory in MiB", "as the task"}, {"disk in MiB", "as the task"},
		{"GPUs", "as the task"}, {"CPU policy", "auto"}, {"agent limit", "3.5 s"}, {"verifier limit", "none"}, {"provider", "docker"},
	}
	if diff := cmp.Diff(want, SettingsOf(r)); diff != "" {
		t.Error(diff)
	}
	// A file of Harbor has factors only.
	r.Harborgate, r.AgentInfo.Version = nil, "unknown"
	own := trials.Float(3)
	r.Config.AgentTimeout = &own
	want = append(append(want[:1:1], want[2:7]...), Setting{"agent time factor", "3"}, Setting{"verifier time factor", "2"},
		Setting{"agent setup time factor", "2"}, Setting{"environment time factor", "2"})
	if diff := cmp.Diff(want, SettingsOf(r)); diff != "" {
		t.Error(diff)
	}
}

// TestCopiesOfDataSetsCompare holds that tasks are matched by name where that is
// enough, and by data set where it is not.
func TestCopiesOfDataSetsCompare(t *testing.T) {
	t.Parallel()
	in := func(dataset string, x Trial) Trial {
		x.Row.Dataset = dataset
		return x
	}
	a := Side{Name: "a", Trials: []Trial{in("set", verdict("1", 1)), in("set", verdict("2", 1))}}
	b := Side{Name: "b", Trials: []Trial{in("copy", verdict("1", 0)), in("copy", verdict("2", 1))}}
	if c := oneComparison(t, a, b); c.Pairs != 2 || len(c.FellOut) != 0 || c.Tasks[0].Dataset != "set" {
		t.Errorf("%+v", c)
	}
	b.Trials = append(b.Trials, in("set", verdict("1", 1)))
	if c := oneComparison(t, a, b); c.Pairs != 1 || len(c.FellOut) != 3 || c.LostA["absent"] != 2 || c.LostB["absent"] != 1 {
		t.Errorf("%+v", c)
	}
}

func TestCompareWithoutSuspects(t *testing.T) {
	t.Parallel()
	doubted := verdict("1", 0)
	doubted.Suspect = true
	a := Side{Name: "a", Trials: []Trial{doubted, verdict("2", 1)}, Pending: []Trial{verdict("3", 0)}}
	b := Side{Name: "b", Trials: []Trial{verdict("1", 1), verdict("2", 1)}, Pending: []Trial{verdict("3", 0)}}
	with := oneComparison(t, a, b)
	if with.Pairs != 2 || with.SuspectA != 1 || with.SuspectB != 0 || with.FellOut[0] != (FellOut{"d", "3", "pending", "pending"}) || with.LostA["pending"] != 1 || with.LostB["pending"] != 1 {
		t.Errorf("%+v", with)
	}
	out, err := Compare([]Side{a, b}, Comparing{ExcludeSuspect: true})
	if err != nil {
		t.Fatal(err)
	}
	if c := out[0]; c.Pairs != 1 || c.SuspectA != 0 || c.LostA["suspect"] != 1 || *c.Difference != 0 {
		t.Errorf("%+v", c)
	}
}

func TestRowOfASide(t *testing.T) {
	t.Parallel()
	other := verdict("1", 0)
	other.Row.Dataset = "e"
	s := Side{Trials: []Trial{verdict("1", 1), other}, Pending: []Trial{verdict("2", 0)}}
	r := s.Row("")
	if r.Planned != 3 || r.Pending != 1 || r.Tasks != 2 || r.Attempts != 1 || *r.Main().Mean != 0.5 || r.Main().Bounds.Missing != 1 {
		t.Errorf("%+v", r)
	}
}

// TestArmsWithOtherOptionsAreOtherArms holds that options tell rows apart, and that
// secrets among them are not shown.
func TestArmsWithOtherOptionsAreOtherArms(t *testing.T) {
	t.Parallel()
	name := "pi"
	low := KeyOf(trials.AgentConfig{Name: &name, Kwargs: map[string]any{"effort": "low", "api_key": "s3cret", "turns": json.Number("3")}}, nil)
	high := KeyOf(trials.AgentConfig{Name: &name, Kwargs: map[string]any{"effort": "high"}}, nil)
	if low.Title() != "adhoc · pi · effort=low turns=3" || high.Arm() != "pi · effort=high" {
		t.Error(low.Title(), high.Arm())
	}
}

func TestDifferenceText(t *testing.T) {
	t.Parallel()
	for want, x := range map[string]float64{"+0.250": 0.25, "-0.250": -0.25, "0.000": -0.0001} {
		if got := DifferenceText(&x); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if DifferenceText(nil) != Unknown {
		t.Error(DifferenceText(nil))
	}
}
