package shares

import (
	"context"
	"math"
	"time"

	limiter "golang.org/x/time/rate"
)

// creates is the class of calls that make sandboxes. A lease is for a sandbox that is
// made at once, so it comes with a turn, and is not given in a pause: who waits for
// either has no place that others could use.
const creates = "creates"

// rate is how many sandboxes may be made in a second, and the burst beyond. Zero is no
// limit.
type rate struct {
	PerSecond float64
	Burst     int
}

// due is how many sandboxes may be made at once now, how long it is to the next turn, and
// why there is none.
func (a *account) due(r rate, now int64) (turns int, next time.Duration, why string) {
	if p := a.Pauses[creates]; now < p.Until {
		return 0, time.Duration(p.Until - now), "no creates for now: " + p.Why
	}
	if r.PerSecond <= 0 {
		return math.MaxInt, 0, ""
	}
	if next := a.next(creates, r.PerSecond, r.Burst, now); next > 0 {
		return 0, next, "the limit of creates_per_sec is reached"
	}
	step, behind := interval(r.PerSecond), int64(0)
	if p := a.Paces[creates]; p != nil {
		behind = max(0, p.Empty-now)
	}
	return int(atOnce(r.Burst) - (behind+step-1)/step), time.Duration(step), ""
}

// Creates is the pace of creates that all processes of the host share. From here on
// leases are given at this pace, each with the turn to make its sandbox.
func (p *Pool) Creates(perSecond float64, burst int) *Creates {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = rate{perSecond, burst}
	return &Creates{p.Pace(creates, perSecond, burst), limiter.NewLimiter(limiter.Limit(perSecond), max(1, burst))}
}

// Creates lets creates pass: those of new leases at once, others in their turn. Those of
// leases may have been held up between the two, all by the same thing: they do not go
// all at once then, but at the pace again.
type Creates struct {
	pace *Pace
	own  *limiter.Limiter // of this process
}

// Wait returns when the create may go.
func (c *Creates) Wait(ctx context.Context) error {
	if !c.pace.pool.paidTurn() {
		if err := c.pace.Wait(ctx); err != nil {
			return err
		}
	}
	return c.own.Wait(ctx)
}

// paidFor is how long a turn that came with a lease is good: sandboxes are made at once,
// and a turn that is used late would be one too many then.
const paidFor = 5 * time.Second

func (p *Pool) pay() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paid = append(p.paid, time.Now())
}

// paidTurn uses a turn that came with a lease, if there is one.
func (p *Pool) paidTurn() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.paid) > 0 {
		at := p.paid[0]
		p.paid = p.paid[1:]
		if time.Since(at) < paidFor {
			return true
		}
	}
	return false
}

// tellIn wakes who was refused when there is a turn; 0 stops that.
func (p *Pool) tellIn(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case d <= 0 && p.timer != nil:
		p.timer.Stop()
	case d > 0 && p.timer == nil:
		p.timer = time.AfterFunc(d, p.tell)
	case d > 0:
		p.timer.Reset(d)
	}
}
