package stats

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
)

// vectors were made with SciPy and statsmodels.
type vectors struct {
	PassAtK  []passVector     `json:"pass_at_k"`
	PassAllK []passVector     `json:"pass_hat_k"`
	Wilson   []intervalVector `json:"wilson_95"`
	Exact    []intervalVector `json:"clopper_pearson_95"`
	MeanT    []struct {
		X               []float64
		Mean, Low, High float64
		SE              float64 `json:"standard_error"`
	} `json:"mean_t_95"`
	Clustered []struct {
		Groups [][]float64
		Mean   float64
		Error  float64 `json:"standard_error"`
	} `json:"clustered_mean"`
	McNemar []struct {
		OnlyA int     `json:"only_a"`
		OnlyB int     `json:"only_b"`
		P     float64 `json:"p_two_sided"`
	} `json:"mcnemar_exact"`
	SignFlip []struct {
		Differences []float64
		Mean        float64
		P           float64 `json:"p_two_sided"`
	} `json:"paired_sign_flip_exact"`
	Wilcoxon []struct {
		A, B      []float64
		Statistic float64
		P         float64 `json:"p_two_sided"`
	} `json:"wilcoxon_signed_rank_exact"`
	Holm     []struct{ P, Adjusted []float64 }
	Quantile []struct {
		X        []float64
		Q, Value float64
	} `json:"quantile_type7"`
}

type passVector struct {
	N, C, K int
	Value   float64
}

type intervalVector struct {
	Successes, N int
	Low, High    float64
}

func readVectors(t *testing.T) vectors {
	t.Helper()
	b, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a)) }

// some fails the test when a list of vectors is empty: then nothing was tested.
func some[T any](t *testing.T, list []T) []T {
	t.Helper()
	if len(list) == 0 {
		t.Fatal("no vectors")
	}
	return list
}

func TestPassVectors(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	for _, c := range some(t, v.PassAtK) {
		if got := passAtK(c.N, c.C, c.K); !near(got, c.Value) {
			t.Errorf("pass@%d of %d in %d is %v, want %v", c.K, c.C, c.N, got, c.Value)
		}
	}
	for _, c := range some(t, v.PassAllK) {
		if got := passAllK(c.N, c.C, c.K); !near(got, c.Value) {
			t.Errorf("pass^%d of %d in %d is %v, want %v", c.K, c.C, c.N, got, c.Value)
		}
	}
}

func TestWilsonVectors(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	for _, c := range some(t, v.Wilson) {
		low, high := wilson(float64(c.Successes)/float64(c.N), float64(c.N))
		if !near(low, c.Low) || !near(high, c.High) {
			t.Errorf("%d of %d: %v to %v, want %v to %v", c.Successes, c.N, low, high, c.Low, c.High)
		}
	}
	// The exact interval is the wider one.
	for _, c := range some(t, v.Exact) {
		low, high := wilson(float64(c.Successes)/float64(c.N), float64(c.N))
		if low < c.Low || high > c.High {
			t.Errorf("%d of %d: %v to %v is outside the exact %v to %v", c.Successes, c.N, low, high, c.Low, c.High)
		}
	}
}

func TestMeanVectors(t *testing.T) {
	t.Parallel()
	for _, c := range some(t, readVectors(t).MeanT) {
		tasks := make([][]float64, len(c.X))
		for i, x := range c.X {
			tasks[i] = []float64{x}
		}
		e := estimate(tasks, scale{}) // no range: nothing is cut
		if !near(*e.Mean, c.Mean) || !near(*e.StandardError, c.SE) || !near(e.Interval.Low, c.Low) || !near(e.Interval.High, c.High) {
			t.Errorf("%v: %v ± %v, %+v; want %+v", c.X, *e.Mean, *e.StandardError, *e.Interval, c)
		}
		if e.Interval.Method != MethodT || e.Interval.Level != Level {
			t.Errorf("%v: %+v", c.X, *e.Interval)
		}
	}
}

func TestClusteredVectors(t *testing.T) {
	t.Parallel()
	for _, c := range some(t, readVectors(t).Clustered) {
		e := estimate(c.Groups, scaleOf(c.Groups))
		if !near(*e.TrialMean, c.Mean) || !near(*e.TrialStandardError, c.Error) {
			t.Errorf("%v: %v ± %v, want %+v", c.Groups, *e.TrialMean, *e.TrialStandardError, c)
		}
		// Tasks have equally many attempts, so both means agree.
		if !near(*e.Mean, c.Mean) || !near(*e.StandardError, c.Error) {
			t.Errorf("%v: over tasks %v ± %v, want %+v", c.Groups, *e.Mean, *e.StandardError, c)
		}
	}
}

func TestQuantileVectors(t *testing.T) {
	t.Parallel()
	for _, c := range some(t, readVectors(t).Quantile) {
		if got := quantile(slices.Sorted(slices.Values(c.X)), c.Q); !near(got, c.Value) {
			t.Errorf("quantile %v of %v is %v, want %v", c.Q, c.X, got, c.Value)
		}
	}
}

func TestMcNemarVectors(t *testing.T) {
	t.Parallel()
	for _, c := range some(t, readVectors(t).McNemar) {
		if got := mcnemar(c.OnlyA, c.OnlyB); !near(got, c.P) {
			t.Errorf("%d against %d: p = %v, want %v", c.OnlyA, c.OnlyB, got, c.P)
		}
	}
}

func TestSignFlipVectors(t *testing.T) {
	t.Parallel()
	v := readVectors(t)
	for _, c := range some(t, v.SignFlip) {
		p, exact := signFlip(c.Differences, 1)
		if !near(p, c.P) || !exact || !near(meanOf(c.Differences), c.Mean) {
			t.Errorf("%v: p = %v, want %v", c.Differences, p, c.P)
		}
	}
	// Wilcoxon's test is the same of signed ranks.
	for _, c := range some(t, v.Wilcoxon) {
		if p, _ := signFlip(signedRanks(c.A, c.B), 1); !near(p, c.P) {
			t.Errorf("%v against %v: p = %v, want %v", c.A, c.B, p, c.P)
		}
	}
}

// signedRanks have no ties to care for.
func signedRanks(a, b []float64) []float64 {
	ranks := make([]float64, len(a))
	for i := range a {
		d := a[i] - b[i]
		for j := range a {
			if math.Abs(a[j]-b[j]) <= math.Abs(d) {
				ranks[i]++
			}
		}
		ranks[i] = math.Copysign(ranks[i], d)
	}
	return ranks
}

func TestHolmVectors(t *testing.T) {
	t.Parallel()
	for _, c := range some(t, readVectors(t).Holm) {
		for i, got := range holm(c.P) {
			if !near(got, c.Adjusted[i]) {
				t.Errorf("%v: %v, want %v", c.P, holm(c.P), c.Adjusted)
			}
		}
	}
}
