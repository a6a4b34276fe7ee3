package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harborgate/trials"
)

// side makes a verdict for each reward, of tasks 0, 1, 2 and so on.
func side(name string, rewards ...float64) Side {
	s := Side{Name: name}
	for i, r := range rewards {
		s.Trials = append(s.Trials, verdict(fmt.Sprint(i), r))
	}
	return s
}

func oneComparison(t *testing.T, a, b Side) Comparison {
	t.Helper()
	out, err := Compare([]Side{a, b}, Comparing{Seed: 7})
	if err != nil || len(out) != 1 {
		t.Fatal(out, err)
	}
	return out[0]
}

func TestCompareSingleVerdicts(t *testing.T) {
	t.Parallel()
	c := oneComparison(t, side("a", 0, 0, 0, 0, 0, 0, 1, 1), side("b", 1, 1, 1, 1, 1, 1, 1, 0))
	// Six against one of seven that differ: 2 · (1 + 7) / 128.
	if c.Test != TestMcNemar || !near(*c.P, 0.125) || !near(*c.PHolm, 0.125) || *c.Difference != 0.625 || c.Pairs != 8 || c.Seed != nil {
		t.Errorf("%+v", c)
	}
	if *c.MeanA != 0.25 || *c.MeanB != 0.875 || c.Interval.Low >= 0.625 || c.Interval.High <= 0.625 {
		t.Errorf("%+v", c)
	}
	if last := c.Tasks[7]; last.Task != "6" || last.Flipped || !c.Tasks[0].Flipped || c.Tasks[6].Difference != -1 {
		t.Errorf("%+v", c.Tasks)
	}
}

func TestCompareSeveralAttempts(t *testing.T) {
	t.Parallel()
	a := Side{Name: "a", Trials: append(side("", 1, 0, 1).Trials, side("", 0, 0, 1).Trials...)}
	b := Side{Name: "b", Trials: append(side("", 1, 1, 1).Trials, side("", 1, 0, 1).Trials...)}
	c := oneComparison(t, a, b)
	if c.Test != TestSignFlip || *c.Difference != 1.0/3 || *c.P != 0.5 || c.Drawn != 0 {
		t.Errorf("%+v", c)
	}
	if p := c.Tasks[0]; p.AttemptsA != 2 || p.AttemptsB != 2 || p.A != 0.5 || p.B != 1 || p.Flipped {
		t.Errorf("%+v", p)
	}
}

func TestCompareSaysWhoFellOut(t *testing.T) {
	t.Parallel()
	unverified := missing("5", trials.BlameNone, "")
	a := Side{Name: "a", Trials: []Trial{
		verdict("0", 1), missing("1", trials.BlameInfrastructure, "XError"), missing("2", trials.BlameTask, "XError"),
		verdict("3", 1), verdict("4", 1), unverified,
		missing("0", trials.BlameHarness, "XError"), // of several attempts, one has a verdict
	}}
	b := Side{Name: "b", Trials: []Trial{
		verdict("0", 1), verdict("1", 1), missing("2", trials.BlameTask, "XError"), missing("4", trials.BlameNone, trials.ExcCancelled), verdict("5", 1),
	}}
	c := oneComparison(t, a, b)
	if diff := cmp.Diff(map[string]int{"infrastructure": 1, "task": 1, "no_verdict": 1}, c.LostA); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int{"task": 1, "absent": 1, "cancelled": 1}, c.LostB); diff != "" {
		t.Error(diff)
	}
	if c.Pairs != 1 || *c.P != 1 || c.Interval != nil || c.Detectable != nil {
		t.Errorf("%+v", c)
	}
}

