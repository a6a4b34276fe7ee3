// Package gate holds requests back until limits allow them, fairly: who asks for
// much waits behind himself, not before others.
package gate

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits are those of an upstream or a key. A zero field is no limit.
type Limits struct {
	Requests   int   // a minute
	Input      int64 // tokens a minute
	Output     int64 // tokens a minute
	Concurrent int   // at once
}

// Need is how many tokens a request may use, or has used.
type Need struct{ Input, Output int64 }

// Gate lets requests through one after the other. It is safe for concurrent use.
type Gate struct {
	mu       sync.Mutex
	limits   Limits
	running  int
	waiting  int
	paused   time.Time // nobody passes before it
	requests *rate.Limiter
	input    bucket
	output   bucket
	turns    []*line // those with somebody waiting, the next one first
	lines    map[string]*line
	timer    *time.Timer
}

// line is the queue of one trial.
type line struct {
	who     string
	waiters []*waiter
}

type waiter struct {
	need  Need
	ready chan struct{} // closed when it may pass
}

// Ticket is the right to one request. Release it once the request has ended.
type Ticket struct {
	gate *Gate
	need Need
	once sync.Once
}

// State is what a gate is doing.
type State struct {
	Running int       `json:"running"`
	Waiting int       `json:"waiting"`
	Paused  time.Time `json:"paused,omitzero"`
}

// New returns a gate with limits.
func New(l Limits) *Gate {
	g := &Gate{lines: map[string]*line{}}
	g.Configure(l)
	return g
}

// Configure changes the limits. What is running and waiting stays.
func (g *Gate) Configure(l Limits) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.requests != nil && l == g.limits {
		return
	}
	now := time.Now()
	g.limits = l
	limit, burst := rate.Inf, 1
	if l.Requests > 0 {
		limit, burst = rate.Limit(float64(l.Requests)/60), max(1, l.Requests/10)
	}
	g.requests = rate.NewLimiter(limit, burst)
	g.input, g.output = newBucket(l.Input, now), newBucket(l.Output, now)
	g.pump(now)
}

// Try lets a request through when nobody waits and the limits allow it now, as they
// do for most requests, and returns nil otherwise.
func (g *Gate) Try(need Need) *Ticket {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if len(g.turns) > 0 || g.delay(now, need) > 0 {
		return nil
	}
	g.pass(now, need)
	return &Ticket{gate: g, need: need}
}

// Acquire waits until the limits allow a request of who, in turn with others. It
// ends early with ctx, and then with its error.
func (g *Gate) Acquire(ctx context.Context, who string, need Need) (*Ticket, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &waiter{need: need, ready: make(chan struct{})}
	g.mu.Lock()
	g.enqueue(who, w)
	g.pump(time.Now())
	g.mu.Unlock()
	select {
	case <-w.ready:
	case <-ctx.Done():
		if g.leave(who, w) {
			return nil, ctx.Err()
		}
	}
	return &Ticket{gate: g, need: need}, nil
}

func (g *Gate) enqueue(who string, w *waiter) {
	l := g.lines[who]
	if l == nil {
		l = &line{who: who}
		g.lines[who] = l
		g.turns = append(g.turns, l)
	}
	l.waiters = append(l.waiters, w)
	g.waiting++
}

// leave takes a waiter out, and reports false when it may pass already.
func (g *Gate) leave(who string, w *waiter) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lines[who]
	if l == nil {
		return false
	}
	for i, other := range l.waiters {
		if other != w {
			continue
		}
		l.waiters = append(l.waiters[:i], l.waiters[i+1:]...)
		g.waiting--
		g.dropEmpty(l)
		g.pump(time.Now()) // it may have been the one that all waited behind
		return true
	}
	return false
}

func (g *Gate) dropEmpty(l *line) {
	if len(l.waiters) > 0 {
		return
	}
	delete(g.lines, l.who)
	for i, other := range g.turns {
		if other == l {
			g.turns = append(g.turns[:i], g.turns[i+1:]...)
			return
		}
	}
}

