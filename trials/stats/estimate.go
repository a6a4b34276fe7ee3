package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Level is the confidence of all intervals.
const Level = 0.95

// Methods of intervals.
const (
	MethodWilson = "wilson"
	MethodT      = "t"
)

// Interval is where the true mean plausibly is.
type Interval struct {
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Level  float64 `json:"level"`
	Method string  `json:"method"` // "wilson" or "t"
}

// Estimate is a mean over tasks and how far it can be trusted. Members that the
// verdicts do not determine are null.
type Estimate struct {
	N     int `json:"n"`       // verdicts in it
	Tasks int `json:"n_tasks"` // tasks that have one

	// Mean is over tasks of the mean over their attempts, so that a task with
	// more attempts weighs no more.
	Mean *float64 `json:"mean"`
	// StandardError takes tasks as clusters. It is null for less than two tasks,
	// and when all have the same mean: such verdicts do not show their spread.
	StandardError *float64  `json:"standard_error"`
	Interval      *Interval `json:"interval"`

	// TrialMean is Harbor's mean, over verdicts.
	TrialMean          *float64 `json:"trial_mean"`
	TrialStandardError *float64 `json:"trial_standard_error"`
}

// scale is what the verdicts of a key say of its range.
type scale struct {
	binary bool // all are 0 or 1
	unit   bool // all are in [0, 1], which is taken as the range
}

func scaleOf(tasks [][]float64) scale {
	s := scale{binary: true, unit: true}
	for _, xs := range tasks {
		for _, x := range xs {
			s.binary = s.binary && (x == 0 || x == 1)
			s.unit = s.unit && x >= 0 && x <= 1
		}
	}
	return s
}

// estimate takes the verdicts of each task. No task is without one.
func estimate(tasks [][]float64, s scale) Estimate {
	e := Estimate{Tasks: len(tasks)}
	if len(tasks) == 0 {
		return e
	}
	means := make([]float64, len(tasks))
	sum := 0.0
	for i, xs := range tasks {
		means[i] = meanOf(xs)
		sum += total(xs)
		e.N += len(xs)
	}
	mean := meanOf(means)
	e.Mean, e.TrialMean = finite(mean), finite(sum/float64(e.N))
	if !constant(means) {
		e.StandardError = finite(standardError(means))
		e.TrialStandardError = finite(clusteredError(tasks))
	}
	e.Interval = interval(mean, e, s)
	return e
}

// interval is Wilson's where the verdicts are single draws of 0 or 1. It is
// Wilson's, too, where they show no spread: any mean within [0, 1] spreads less
// than a coin of that chance, so this is wide enough, and never "± 0".
func interval(mean float64, e Estimate, s scale) *Interval {
	switch {
	case s.unit && (e.StandardError == nil || s.binary && e.N == e.Tasks):
		low, high := wilson(mean, float64(e.Tasks))
		return &Interval{low, high, Level, MethodWilson}
	case e.StandardError == nil:
		return nil
	}
	half := studentQuantile(e.Tasks-1, upper) * *e.StandardError
	low, high := mean-half, mean+half
	if s.unit {
		low, high = max(low, 0), min(high, 1)
	}
	return &Interval{low, high, Level, MethodT}
}

// upper is the quantile that leaves half of 1 - Level above it.
const upper = (1 + Level) / 2

// wilson is the score interval of a share p of n draws.
func wilson(p, n float64) (low, high float64) {
	z := distuv.UnitNormal.Quantile(upper)
	center := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	low, high = max(center-half, 0), min(center+half, 1)
	// At the ends the formula gives the end itself, but for rounding.
	if p == 0 {
		low = 0
	}
	if p == 1 {
		high = 1
	}
	return low, high
}

func studentQuantile(degrees int, q float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(degrees)}.Quantile(q)
}

func total(xs []float64) (sum float64) {
	for _, x := range xs {
		sum += x
	}
	return sum
}

func meanOf(xs []float64) float64 { return total(xs) / float64(len(xs)) }

// constant reports whether there is no spread to see. Sums of equal numbers may
// differ in their last digits, so it looks at the numbers, with that much room.
func constant(xs []float64) bool {
	low, high := slices.Min(xs), slices.Max(xs)
	return high-low <= 1e-12*max(math.Abs(low), math.Abs(high))
}

func deviation(xs []float64) float64 {
	mean, sum := meanOf(xs), 0.0
	for _, x := range xs {
		sum += (x - mean) * (x - mean)
	}
	return math.Sqrt(sum / float64(len(xs)-1))
}

func standardError(xs []float64) float64 {
	return deviation(xs) / math.Sqrt(float64(len(xs)))
}

// clusteredError is the standard error of the mean over verdicts whose tasks are
// clusters.
func clusteredError(tasks [][]float64) float64 {
	n, sum := 0, 0.0
	for _, xs := range tasks {
		n += len(xs)
		sum += total(xs)
	}
	mean, squares := sum/float64(n), 0.0
	for _, xs := range tasks {
		off := total(xs) - mean*float64(len(xs))
		squares += off * off
	}
	g := float64(len(tasks))
	return math.Sqrt(g / (g - 1) * squares / float64(n*n))
}

// quantile interpolates between the two nearest of sorted numbers (type 7 of
// Hyndman and Fan, the default of R and NumPy).
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	below := int(at)
	if below+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[below] + (at-float64(below))*(sorted[below+1]-sorted[below])
}

// finite is nil for what is no number: sums of huge rewards may overflow.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
