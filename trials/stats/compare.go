package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"harborgate/trials"
)

// Tests of a comparison.
const (
	TestMcNemar  = "mcnemar"   // exact
	TestSignFlip = "sign_flip" // permutation of the signs, exact or drawn
)

// Side is one arm of a comparison.
type Side struct {
	Name    string
	Trials  []Trial // the last try of each; several data sets may be mixed
	Pending []Trial // planned, without a result; only their task and row count
}

// Comparing says how arms are compared.
type Comparing struct {
	RewardKey      string // "" is each verdict's own main value
	Baseline       string // the arm that all others are held against; "" is all pairs
	ExcludeSuspect bool   // suspect verdicts are none
	Seed           uint64 // of drawn permutations
}

// Comparison is B minus A over the tasks that have a verdict in both.
type Comparison struct {
	A string `json:"a"`
	B string `json:"b"`

	Pairs int `json:"n"` // tasks
	// FellOut are tasks that at least one side has no verdict of. LostA and LostB
	// count them by why that side has none (its last attempt, when there were
	// several): a blame, "cancelled", "no_verdict", "suspect" when those are excluded,
	// "pending", or "absent" when it was not planned. A task that neither side has is
	// in both.
	FellOut []FellOut      `json:"fell_out"`
	LostA   map[string]int `json:"lost_a"`
	LostB   map[string]int `json:"lost_b"`
	// SuspectA and SuspectB are suspect verdicts among those that are compared.
	SuspectA int `json:"suspect_a"`
	SuspectB int `json:"suspect_b"`
	// Unlike are conditions that differ where both sides have results.
	Unlike []Unlike `json:"unlike"`

	MeanA      *float64 `json:"mean_a"` // over the pairs
	MeanB      *float64 `json:"mean_b"`
	Difference *float64 `json:"difference"` // null without pairs
	// Interval is null when the differences show no spread. It is cut to -1 and 1
	// where rewards are within 0 and 1.
	Interval *Interval `json:"interval"`

	Test  string   `json:"test"`
	P     *float64 `json:"p"`      // two-sided
	PHolm *float64 `json:"p_holm"` // adjusted for the number of comparisons
	Drawn int      `json:"n_draws,omitempty"`
	Seed  *uint64  `json:"seed,omitempty"` // of the draws

	// Detectable is the smallest difference that these tasks would have shown with
	// a chance of 80 %. Null when that is not known.
	Detectable *float64 `json:"detectable"`

	Tasks []Pair `json:"tasks"` // the largest difference first
}

// FellOut is a task that cannot be compared.
type FellOut struct {
	Dataset string `json:"dataset"`
	Task    string `json:"task"`
	A       string `json:"a,omitempty"` // why that side has no verdict; absent when it has one
	B       string `json:"b,omitempty"`
}

// Pair is a task with the means over its attempts.
type Pair struct {
	Dataset    string  `json:"dataset"`
	Task       string  `json:"task"`
	A          float64 `json:"a"`
	B          float64 `json:"b"`
	Difference float64 `json:"difference"`
	AttemptsA  int     `json:"n_a"` // with a verdict
	AttemptsB  int     `json:"n_b"`
	Flipped    bool    `json:"flipped"` // 0 on one side, 1 on the other
}

// Compare compares all pairs of sides, or each with the baseline.
func Compare(sides []Side, how Comparing) ([]Comparison, error) {
	pairs, err := pairings(sides, how.Baseline)
	if err != nil {
		return nil, err
	}
	results := make([]map[taskKey]*outcome, len(sides))
	key := keyFor(sides)
	for i, s := range sides {
		results[i] = outcomes(s, how, key)
	}
	out := make([]Comparison, 0, len(pairs))
	var ps []float64
	for _, p := range pairs {
		c := compare(results[p.a], results[p.b], how.Seed)
		c.A, c.B = sides[p.a].Name, sides[p.b].Name
		if c.P != nil {
			ps = append(ps, *c.P)
		}
		out = append(out, c)
	}
	adjusted := holm(ps)
	for i := range out {
		if out[i].P != nil {
			out[i].PHolm, adjusted = &adjusted[0], adjusted[1:]
		}
	}
	return out, nil
}

