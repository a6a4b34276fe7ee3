package stats

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"harborgate/trials"
)

func TestCostIsAtLeastWhatIsKnown(t *testing.T) {
	t.Parallel()
	cost := func(task string, reward float64, usd *float64) Trial {
		x := verdict(task, reward)
		x.Usage.CostUSD = usd
		return x
	}
	for _, c := range []struct {
		name  string
		all   []Trial
		total string
		each  string
	}{
		{"all known", []Trial{cost("a", 1, new(0.25)), cost("b", 0, new(0.75))}, "$1.00", "$1.00"},
		{"some known", []Trial{cost("a", 1, new(0.25)), cost("b", 0, nil)}, "≥ $0.25", "$0.25"},
		{"none known", []Trial{cost("a", 1, nil)}, "–", "–"},
		{"free", []Trial{cost("a", 1, new(0.0))}, "$0.00", "$0.00"},
		{"none solved", []Trial{cost("a", 0, new(0.5))}, "$0.50", "–"},
		{"of a task, once", []Trial{cost("a", 1, new(0.5)), cost("a", 1, new(0.5))}, "$1.00", "$1.00"},
	} {
		r := onlyRow(t, New(c.all, Plan{Trials: len(c.all)}))
		if got := r.Cost.Text(MoneyText); got != c.total || MoneyText(r.CostPerSolved) != c.each {
			t.Errorf("%s: %s, %s for each solved; want %s, %s", c.name, got, MoneyText(r.CostPerSolved), c.total, c.each)
		}
	}
	cut := cost("a", 1, new(0.5))
	cut.Partial = true
	if r := onlyRow(t, New([]Trial{cut}, Plan{Trials: 1})); r.Cost.Text(MoneyText) != "≥ $0.50" {
		t.Errorf("what a kill of the proxy took along: %s", r.Cost.Text(MoneyText))
	}
	again := cost("a", 1, new(0.5))
	again.Tries = 3
	r := onlyRow(t, New([]Trial{again}, Plan{Trials: 1}))
	if !r.Cost.AtLeast || r.Retries != 2 || r.Retried != 1 {
		t.Errorf("what earlier tries cost is not known: %+v", r)
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	var all []Trial
	for i, sec := range []int{1, 2, 3, 4, 10} {
		x := verdict(fmt.Sprint(i), 1)
		x.Duration, x.Waited, x.Snapshot, x.Queued = time.Duration(sec)*time.Second, 2*time.Second, time.Second, 2500*time.Millisecond
		x.Phases = PhaseTimes{3: time.Duration(sec) * time.Second, 5: time.Second}
		all = append(all, x)
	}
	all = append(all, missing("z", trials.BlameTask, "XError")) // never began
	r := New(all, Plan{Trials: 6, Wall: 90 * time.Second})
	row := onlyRow(t, r)
	if diff := cmp.Diff(Spread{N: 5, Median: new(3.0), P90: new(7.6000000000000005)}, row.Duration); diff != "" {
		t.Error(diff)
	}
	if len(row.Phases) != 2 || row.Phases[0].Phase != trials.PhaseAgentExecution || row.Phases[0].N != 5 || *row.Phases[1].P90 != 1 {
		t.Errorf("%+v", row.Phases)
	}
	if diff := cmp.Diff(Waiting{N: 6, SlotSec: 10, ImageSec: 5, Share: new(15.0 / 32.5)}, row.Waiting); diff != "" || *r.WallSec != 90 {
		t.Error(diff)
	}
}

func TestRequestsWithoutAPriceAreCounted(t *testing.T) {
	t.Parallel()
	r := &trials.Result{Harborgate: &trials.Extra{Metered: map[trials.Phase]trials.Metered{trials.PhaseAgentExecution: {Requests: 4, Unpriced: 3}}}}
	if n := New([]Trial{Of(r), Of(r)}, Plan{Trials: 2}).Rows[0].Unpriced; n != 6 {
		t.Errorf("%d", n)
	}
}
