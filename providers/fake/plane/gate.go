package plane

import "time"

// Rate is how often a class may be called, in one of the two ways that clouds have:
// a bucket of Burst calls that fills with PerSec, which says nothing about when to
// come back; or PerMin calls in each minute, where one too many shuts everybody out
// for a minute, and that is said. The zero Rate is no limit.
type Rate struct {
	PerSec float64 `json:"per_sec,omitempty" yaml:"per_sec"`
	Burst  int     `json:"burst,omitempty"   yaml:"burst"`
	PerMin int     `json:"per_min,omitempty" yaml:"per_min"`
}

func (r Rate) perSecond() float64 {
	if r.PerMin > 0 {
		return float64(r.PerMin) / 60
	}
	return r.PerSec
}

// gate holds calls to a Rate.
type gate struct {
	interval time.Duration // of one call in the bucket
	burst    int64
	full     time.Duration // the bucket is when this time comes

	perMin int
	begun  time.Duration // of the minute that counts
	calls  int
	shut   time.Duration // until then
}

func newGate(r Rate) *gate {
	g := &gate{burst: int64(max(r.Burst, 1)), perMin: r.PerMin, begun: -time.Minute}
	if r.PerSec > 0 {
		g.interval = time.Duration(float64(time.Second) / r.PerSec)
	}
	return g
}

// pass lets a call through, or says after how long to come back; zero is not said.
func (g *gate) pass(now time.Duration) (ok bool, after time.Duration) {
	if g.perMin > 0 {
		return g.inMinute(now)
	}
	full := max(g.full, now)
	if full-now > time.Duration(g.burst-1)*g.interval {
		return false, 0
	}
	g.full = full + g.interval
	return true, 0
}

func (g *gate) inMinute(now time.Duration) (ok bool, after time.Duration) {
	if now < g.shut {
		return false, g.shut - now
	}
	if now-g.begun >= time.Minute {
		g.begun, g.calls = now, 0
	}
	if g.calls++; g.calls > g.perMin {
		g.shut, g.begun = now+time.Minute, now-time.Minute
		return false, time.Minute
	}
	return true, 0
}
