package stats

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// exactFlips is the most differences whose signs are all flipped in all ways: a
// million sums. Above it, draws are taken.
const (
	exactFlips = 20
	draws      = 100_000
)

// mcnemar is the exact two-sided p of so many pairs that only one side solved: how
// a fair coin would share them.
func mcnemar(onlyA, onlyB int) float64 {
	n := onlyA + onlyB
	if n == 0 {
		return 1
	}
	coin := distuv.Binomial{N: float64(n), P: 0.5}
	return min(1, 2*coin.CDF(float64(min(onlyA, onlyB))))
}

// signFlip is the two-sided p of a mean difference: how often it would be as far
// from 0 if each difference might as well have the other sign. It is exact when
// few differences are not 0, else estimated from draws with the seed.
func signFlip(differences []float64, seed uint64) (p float64, exact bool) {
	var sizes []float64
	for _, d := range differences {
		if d != 0 {
			sizes = append(sizes, math.Abs(d))
		}
	}
	if len(sizes) == 0 {
		return 1, true
	}
	// Sums of the same numbers in another order differ in their last digits.
	bar := math.Abs(total(differences)) - 1e-9*total(sizes)
	if len(sizes) <= exactFlips {
		// The first sign is fixed: all others mirrored give the same distance.
		return float64(reaching(sizes[1:], sizes[0], bar)) / float64(int(1)<<(len(sizes)-1)), true
	}
	return drawn(sizes, bar, seed), false
}

// reaching counts the ways to add or subtract sizes that end at bar or further
// from 0.
func reaching(sizes []float64, sum, bar float64) int {
	if len(sizes) == 0 {
		if math.Abs(sum) >= bar {
			return 1
		}
		return 0
	}
	return reaching(sizes[1:], sum+sizes[0], bar) + reaching(sizes[1:], sum-sizes[0], bar)
}

// drawn is the share of draws that reach bar, the observed one counted as one, so
// that no p is 0. Equal sizes share their coins: rewards of 0 and 1 over a
// thousand tasks need sixteen words of randomness for a draw.
func drawn(sizes []float64, bar float64, seed uint64) float64 {
	type group struct {
		size float64
		n    int
	}
	slices.Sort(sizes)
	var groups []group
	for _, s := range sizes {
		if last := len(groups) - 1; last >= 0 && groups[last].size == s {
			groups[last].n++
			continue
		}
		groups = append(groups, group{s, 1})
	}
	coins := tosser{source: rand.NewPCG(seed, seed)}
	reached := 1
	for range draws {
		sum := 0.0
		for _, g := range groups {
			sum += g.size * float64(2*coins.heads(g.n)-g.n)
		}
		if math.Abs(sum) >= bar {
			reached++
		}
	}
	return float64(reached) / (draws + 1)
}

// tosser tosses fair coins, 64 from each word of its source.
type tosser struct {
	source *rand.PCG
	word   uint64
	left   int
}

// heads tosses n coins.
func (t *tosser) heads(n int) (heads int) {
	for n > 0 {
		if t.left == 0 {
			t.word, t.left = t.source.Uint64(), 64
		}
		k := min(n, t.left)
		heads += bits.OnesCount64(t.word << (64 - k))
		t.word >>= k & 63 // of all 64 nothing is left, which left says
		t.left -= k
		n -= k
	}
	return heads
}

// holm adjusts p values for their number.
func holm(ps []float64) []float64 {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ps[a], ps[b]) })
	out, least := make([]float64, len(ps)), 0.0
	for rank, i := range order {
		least = max(least, min(1, ps[i]*float64(len(ps)-rank)))
		out[i] = least
	}
	return out
}

// power is the chance with which Detectable would be seen.
const power = 0.8

// detectable is the smallest mean difference that so many with that spread could
// have shown, with a two-sided test at 1 - Level. Nil when the spread is not known.
func detectable(differences []float64) *float64 {
	if len(differences) < 2 || constant(differences) {
		return nil
	}
	degrees := len(differences) - 1
	return finite((studentQuantile(degrees, upper) + studentQuantile(degrees, power)) * standardError(differences))
}
