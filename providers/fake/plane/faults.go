package plane

import (
	"context"
	"fmt"
	"time"

	"harborgate/providers"
)

// Effect is what a Fault does to a call.
type Effect string

// Effects.
const (
	Down      Effect = "down"      // no answer: Unavailable
	Slow      Effect = "slow"      // it takes DelaySec longer
	Exhausted Effect = "exhausted" // no room, whatever the limits say
	Lose      Effect = "lose"      // the sandbox of a create or exec is gone
)

// Fault makes calls fail. Every condition that it sets must be met; without any it
// strikes each call until it is healed.
type Fault struct {
	Effect  Effect  `json:"effect"             yaml:"effect"`
	Op      Op      `json:"op,omitempty"       yaml:"op"`       // "" is all
	Every   int     `json:"every,omitempty"    yaml:"every"`    // the n-th call, the 2n-th, …
	Percent float64 `json:"percent,omitempty"  yaml:"percent"`  // by chance
	FromSec float64 `json:"from_sec,omitempty" yaml:"from_sec"` // of the simulation
	ForSec  float64 `json:"for_sec,omitempty"  yaml:"for_sec"`  // 0 is for ever

	DelaySec float64 `json:"delay_sec,omitempty" yaml:"delay_sec"` // with slow
}

func (f Fault) validate() error {
	switch f.Effect {
	case Down, Slow, Exhausted, Lose:
	default:
		return fmt.Errorf("effect %q is not known: use %s, %s, %s or %s", f.Effect, Down, Slow, Exhausted, Lose)
	}
	if f.Op != "" && !f.Op.known() {
		return fmt.Errorf("op %q is not known: use one of %v", f.Op, ops)
	}
	if f.Every < 0 || f.Percent < 0 || f.Percent > 100 || f.FromSec < 0 || f.ForSec < 0 || f.DelaySec < 0 {
		return fmt.Errorf("a number of fault %s is out of range", f.Effect)
	}
	return nil
}

// armed is a Fault with its count of calls.
type armed struct {
	Fault
	calls int
}

// strike is what faults do to one call.
type strike struct {
	err    error
	reason Reason
	lose   bool
	delay  time.Duration
}

// Inject adds faults; their times count from the plane's start.
func (p *Plane) Inject(_ context.Context, faults ...Fault) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.arm(faults)
}

// Heal removes all faults.
func (p *Plane) Heal(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = nil
	return nil
}

func (p *Plane) arm(faults []Fault) error {
	for _, f := range faults {
		if err := f.validate(); err != nil {
			return providers.E(providers.KindInvalid, "fault", err)
		}
	}
	for _, f := range faults {
		p.faults = append(p.faults, &armed{Fault: f})
	}
	return nil
}

// strike collects what the faults do to a call. p.mu is held.
func (p *Plane) strike(op Op, now time.Duration) strike {
	var s strike
	for _, f := range p.faults {
		if !p.strikes(f, op, now) {
			continue
		}
		switch f.Effect {
		case Down:
			s.reason, s.err = ReasonDown, providers.Errorf(providers.KindUnavailable, string(op), "the provider does not answer")
		case Exhausted:
			if op == OpCreate {
				s.reason, s.err = ReasonExhausted, providers.Errorf(providers.KindExhausted, string(op), "no available runners")
			}
		case Lose:
			s.lose = true
		case Slow:
			s.delay += seconds(f.DelaySec)
		}
	}
	return s
}

func (p *Plane) strikes(f *armed, op Op, now time.Duration) bool {
	begin, end := seconds(f.FromSec), seconds(f.FromSec+f.ForSec)
	if f.Op != "" && f.Op != op || now < begin || f.ForSec > 0 && now >= end {
		return false
	}
	f.calls++
	return (f.Every == 0 || f.calls%f.Every == 0) && (f.Percent == 0 || p.random.Float64()*100 < f.Percent)
}

// wait is how long a call takes, in the host's time. p.mu is held.
func (p *Plane) wait(op Op, s strike) time.Duration {
	l := p.c.Latency[op]
	sec := l.Sec * (1 + l.Spread*(2*p.random.Float64()-1))
	return p.hosts(seconds(sec) + s.delay)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
