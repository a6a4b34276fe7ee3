package fake

import (
	"math/rand/v2"
	"time"

	"harborgate/providers"
)

// Chance makes calls misbehave at random: with the same seed, the same order of
// calls meets the same faults.
type Chance struct {
	Percent float64 // of the calls are struck
	Seed    uint64
}

// Gamble adds faults at random to those that are injected. Heal ends them too.
func (w *World) Gamble(c Chance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.chance, w.random = c, rand.New(rand.NewPCG(c.Seed, 0))
}

// mishaps are what may happen to a call by chance.
func mishaps(op Op) []Fault {
	away := Fault{Op: op, Effect: Refuse, Kind: providers.KindUnavailable}
	switch op {
	case OpCreate:
		return []Fault{
			away, {Op: op, Effect: Refuse, Kind: providers.KindExhausted},
			{Op: op, Effect: Refuse, Kind: providers.KindRateLimited, RetryAfter: 200 * time.Millisecond},
			{Op: op, Late: 500 * time.Millisecond},
		}
	case OpExec:
		return []Fault{away, {Op: op, Delay: 500 * time.Millisecond}, {Op: op, Effect: Die, Death: providers.Death{ExitCode: 137}}}
	case OpDestroy:
		return []Fault{away, {Op: op, Effect: Lose, Kind: providers.KindUnavailable}, {Op: op, Delay: 500 * time.Millisecond}}
	default:
		return []Fault{away, {Op: op, Late: 500 * time.Millisecond}}
	}
}

// mishap is what happens to a call by chance; mostly nothing. w.mu is held.
func (w *World) mishap(op Op) Fault {
	if w.random == nil || w.random.Float64()*100 >= w.chance.Percent {
		return Fault{}
	}
	all := mishaps(op)
	return all[w.random.IntN(len(all))]
}
