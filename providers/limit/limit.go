// Package limit keeps the calls to a provider within what the provider allows: calls
// of each class and of all per time, and creates at once. When the provider says that
// it was called too fast, calls of that class wait until it is ready again.
//
// Only calls to the provider itself count among all calls. What happens inside a
// sandbox (Exec, Upload, Download, Expose) travels over the sandbox's own session; it
// has a pace of its own for providers where that is a call too.
package limit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"harborgate/providers"
)

// Pace lets calls pass one at a time, as fast as it allows. *rate.Limiter is
// one; a pace that several processes share is another.
type Pace interface {
	// Wait returns when the call may go, or with an error when ctx ends before.
	Wait(ctx context.Context) error
}

// PerSecond allows n calls per second and a burst of them at once. n <= 0 is no
// limit.
func PerSecond(n float64, burst int) Pace {
	if n <= 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(n), max(burst, 1))
}

// Slots limits how many calls are under way at once.
type Slots interface {
	// Acquire returns when there is a slot, or with an error when ctx ends
	// before. release gives it back and must be called once.
	Acquire(ctx context.Context) (release func(), err error)
}

// AtMost allows n calls at once. n <= 0 is no limit.
func AtMost(n int) Slots {
	if n <= 0 {
		return unlimited{}
	}
	return slots(make(chan struct{}, n))
}

type unlimited struct{}

func (unlimited) Acquire(ctx context.Context) (func(), error) { return func() {}, ctx.Err() }

type slots chan struct{}

func (s slots) Acquire(ctx context.Context) (func(), error) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Pause is a time in which nobody calls; several processes may share it.
type Pause interface {
	// Cool is how long it lasts, zero when calls may go.
	Cool() (time.Duration, error)
	// CoolDown makes it last for d from now, unless it is longer already.
	CoolDown(d time.Duration, why string) error
}

// Class is a kind of calls that a provider counts for itself.
type Class string

// Classes. Execs is what happens inside a sandbox; without a pace these calls do not
// wait for a pause either.
const (
	Creates Class = "creates"
	Deletes Class = "deletes"
	Reads   Class = "reads" // lists and checks
	Execs   Class = "execs"
)

// Options configure New. Nil fields are no limit.
type Options struct {
	Calls  Pace           // every call but Execs
	Paces  map[Class]Pace // of calls of a class
	AtOnce Slots          // creates under way
	// Pauses are those of a class after KindRateLimited; nil is this process's own.
	Pauses func(Class) Pause

	// Exhausted is told when a create found no room.
	Exhausted func(why string)
	// CoolDown is how long to wait after KindRateLimited without a RetryAfter;
	// 0 is 10 s.
	CoolDown time.Duration
}

// Provider is the decorated provider.
type Provider struct {
	providers.Provider
	o      Options
	pauses map[Class]Pause
}

// own is a pause of this process.
type own struct {
	mu    sync.Mutex // guards ready
	ready time.Time  // no call before
}

func (p *own) Cool() (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, time.Until(p.ready)), nil
}

func (p *own) CoolDown(d time.Duration, _ string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(d); until.After(p.ready) {
		p.ready = until
	}
	return nil
}

// New decorates p.
func New(p providers.Provider, o Options) *Provider {
	if o.AtOnce == nil {
		o.AtOnce = AtMost(0)
	}
	if o.Pauses == nil {
		o.Pauses = func(Class) Pause { return &own{} }
	}
	if o.Exhausted == nil {
		o.Exhausted = func(string) {}
	}
	if o.CoolDown <= 0 {
		o.CoolDown = 10 * time.Second
	}
	out := &Provider{Provider: p, o: o, pauses: map[Class]Pause{}}
	for _, c := range []Class{Creates, Deletes, Reads, Execs} {
		out.pauses[c] = o.Pauses(c)
	}
	return out
}

// Unwrap returns the decorated provider, for providers.As.
func (p *Provider) Unwrap() providers.Provider { return p.Provider }

// Check implements providers.Provider.
func (p *Provider) Check(ctx context.Context) error {
	return p.call(ctx, "check", Reads, func() error { return p.Provider.Check(ctx) })
}

