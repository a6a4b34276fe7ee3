package stats

import (
	"cmp"
	"maps"
	"slices"

	"harborgate/trials"
)

// Column is the numbers of one reward key.
type Column struct {
	Key string `json:"key"`
	Estimate
	// Values count equal rewards, the largest first, as Harbor prints them.
	Values []ValueCount `json:"values"`
	// Bounds are the mean if all that is missing were 0, and if it were 1. Null
	// when nothing is, and when rewards are not within 0 and 1.
	Bounds *Bounds `json:"bounds"`
	// WithoutSuspect leaves suspect verdicts out. Null when there are none.
	WithoutSuspect *Estimate `json:"without_suspect"`
	// Solved counts rewards of 1. Null when rewards are not within 0 and 1.
	Solved *Solved `json:"solved"`
	// PassAtK and PassAllK, also written pass^k, are of rewards that are all 0 or 1.
	PassAtK  []AtK `json:"pass_at_k,omitempty"`
	PassAllK []AtK `json:"pass_all_k,omitempty"`
}

// Bounds are how far missing verdicts could move a mean over all planned trials.
type Bounds struct {
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	Missing int     `json:"n_missing"` // planned, without a verdict of this key
}

// ValueCount is how many verdicts have a value.
type ValueCount struct {
	Value string `json:"value"`
	N     int    `json:"n"`
}

// Solved counts full rewards.
type Solved struct {
	Trials int `json:"n_trials"`
	Tasks  int `json:"n_tasks"` // at least once
}

// mainKey is what a key is called that stands for the verdict.
const mainKey = "reward"

// orderKeys puts the main key first: the wanted one, else "reward", or the only one. No
// other key stands for one that is wanted.
func orderKeys(sorted []string, wanted string) (keys []string, hasMain bool) {
	i := slices.Index(sorted, cmp.Or(wanted, mainKey))
	switch {
	case i < 0:
		return sorted, wanted == "" && len(sorted) == 1
	case i > 0:
		return append([]string{sorted[i]}, slices.Delete(slices.Clone(sorted), i, i+1)...), true
	}
	return sorted, true
}

// newColumn computes a key's numbers, without bounds. byTask are all trials of the
// row.
func newColumn(key string, byTask [][]*Trial, askedK int) Column {
	all, trusted := verdicts(key, byTask)
	s := scaleOf(all)
	c := Column{Key: key, Estimate: estimate(all, s), Values: valueCounts(key, byTask)}
	if e := estimate(trusted, s); e.N < c.N {
		c.WithoutSuspect = &e
	}
	if c.N == 0 {
		return c
	}
	if s.unit {
		c.Solved = solved(all)
	}
	if s.binary {
		records, most := recordsOf(all)
		ks := shownKs(most, askedK)
		c.PassAtK, c.PassAllK = atK(records, ks, passAtK), atK(records, ks, passAllK)
		unseen := len(byTask) - len(all) // tasks without any verdict
		for i := range ks {
			c.PassAtK[i].LeftOut += unseen
			c.PassAllK[i].LeftOut += unseen
		}
	}
	return c
}

// verdicts are the values of a key for each task that has one, of all verdicts
// and of those that are not suspect. A verdict without the key, or with one that
// is no number, is none: it is never 0.
func verdicts(key string, byTask [][]*Trial) (all, trusted [][]float64) {
	for _, ts := range byTask {
		var xs, ys []float64
		for _, t := range ts {
			n, ok := t.value(key)
			if !ok {
				continue
			}
			xs = append(xs, n.Value)
			if !t.Suspect {
				ys = append(ys, n.Value)
			}
		}
		if len(xs) > 0 {
			all = append(all, xs)
		}
		if len(ys) > 0 {
			trusted = append(trusted, ys)
		}
	}
	return all, trusted
}

// value is a finite value of a verdict that counts.
func (t *Trial) value(key string) (trials.Number, bool) {
	n, ok := t.Rewards.Get(key)
	return n, ok && t.Valid && finite(n.Value) != nil
}

// valueCounts prints equal values as the first of them, so that 1 and 1.0 are one.
func valueCounts(key string, byTask [][]*Trial) []ValueCount {
	type found struct {
		printed string
		n       int
	}
	values := map[float64]*found{}
	for _, ts := range byTask {
		for _, t := range ts {
			n, ok := t.value(key)
			if !ok {
				continue
			}
			if values[n.Value] == nil {
				values[n.Value] = &found{printed: n.String()}
			}
			values[n.Value].n++
		}
	}
	out := make([]ValueCount, 0, len(values))
	for _, x := range slices.Backward(slices.Sorted(maps.Keys(values))) {
		out = append(out, ValueCount{values[x].printed, values[x].n})
	}
	return out
}

func solved(tasks [][]float64) *Solved {
	var s Solved
	for _, xs := range tasks {
		full := 0
		for _, x := range xs {
			if x == 1 {
				full++
			}
		}
		s.Trials += full
		if full > 0 {
			s.Tasks++
		}
	}
	return &s
}

// bound says how far the verdicts that are missing of the planned ones could move
// the mean. It needs no tasks: each has equally many planned attempts, so that the
// mean over tasks, once complete, is the mean over trials.
func (c *Column) bound(planned int) {
	missing := planned - c.N
	if missing <= 0 || c.Solved == nil || c.TrialMean == nil {
		return
	}
	sum := *c.TrialMean * float64(c.N)
	c.Bounds = &Bounds{Low: sum / float64(planned), High: (sum + float64(missing)) / float64(planned), Missing: missing}
}

func recordsOf(tasks [][]float64) (records []record, most int) {
	for _, xs := range tasks {
		records = append(records, record{attempts: len(xs), successes: int(total(xs))})
		most = max(most, len(xs))
	}
	return records, most
}