type pairing struct{ a, b int }

func pairings(sides []Side, baseline string) ([]pairing, error) {
	var out []pairing
	if baseline == "" {
		for a := range sides {
			for b := a + 1; b < len(sides); b++ {
				out = append(out, pairing{a, b})
			}
		}
		return out, nil
	}
	at := slices.IndexFunc(sides, func(s Side) bool { return s.Name == baseline })
	if at < 0 {
		return nil, fmt.Errorf("the baseline %q is none of the arms: name one of them", baseline)
	}
	for b := range sides {
		if b != at {
			out = append(out, pairing{at, b})
		}
	}
	return out, nil
}

type taskKey struct{ dataset, task string }

func compareTasks(a, b taskKey) int {
	return cmp.Or(cmp.Compare(a.dataset, b.dataset), cmp.Compare(a.task, b.task))
}

// keyFor is how tasks are told apart: by name where every side has each name in one
// data set only, so that a copy of a data set can be compared with the original.
func keyFor(sides []Side) func(*Trial) taskKey {
	for _, s := range sides {
		datasets := map[string]string{}
		for _, t := range s.Trials {
			if first, seen := datasets[t.Task]; seen && first != t.Row.Dataset {
				return func(t *Trial) taskKey { return taskKey{t.Row.Dataset, t.Task} }
			}
			datasets[t.Task] = t.Row.Dataset
		}
	}
	return func(t *Trial) taskKey { return taskKey{"", t.Task} }
}

// outcome is what a side has of a task.
type outcome struct {
	dataset  string
	rewards  []float64
	suspect  int    // of the rewards
	lost     string // why there are none
	settings map[string][]string
}

func outcomes(s Side, how Comparing, key func(*Trial) taskKey) map[taskKey]*outcome {
	out := map[taskKey]*outcome{}
	of := func(t *Trial) *outcome {
		k := key(t)
		if out[k] == nil {
			out[k] = &outcome{dataset: t.Row.Dataset, lost: lostPending, settings: map[string][]string{}}
		}
		return out[k]
	}
	for i := range s.Pending {
		of(&s.Pending[i])
	}
	for i := range s.Trials {
		of(&s.Trials[i]).add(&s.Trials[i], how)
	}
	return out
}

func (o *outcome) add(t *Trial, how Comparing) {
	for _, x := range t.Settings {
		if values := o.settings[x.Name]; !slices.Contains(values, x.Value) {
			o.settings[x.Name] = slices.Sorted(slices.Values(append(values, x.Value)))
		}
	}
	x, ok := reward(t, how.RewardKey)
	switch {
	case !ok:
		o.lost = lostBy(t)
	case t.Suspect && how.ExcludeSuspect:
		o.lost = lostSuspect
	default:
		o.rewards = append(o.rewards, x)
		if t.Suspect {
			o.suspect++
		}
	}
}

func reward(t *Trial, key string) (float64, bool) {
	n, ok := t.Rewards.Main()
	if key != "" {
		n, ok = t.Rewards.Get(key)
	}
	return n.Value, ok && t.Valid && finite(n.Value) != nil
}

// Why a side has no verdict of a task, beside blames.
const (
	lostCancelled = "cancelled"
	lostNoVerdict = "no_verdict"
	lostSuspect   = "suspect"
	lostPending   = "pending"
	lostAbsent    = "absent"
)

func lostBy(t *Trial) string {
	switch {
	case t.Valid || t.Blame == trials.BlameNone && !t.Cancelled:
		return lostNoVerdict
	case t.Cancelled:
		return lostCancelled
	}
	return string(t.Blame)
}

