package stats

import (
	"slices"
	"time"

	"harborgate/trials"
)

// Spread is the middle and the slow end of some numbers.
type Spread struct {
	N      int      `json:"n"`
	Median *float64 `json:"median"`
	P90    *float64 `json:"p90"`
}

// spread sorts xs.
func spread(xs []float64) Spread {
	s := Spread{N: len(xs)}
	if len(xs) > 0 {
		slices.Sort(xs)
		s.Median, s.P90 = finite(quantile(xs, 0.5)), finite(quantile(xs, 0.9))
	}
	return s
}

// Amount is a cost, or a number of tokens. Its Spread is over the trials that know.
type Amount struct {
	Sum *float64 `json:"sum"` // of those; null when no trial knows
	// AtLeast says that there was more: some trials do not know what they used, or
	// not all of it, or do not know it of an earlier try.
	AtLeast bool `json:"at_least"`
	Unknown int  `json:"n_unknown"` // trials that do not know
	Spread
}

func amount(group []*Trial, of func(trials.Usage) *float64) Amount {
	var a Amount
	var known []float64
	for _, t := range group {
		x := of(t.Usage)
		if x == nil {
			a.Unknown++
			continue
		}
		known = append(known, *x)
		a.AtLeast = a.AtLeast || t.Tries > 1 || t.Partial
	}
	a.Spread = spread(known)
	if a.N > 0 {
		a.Sum = finite(total(known))
		a.AtLeast = a.AtLeast || a.Unknown > 0
	}
	return a
}

func float(n *int64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}

// perSolved is null when nothing was solved, or the cost is not known.
func perSolved(cost Amount, s *Solved) *float64 {
	if cost.Sum == nil || s == nil || s.Tasks == 0 {
		return nil
	}
	return finite(*cost.Sum / float64(s.Tasks))
}

// PhaseTime is how long a phase took in the trials that went through it.
type PhaseTime struct {
	Phase trials.Phase `json:"phase"`
	Spread
}

// phaseTimes are in the order of the phases.
func phaseTimes(group []*Trial) []PhaseTime {
	out := []PhaseTime{}
	for _, p := range trials.Phases() {
		var xs []float64
		for _, t := range group {
			if d, ok := t.Phases.Of(p); ok {
				xs = append(xs, d.Seconds())
			}
		}
		if len(xs) > 0 {
			out = append(out, PhaseTime{p, spread(xs)})
		}
	}
	return out
}

// durations are of the trials that know when they began and ended.
func durations(group []*Trial) []float64 {
	var xs []float64
	for _, t := range group {
		if t.Duration > 0 {
			xs = append(xs, t.Duration.Seconds())
		}
	}
	return xs
}

// Waiting is the time that trials did nothing: before they began, for their image
// and then for a slot or a limit, and within, for an image that was made again.
type Waiting struct {
	N        int      `json:"n"` // trials
	SlotSec  float64  `json:"slot_sec"`
	ImageSec float64  `json:"image_sec"`
	Share    *float64 `json:"share"` // of all time from queue to end
}

func waiting(group []*Trial) Waiting {
	w := Waiting{N: len(group)}
	var slot, image, all time.Duration
	for _, t := range group {
		slot += t.Waited
		image += t.Snapshot
		all += t.Queued + t.Duration
	}
	w.SlotSec, w.ImageSec = slot.Seconds(), image.Seconds()
	if all > 0 {
		w.Share = finite(min((slot+image).Seconds()/all.Seconds(), 1))
	}
	return w
}