// List implements providers.Provider.
func (p *Provider) List(ctx context.Context, sel providers.Selector) ([]providers.Resource, error) {
	var list []providers.Resource
	err := p.call(ctx, "list", Reads, func() (err error) {
		list, err = p.Provider.List(ctx, sel)
		return err
	})
	return list, err
}

// Destroy implements providers.Provider.
func (p *Provider) Destroy(ctx context.Context, id providers.ID) error {
	return p.call(ctx, "destroy", Deletes, func() error { return p.Provider.Destroy(ctx, id) })
}

// impatience is that of work which can wait or go elsewhere, until its first create.
type impatience struct{ used atomic.Bool }

type impatienceKey struct{}

// Impatient is for work that can be done later, or elsewhere: its first create is refused
// in a pause (KindRateLimited) and does not wait for its end. Later ones do, because
// something is to be lost by then.
func Impatient(ctx context.Context) context.Context {
	return context.WithValue(ctx, impatienceKey{}, &impatience{})
}

// impatient reports whether a create is the first of such work.
func impatient(ctx context.Context) bool {
	i, ok := ctx.Value(impatienceKey{}).(*impatience)
	return ok && !i.used.Swap(true)
}

// Create implements providers.Provider. The slot is taken first: who waits for
// one has not used up a turn.
func (p *Provider) Create(ctx context.Context, spec providers.Spec) (providers.Sandbox, error) {
	if impatient(ctx) {
		if wait, err := p.pauses[Creates].Cool(); err != nil || wait > 0 {
			return nil, errors.Join(err, inPause("create", wait))
		}
	}
	release, err := p.o.AtOnce.Acquire(ctx)
	if err != nil {
		return nil, waitError(ctx, "create", err)
	}
	defer release()
	var sb providers.Sandbox
	err = p.call(ctx, "create", Creates, func() (err error) {
		sb, err = p.Provider.Create(ctx, spec)
		return err
	})
	if err != nil {
		if providers.Is(err, providers.KindExhausted) {
			p.o.Exhausted(err.Error())
		}
		return nil, err
	}
	return &sandbox{sb, p}, nil
}

// call waits for its turn, of its class and of all, and learns from the answer.
func (p *Provider) call(ctx context.Context, op string, class Class, f func() error) error {
	if err := p.turn(ctx, op, class); err != nil {
		return waitError(ctx, op, err)
	}
	err := f()
	if providers.Is(err, providers.KindRateLimited) {
		return errors.Join(err, p.coolDown(class, err))
	}
	return err
}

// turn waits for a turn that falls into no pause. Who is held up by one takes another
// turn after it: else all that waited would go at the moment it ends. A pause that ctx
// does not outlive is not waited for.
func (p *Provider) turn(ctx context.Context, op string, class Class) error {
	paces := []Pace{p.o.Paces[class], p.o.Calls}
	if class == Execs {
		paces = paces[:1]
	}
	for {
		for _, pace := range paces {
			if pace == nil {
				continue
			}
			if err := pace.Wait(ctx); err != nil {
				return err
			}
		}
		wait, err := p.pauses[class].Cool()
		if err != nil || wait <= 0 {
			return errors.Join(err, ctx.Err())
		}
		if end, ok := ctx.Deadline(); ok && time.Until(end) < wait {
			return inPause(op, wait)
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

func (p *Provider) coolDown(class Class, err error) error {
	wait := p.o.CoolDown
	var e *providers.Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		wait = e.RetryAfter
	}
	return p.pauses[class].CoolDown(wait, err.Error())
}

// inPause is the error of a call that is refused because of a pause.
func inPause(op string, wait time.Duration) error {
	return &providers.Error{
		Op: op, Kind: providers.KindRateLimited, RetryAfter: wait, Err: fmt.Errorf("the provider asked for a pause that lasts %s more", wait.Round(time.Second)),
	}
}

// waitError is ctx's error, or that of a pause, or tells that the turn would come after its deadline.
func waitError(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if providers.Is(err, providers.KindRateLimited) {
		return err
	}
	return providers.E(providers.KindTimeout, op, fmt.Errorf("the limit of calls leaves no turn in time: %w", err))
}
