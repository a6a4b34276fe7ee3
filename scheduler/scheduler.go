// Package scheduler decides which trial runs when, and where. It knows slots, sites
// with what they have room for, images that must be there first, pauses before a
// retry, and nothing of what a trial does.
//
// place is a pure function of the state; one goroutine owns the state and waits for a
// completion, a build, a freed lease, a site that works again, a timer or the end of
// the context. Nothing is polled. A trial that waits, for whatever, holds no slot.
//
// The policy is told in docs/scheduling.md.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Resources are what a trial declares, or what a site has. Zero is not declared, or no
// limit.
type Resources struct {
	CPUs      float64
	MemoryMiB int64
	DiskMiB   int64
	GPUs      int
}

// Site is one provider that trials may run at.
type Site struct {
	Name string
	// Rank orders sites: one of a higher rank takes what those of lower ranks cannot
	// take now. Sites of one rank share trials by their weights; 0 is 1.
	Rank, Weight int
	MaxBuilds    int       // at once, at least 1
	Budget       Resources // that running trials may declare together; zero fields are no limit
	Down         bool      // it, or what it has, is not known: the first thing is its recovery
	Shares       Shares
	Health       Health
}

// Place is what a trial needs at one site.
type Place struct {
	Builds []string // keys of images that must be ready there before it starts
	Bar    string   // why it cannot run there at all; "" when it can
	Cost   float64  // US dollars for an hour; 0 is nothing, or not known
}

// Demand is what trials of a kind ask for. Many trials share one.
type Demand struct {
	Needs  Resources
	Pool   string  // trials of a pool share its limit, see Options.Pools
	Places []Place // one for each site, in their order; at least one without a Bar
}

// Trial is one trial of a job, as far as placement is concerned.
type Trial struct {
	Name string
	*Demand
}

// Assignment is one try to run.
type Assignment struct {
	Trial    int           // index in the job
	Site     int           // index in the options
	Try      int           // from 1
	Moves    int           // how many of the earlier tries counted for nothing
	Refusals int           // how many of them ended with a Cool
	Waited   time.Duration // for a slot
	Images   time.Duration // that it had to wait for its images before that
	Passed   []Passed      // sites that are preferred and did not take it
	Others   int           // other sites that could run it, now or later
}

// Passed is why a site did not take a trial.
type Passed struct {
	Site int
	Why  string
}

// Outcome is how a try ended.
type Outcome struct {
	// Retry asks for another try, after the pause. The runner's owner decides,
	// because it knows the policy.
	Retry bool
	Pause time.Duration
	// Move asks for another try because this one counted for nothing: the site's doing.
	// With a Bar it never comes back to this site, for that reason.
	Move bool
	Bar  string
	// Doubt says that the site may not work: nothing starts there before it is seen to.
	Doubt bool
	// Cool keeps new tries from the site for so long, for the reason Why.
	Cool time.Duration
	Why  string
	// Held is what the try has at its site: its lease is kept until that is free, but not
	// for ever. Nil is nothing.
	Held Possession
}

// Runner executes tries. It returns when the slot is free again: the sandbox is
// gone, or its removal is somebody else's business.
type Runner interface {
	Run(ctx context.Context, a Assignment) Outcome
}

// Readiness makes images. Build returns when the image is ready at a site or has
// failed; the trials that need it find out which.
type Readiness interface {
	Build(ctx context.Context, site int, key string)
}

// Health knows whether a site works. Recover returns when it does, with its Budget from
// then on, or with an error when the job is to go on without it.
type Health interface {
	Recover(ctx context.Context) (Resources, error)
}

// Options are a scheduler's limits and partners.
type Options struct {
	MaxTrials int            // at once, at least 1
	Pools     map[string]int // limits of pools
	Sites     []Site         // at least one
	Runner    Runner
	Readiness Readiness
}

// Run runs all trials of a job and returns when none is left, when no site is left
// that could take one, or when ctx ended and all that ran has stopped. It returns how
// many trials never started. When the last site is given up, what runs is cancelled.
func Run(ctx context.Context, o Options, trials []Trial) (unstarted int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l := &loop{
		opt: o, state: newState(o, trials, time.Now()), cancel: cancel,
		finished: make(chan completion), built: make(chan build), recovered: make(chan recovery), freed: make(chan int),
	}
	l.waits = newWaits(o.Sites)
	stop := l.listen()
	err = l.run(ctx)
	stop()
	for k := range l.waits {
		l.waits[k].tell(0)
	}
	cancel(nil)
	for range l.waiting { // for sites that nobody needs any more
		<-l.recovered
	}
	for i := range l.state.trials {
		if l.state.trials[i].tries == 0 {
			unstarted++
		}
	}
	return unstarted, err
}

// loop is the owner of the state. Only its goroutine touches it.
type loop struct {
	opt       Options
	state     *state
	cancel    context.CancelCauseFunc
	active    int // builds and tries that will report
	waiting   int // recoveries that will
	finished  chan completion
	built     chan build
	recovered chan recovery
	freed     chan int // sites where a lease may be had again
	err       error
	waits     []toldWaits
	lost      []error // why sites were given up
}

type completion struct {
	trial, site int
	outcome     Outcome
}

type recovery struct {
	site   int
	budget Resources
	err    error
}