// forever is the delay while only the end of another request can help.
const forever = time.Duration(1<<63 - 1)

// delay is how long a request has to wait, from now.
func (g *Gate) delay(now time.Time, need Need) time.Duration {
	if g.limits.Concurrent > 0 && g.running >= g.limits.Concurrent {
		return forever
	}
	d := max(0, g.paused.Sub(now), g.input.delay(now, need.Input), g.output.delay(now, need.Output))
	r := g.requests.ReserveN(now, 1)
	d = max(d, r.DelayFrom(now))
	r.CancelAt(now)
	return d
}

func (g *Gate) pass(now time.Time, need Need) {
	g.running++
	g.requests.AllowN(now, 1)
	g.input.take(now, need.Input)
	g.output.take(now, need.Output)
}

// pump lets through whoever may pass, in turns, and sets a timer for the next one.
func (g *Gate) pump(now time.Time) {
	for len(g.turns) > 0 {
		l := g.turns[0]
		w := l.waiters[0]
		if d := g.delay(now, w.need); d > 0 {
			g.wakeIn(d)
			return
		}
		g.pass(now, w.need)
		l.waiters = l.waiters[1:]
		g.waiting--
		g.turns = append(g.turns[1:], l)
		g.dropEmpty(l)
		close(w.ready)
	}
}

func (g *Gate) wakeIn(d time.Duration) {
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
	if d == forever {
		return
	}
	g.timer = time.AfterFunc(d, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.pump(time.Now())
	})
}

// Pause lets nobody pass before t. An earlier t than that of a pause changes
// nothing.
func (g *Gate) Pause(t time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.After(g.paused) {
		g.paused = t
	}
}

// Delay is how long a request would have to wait as things are, not counting those
// who wait already: at least a second when only another's end can help.
func (g *Gate) Delay(need Need) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.delay(time.Now(), need)
	if d == forever {
		return time.Second
	}
	return d
}

// State returns what the gate is doing.
func (g *Gate) State() State {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := State{Running: g.running, Waiting: g.waiting}
	if g.paused.After(time.Now()) {
		s.Paused = g.paused
	}
	return s
}

// Release ends a request that has used the given tokens. Only the first call
// counts. The nil Ticket is of no gate.
func (t *Ticket) Release(used Need) {
	if t == nil {
		return
	}
	t.once.Do(func() {
		g := t.gate
		g.mu.Lock()
		defer g.mu.Unlock()
		g.running--
		g.input.refund(t.need.Input - used.Input)
		g.output.refund(t.need.Output - used.Output)
		g.pump(time.Now())
	})
}

// bucket holds tokens of a minute. What a request reserved and did not use goes
// back; what it used beyond that is owed, and delays the next.
type bucket struct {
	size  float64 // 0 is no limit
	level float64
	at    time.Time
}

func newBucket(perMinute int64, now time.Time) bucket {
	return bucket{size: float64(perMinute), level: float64(perMinute), at: now}
}

func (b *bucket) refill(now time.Time) {
	b.level = min(b.size, b.level+now.Sub(b.at).Minutes()*b.size)
	b.at = now
}

// delay is how long it takes until n are there. Who needs more than there ever are
// waits until the bucket is full.
func (b *bucket) delay(now time.Time, n int64) time.Duration {
	if b.size == 0 {
		return 0
	}
	b.refill(now)
	missing := min(float64(n), b.size) - b.level
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing/b.size*float64(time.Minute)) + 1
}

func (b *bucket) take(now time.Time, n int64) {
	if b.size > 0 {
		b.refill(now)
		b.level -= float64(n)
	}
}

func (b *bucket) refund(n int64) {
	if b.size > 0 {
		b.level = min(b.size, b.level+float64(n))
	}
}
