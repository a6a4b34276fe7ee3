package shares

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// Pool is this process's way to what all processes of a host share of one provider:
// sandboxes, CPUs and memory by leases, turns by pace, and pauses. What a process
// had comes back when it dies, however it dies. Safe for concurrent use.
//
// Leases are kept in a file of the state directory that is locked for each change,
// some 10 µs. A daemon would have to be started and watched, and a database would
// not tell who died any better; kernel locks end with their process.
type Pool struct {
	o     *Owner
	sweep func(ctx context.Context) error
	book  *book
	boot  string   // id of the host's run
	bell  *os.File // changes whenever something is freed
	freed chan struct{}
	nudge chan struct{}   // somebody was refused
	ctx   context.Context //nolint:containedctx // of sweeps, ends with Close
	end   context.CancelFunc
	wg    sync.WaitGroup

	mu     sync.Mutex // guards what follows
	label  string
	limits Need
	queued int                    // trials that wait, see Waiting
	urgent map[chan struct{}]bool // of those who wait in Await
	swept  map[string]bool        // dead processes that are, or were, swept after
	crowd  int                    // of owners, which asks for a look who of them is dead
	rate   rate                   // of creates
	paid   []time.Time            // turns to create that came with leases and were not used
	timer  *time.Timer            // tells when there is a turn; nil before the first
}

// poolsDir is below the state directory. It has a file of each provider, and one whose
// name has an end more, its bell.
const poolsDir, bellEnd = "shares", ".freed"

// Pool opens what this host shares of a provider. sweep removes what dead processes
// left there: until it does, that still counts, for five minutes at most. Nil counts
// nothing of the dead.
func (o *Owner) Pool(provider string, sweep func(ctx context.Context) error) (*Pool, error) {
	dir := filepath.Join(filepath.Dir(o.dir), poolsDir)
	path := filepath.Join(dir, provider)
	if err := errors.Join(os.MkdirAll(dir, 0o700), regular(path+bellEnd)); err != nil {
		return nil, fmt.Errorf("shares of provider %s: %w", provider, err)
	}
	b, err := openBook(path)
	if err != nil {
		return nil, fmt.Errorf("shares of provider %s: %w", provider, err)
	}
	p := &Pool{
		o: o, sweep: sweep, book: b, boot: boot(), freed: make(chan struct{}, 1), nudge: make(chan struct{}, 1),
		swept: map[string]bool{}, urgent: map[chan struct{}]bool{},
	}
	p.ctx, p.end = context.WithCancel(context.Background())
	if p.bell, err = os.OpenFile(path+bellEnd, os.O_WRONLY|os.O_CREATE, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("shares of provider %s: %w", provider, err), b.close())
	}
	rung, lost, unlisten := p.listen()
	p.wg.Go(func() {
		defer unlisten()
		p.watch(rung, lost)
	})
	return p, nil
}

// For says what this process uses the pool for, and what it holds it to. Zero limits
// are none.
func (p *Pool) For(label string, limits Need) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.label, p.limits = label, limits
}

func (p *Pool) purpose() (string, Need) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.label, p.limits
}

// Close gives back what is free. Leases that were not released are of sandboxes that
// stay: they count as those of a dead process until one that lives has swept.
func (p *Pool) Close() error {
	p.end()
	p.wg.Wait()
	p.tellIn(0)
	err := p.change(func(a *account, _ int64) bool {
		a.leave(p.o.ID)
		return true
	})
	return errors.Join(err, p.ring(), p.bell.Close(), p.book.close())
}

// now is the host's clock, which nobody sets and which goes on while the host sleeps.
func now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // never fails with this clock
	return t.Nano()
}

func (p *Pool) change(f func(a *account, now int64) bool) error {
	err := p.book.change(func(a *account) bool {
		a.of(p.boot)
		return f(a, now())
	})
	if err != nil {
		return fmt.Errorf("shares of a provider: %w", err)
	}
	return nil
}

// Acquire takes a lease at once or refuses. release gives it back, once. After a
// refusal Freed tells when it is worth asking again. Who waits in Await comes first.
func (p *Pool) Acquire(ctx context.Context, need Need) (release func(), ok bool, err error) {
	if p.awaited() {
		return nil, false, ctx.Err()
	}
	p.mu.Lock()
	r := p.rate
	p.mu.Unlock()
	return p.acquire(ctx, need, r)
}