func compare(a, b map[taskKey]*outcome, seed uint64) Comparison {
	c := Comparison{LostA: map[string]int{}, LostB: map[string]int{}, Tasks: []Pair{}, FellOut: []FellOut{}, Unlike: unlike(a, b)}
	for _, k := range union(a, b) {
		x, y := found(a[k]), found(b[k])
		if len(x.rewards) > 0 && len(y.rewards) > 0 {
			c.Tasks = append(c.Tasks, newPair(taskKey{x.dataset, k.task}, x.rewards, y.rewards))
			c.SuspectA += x.suspect
			c.SuspectB += y.suspect
			continue
		}
		out := FellOut{Dataset: cmp.Or(x.dataset, y.dataset), Task: k.task}
		if len(x.rewards) == 0 {
			out.A = x.lost
			c.LostA[x.lost]++
		}
		if len(y.rewards) == 0 {
			out.B = y.lost
			c.LostB[y.lost]++
		}
		c.FellOut = append(c.FellOut, out)
	}
	c.Pairs = len(c.Tasks)
	if c.Pairs > 0 {
		c.judge(seed)
	}
	slices.SortStableFunc(c.Tasks, func(a, b Pair) int { return cmp.Compare(math.Abs(b.Difference), math.Abs(a.Difference)) })
	return c
}

func found(o *outcome) *outcome {
	if o == nil {
		return &outcome{lost: lostAbsent}
	}
	return o
}

func union(a, b map[taskKey]*outcome) []taskKey {
	keys := make([]taskKey, 0, len(a))
	for k := range a {
		keys = append(keys, k)
	}
	for k := range b {
		if a[k] == nil {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, compareTasks)
	return keys
}

func newPair(k taskKey, a, b []float64) Pair {
	p := Pair{Dataset: k.dataset, Task: k.task, A: meanOf(a), B: meanOf(b), AttemptsA: len(a), AttemptsB: len(b)}
	p.Difference = p.B - p.A
	p.Flipped = p.A == 0 && p.B == 1 || p.A == 1 && p.B == 0
	return p
}

// judge computes the difference and its test.
func (c *Comparison) judge(seed uint64) {
	var as, bs, differences []float64
	onlyA, onlyB, single := 0, 0, true
	for _, p := range c.Tasks {
		as, bs, differences = append(as, p.A), append(bs, p.B), append(differences, p.Difference)
		single = single && p.AttemptsA == 1 && p.AttemptsB == 1
		switch p.Difference {
		case 1:
			onlyB++
		case -1:
			onlyA++
		}
	}
	c.MeanA, c.MeanB, c.Difference = finite(meanOf(as)), finite(meanOf(bs)), finite(meanOf(differences))
	c.Detectable = detectable(differences)
	s := scaleOf([][]float64{as, bs})
	if !constant(differences) {
		half := studentQuantile(c.Pairs-1, upper) * standardError(differences)
		c.Interval = &Interval{*c.Difference - half, *c.Difference + half, Level, MethodT}
		if s.unit {
			c.Interval.Low, c.Interval.High = max(c.Interval.Low, -1), min(c.Interval.High, 1)
		}
	}
	if single && s.binary {
		c.Test, c.P = TestMcNemar, new(mcnemar(onlyA, onlyB))
		return
	}
	p, exact := signFlip(differences, seed)
	c.Test, c.P = TestSignFlip, &p
	if !exact {
		c.Drawn, c.Seed = draws, &seed
	}
}

// DetectableText says in words what a comparison could not have seen.
func (c *Comparison) DetectableText() string {
	tasks := fmt.Sprintf("%d tasks", c.Pairs)
	if c.Pairs == 1 {
		tasks = "1 task"
	}
	if c.Detectable == nil {
		return "with " + tasks + " nothing can be said of differences that would go unseen"
	}
	return fmt.Sprintf("with %s a difference under %.2f would go unseen", tasks, *c.Detectable)
}