func TestCompareWithoutPairs(t *testing.T) {
	t.Parallel()
	out, err := Compare([]Side{side("a", 1), side("b"), side("c", 0)}, Comparing{Baseline: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != 2 || out[0].P != nil || out[0].PHolm != nil || out[0].Difference != nil || out[1].PHolm == nil || *out[1].PHolm != 1 {
		t.Errorf("%+v", out)
	}
}

func TestComparePairings(t *testing.T) {
	t.Parallel()
	sides := []Side{side("a", 1, 0), side("b", 0, 1), side("c", 1, 1)}
	names := func(how Comparing) (out []string) {
		cs, err := Compare(sides, how)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cs {
			out = append(out, c.A+c.B)
		}
		return out
	}
	if diff := cmp.Diff([]string{"ab", "ac", "bc"}, names(Comparing{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"ba", "bc"}, names(Comparing{Baseline: "b"})); diff != "" {
		t.Error(diff)
	}
	if _, err := Compare(sides, Comparing{Baseline: "z"}); err == nil {
		t.Error("a baseline that is none of the arms")
	}
}

// TestDrawnAgreesWithExact compares both ways for the same differences.
func TestDrawnAgreesWithExact(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 5 {
		ds := make([]float64, exactFlips)
		for i := range ds {
			ds[i] = float64(rnd.IntN(9)-3) / 4
		}
		want, exact := signFlip(ds, 0)
		if !exact {
			t.Fatal("not exact")
		}
		var sizes []float64
		for _, d := range ds {
			sizes = append(sizes, math.Abs(d))
		}
		got := drawn(sizes, math.Abs(total(ds))-1e-9, 1)
		if room := 5 * math.Sqrt(want*(1-want)/draws); math.Abs(got-want) > room+2.0/draws {
			t.Errorf("drawn %v, exact %v", got, want)
		}
	}
}

func TestDrawsAreRepeatable(t *testing.T) {
	t.Parallel()
	a, b := side("a"), side("b")
	for i := range 200 {
		a.Trials = append(a.Trials, verdict(fmt.Sprint(i), float64(i%5)/4))
		b.Trials = append(b.Trials, verdict(fmt.Sprint(i), float64(i%7)/6))
	}
	c, again := oneComparison(t, a, b), oneComparison(t, a, b)
	if c.Drawn != draws || *c.Seed != 7 || *c.P != *again.P || *c.P <= 0 {
		t.Errorf("%v, %v", *c.P, *again.P)
	}
}

func TestCoinsAreFair(t *testing.T) {
	t.Parallel()
	coins := tosser{source: rand.NewPCG(1, 1)}
	heads, tossed := 0, 0
	for i := range 3000 {
		n := i % 200
		h := coins.heads(n)
		if h < 0 || h > n {
			t.Fatalf("%d heads of %d", h, n)
		}
		heads, tossed = heads+h, tossed+n
	}
	if off := math.Abs(float64(heads)-float64(tossed)/2) / math.Sqrt(float64(tossed)/4); off > 5 {
		t.Errorf("%d heads of %d", heads, tossed)
	}
}

// TestDetectable plays the experiment: with the true difference at the size that
// is named, four of five see it.
func TestDetectable(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(5, 6))
	const n, rounds = 40, 2000
	seen := 0
	for range rounds {
		ds := make([]float64, n)
		for i := range ds {
			ds[i] = rnd.NormFloat64()
		}
		// Of a spread of 1, which all rounds share.
		size := (studentQuantile(n-1, upper) + studentQuantile(n-1, power)) / math.Sqrt(n)
		for i := range ds {
			ds[i] += size
		}
		if math.Abs(meanOf(ds)) > studentQuantile(n-1, upper)*standardError(ds) {
			seen++
		}
	}
	if share := float64(seen) / rounds; share < 0.76 || share > 0.84 {
		t.Errorf("seen in %v of the rounds", share)
	}
	c := oneComparison(t, side("a", 0, 1, 0, 1), side("b", 1, 1, 0, 0))
	if want := (studentQuantile(3, upper) + studentQuantile(3, power)) * math.Sqrt(2.0/3) / 2; !near(*c.Detectable, want) {
		t.Errorf("%v, want %v", *c.Detectable, want)
	}
	if got := c.DetectableText(); got != "with 4 tasks a difference under 1.70 would go unseen" {
		t.Error(got)
	}
}

func BenchmarkCompare(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2))
	x, y := Side{Name: "x"}, Side{Name: "y"}
	for i := range 1000 {
		x.Trials = append(x.Trials, verdict(fmt.Sprint(i), rnd.Float64()))
		y.Trials = append(y.Trials, verdict(fmt.Sprint(i), rnd.Float64()))
	}
	for b.Loop() {
		if _, err := Compare([]Side{x, y}, Comparing{}); err != nil {
			b.Fatal(err)
		}
	}
}