// listen hears of freed leases until it is stopped.
func (l *loop) listen() (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	for k := range l.opt.Sites {
		freed := l.opt.Sites[k].Shares.Freed()
		if freed == nil {
			continue
		}
		wg.Go(func() {
			for {
				select {
				case <-freed:
				case <-done:
					return
				}
				select {
				case l.freed <- k:
				case <-done:
					return
				}
			}
		})
	}
	return func() {
		close(done)
		wg.Wait()
	}
}

func (l *loop) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	ended := ctx.Done()
	for k := range l.opt.Sites {
		if l.opt.Sites[k].Down {
			l.doubt(ctx, k, "")
		}
	}
	for {
		now := time.Now()
		l.state.wake(now)
		w := place(l.state, now)
		if l.start(ctx, w) {
			continue // what one site refused, another may take
		}
		if l.active == 0 && l.over(w) {
			return l.err
		}
		if wake := earliest(w.wake, l.tellWaits(now)); !wake.IsZero() {
			timer.Reset(time.Until(wake))
		}
		select {
		case c := <-l.finished:
			l.active--
			l.settle(ctx, c)
		case b := <-l.built:
			l.active--
			l.state.buildEnded(b.site, b.key, time.Now())
		case r := <-l.recovered:
			l.waiting--
			l.recover(ctx, r)
		case k := <-l.freed:
			l.state.sites[k].refused = nil
		case <-timer.C:
		case <-ended:
			l.state.stopped, ended = true, nil
		}
	}
}

// over reports whether nothing will happen any more while nothing is active: the job
// is stopped, all is done, or no site is left for what is not.
func (l *loop) over(w work) bool {
	if l.state.stopped || l.state.left == 0 {
		return true
	}
	if !w.wake.IsZero() || l.waiting > 0 || l.state.refusing() {
		return false
	}
	l.err = errors.Join(append([]error{l.err}, l.lost...)...)
	return true
}

// start begins what place decided. It reports whether a site refused something: what comes
// after that there is to be decided anew.
func (l *loop) start(ctx context.Context, w work) bool {
	for _, b := range w.builds {
		l.state.buildStarted(b.site, b.key)
		l.active++
		go func() {
			l.opt.Readiness.Build(ctx, b.site, b.key)
			l.built <- b
		}()
	}
	var refused []int
	for _, s := range w.starts {
		switch {
		case l.state.stopped:
			return false
		case slices.Contains(refused, s.site):
			continue
		case !l.startTry(ctx, s):
			refused = append(refused, s.site)
		}
	}
	return len(refused) > 0 && !l.state.stopped
}

// startTry takes the lease and starts. A refusal leaves the trial where it was.
func (l *loop) startTry(ctx context.Context, s start) bool {
	t := &l.state.trials[s.trial]
	release, ok, err := l.opt.Sites[s.site].Shares.Acquire(ctx, t.Name, t.Needs)
	if err != nil {
		l.state.stopped = true
		if ctx.Err() == nil {
			l.err = err
		}
		return false
	}
	if !ok {
		l.state.sites[s.site].refuse(t.Needs)
		return false
	}
	l.state.tryStarted(s.trial, s.site)
	a := Assignment{Trial: s.trial, Site: s.site, Try: t.tries, Moves: t.moves, Refusals: t.refusals,
		Waited: time.Since(t.queued), Images: t.images, Passed: s.passed, Others: l.state.others(s.trial, s.site)}
	l.active++
	go func() {
		outcome := l.opt.Runner.Run(ctx, a)
		Keep(outcome.Held, release)
		l.finished <- completion{s.trial, s.site, outcome}
	}()
	return true
}

func (l *loop) settle(ctx context.Context, c completion) {
	now := time.Now()
	if c.outcome.Doubt && !l.state.stopped {
		l.doubt(ctx, c.site, c.outcome.Why)
	}
	if c.outcome.Cool > 0 {
		l.state.cool(c.site, now.Add(c.outcome.Cool), c.outcome.Why)
	}
	switch {
	case l.state.stopped:
		l.state.tryEnded(c.trial)
	case c.outcome.Move:
		l.state.tryMoved(c.trial, c.outcome, now)
	case c.outcome.Retry:
		l.state.trySlept(c.trial, now.Add(c.outcome.Pause))
	default:
		l.state.tryEnded(c.trial)
	}
}

// doubt takes a site out until it is seen to work.
func (l *loop) doubt(ctx context.Context, k int, why string) {
	if !l.state.doubt(k, why) {
		return
	}
	l.waiting++
	go func() {
		budget, err := l.opt.Sites[k].Health.Recover(ctx)
		l.recovered <- recovery{k, budget, err}
	}()
}

// named is why a site was given up, with its name where the error does not begin with it.
func (l *loop) named(r recovery) error {
	name := l.opt.Sites[r.site].Name
	if text := r.err.Error(); len(l.opt.Sites) == 1 || strings.HasPrefix(text, name+":") || strings.HasPrefix(text, name+" ") {
		return r.err
	}
	return fmt.Errorf("provider %s: %w", name, r.err)
}

func (l *loop) recover(ctx context.Context, r recovery) {
	switch {
	case r.err == nil:
		l.state.recovered(r.site, r.budget)
		return
	case ctx.Err() != nil:
		l.state.stopped = true
		return
	}
	l.lost = append(l.lost, l.named(r))
	if !l.state.giveUp(r.site, r.err.Error()) && !l.state.stopped {
		l.state.stopped = true
		l.err = errors.Join(l.lost...)
		l.cancel(l.err)
	}
}