// Await takes a lease as soon as there is one. It comes without a turn to make its
// sandbox, which is for later.
func (p *Pool) Await(ctx context.Context, need Need) (release func(), err error) {
	freed := make(chan struct{}, 1)
	p.mu.Lock()
	p.urgent[freed] = true
	p.mu.Unlock()
	waits := false
	defer func() {
		p.mu.Lock()
		delete(p.urgent, freed)
		p.mu.Unlock()
		p.signal(p.freed) // for those who were refused meanwhile
		if waits {
			_ = p.countWaiting() // it is for users to see
		}
	}()
	for {
		release, ok, err := p.acquire(ctx, need, rate{})
		if ok || err != nil {
			return release, err
		}
		if !waits {
			waits = true
			_ = p.countWaiting()
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *Pool) awaited() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.urgent) > 0
}

func (p *Pool) acquire(ctx context.Context, need Need, r rate) (release func(), ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	need.Sandboxes = 1
	label, limits := p.purpose()
	var why string
	var again time.Duration
	var dead []string
	err = p.change(func(a *account, now int64) bool {
		why, again = a.admit(p.o.ID, label, need, limits, r, now)
		if why != "" || p.crowded(a) {
			dead = p.dead(a)
		}
		return true
	})
	p.bury(dead)
	switch {
	case err != nil:
		return nil, false, err
	case why != "":
		p.signal(p.nudge)
		p.tellIn(again)
		return nil, false, nil
	}
	if r.PerSecond > 0 {
		p.pay()
	}
	return sync.OnceFunc(func() { p.release(need) }), true, nil
}

// release cannot fail for who calls it: what is not given back now is with Close.
func (p *Pool) release(need Need) {
	_ = p.change(func(a *account, _ int64) bool {
		a.release(p.o.ID, need)
		return true
	})
	_ = p.ring()
}

// Freed tells that a refused lease may be had now.
func (p *Pool) Freed() <-chan struct{} { return p.freed }

// Exhausted learns that the provider refused a sandbox for want of room.
func (p *Pool) Exhausted(why string) error {
	return p.change(func(a *account, now int64) bool { a.exhausted(why, now); return true })
}

// Away says to others that the provider did not answer. Who asks it again and again says
// so each time.
func (p *Pool) Away(why string) error {
	return p.change(func(a *account, now int64) bool { a.away(why, now); return true })
}

// Back says that it answers.
func (p *Pool) Back() error {
	return p.change(func(a *account, _ int64) bool {
		was := a.Away != nil
		a.Away = nil
		return was
	})
}

// Pause is that of a class of calls, which all processes of the host share.
func (p *Pool) Pause(class string) *Pause { return &Pause{p, class} }

// Pause is a time in which nobody makes calls of a class.
type Pause struct {
	pool  *Pool
	class string
}

// CoolDown makes it last for d from now, unless it is longer already.
func (c *Pause) CoolDown(d time.Duration, why string) error {
	return c.pool.change(func(a *account, now int64) bool { a.cool(c.class, now+int64(d), why); return true })
}

// Cool is how long nobody may call.
func (c *Pause) Cool() (time.Duration, error) {
	var left time.Duration
	err := c.pool.change(func(a *account, now int64) bool {
		left = max(0, time.Duration(a.Pauses[c.class].Until-now))
		return false
	})
	return left, err
}

// ring tells all processes that something was freed.
func (p *Pool) ring() error {
	_, err := p.bell.WriteAt([]byte{0}, 0)
	return err
}

// listen hears the bell. Where the host has no more of what that takes, nothing is
// heard: whoever waits asks again and again.
func (p *Pool) listen() (rung <-chan fsnotify.Event, lost <-chan error, end func()) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, nil, func() {}
	}
	if err := w.Add(p.bell.Name()); err != nil {
		return nil, nil, func() { _ = w.Close() }
	}
	return w.Events, w.Errors, func() { _ = w.Close() }
}

// again is how soon who was refused asks again by itself: nobody rings for the dead.
const again = time.Second

func (p *Pool) watch(rung <-chan fsnotify.Event, lost <-chan error) {
	timer := time.NewTimer(again)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-rung:
			p.tell()
		case <-lost: //nolint:errcheck // bells were missed, whatever the reason
			p.tell()
		case <-timer.C:
			p.tell()
		case <-p.nudge:
			timer.Reset(again)
		case <-p.ctx.Done():
			return
		}
	}
}

// tell wakes everybody of this process who was refused.
func (p *Pool) tell() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.urgent {
		p.signal(c)
	}
	p.signal(p.freed)
}

func (p *Pool) signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
