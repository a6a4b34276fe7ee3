// Package scheduler decides which trial runs when. It knows slots, images that
// must be there first, the host's CPU and memory, pauses before a retry, and
// nothing of what a trial does.
//
// place is a pure function of the state; one goroutine owns the state and waits
// for a completion, a build, a freed lease, a timer or the end of the context.
// Nothing is polled. A trial that waits for an image or for its next try holds
// no slot.
package scheduler

import (
	"context"
	"slices"
	"time"
)

// Resources are what a trial declares, or what a host has. Zero is not declared,
// or no limit.
type Resources struct {
	CPUs      float64
	MemoryMiB int64
}

// Trial is one trial of a job, as far as placement is concerned.
type Trial struct {
	Name   string
	Builds []string // keys of images that must be ready before it starts
	Needs  Resources
	Pool   string // trials of a pool share its limit, see Options.Pools
}

// Assignment is one try to run.
type Assignment struct {
	Trial  int           // index in the job
	Try    int           // from 1
	Waited time.Duration // for a slot
	Images time.Duration // that it had to wait for its images before that
}

// Outcome is how a try ended.
type Outcome struct {
	// Retry asks for another try, after the pause. The runner's owner decides,
	// because it knows the policy.
	Retry bool
	Pause time.Duration
}

// Runner executes tries. It returns when the slot is free again: the sandbox is
// gone, or its removal is somebody else's business.
type Runner interface {
	Run(ctx context.Context, a Assignment) Outcome
}

// Readiness makes images. Build returns when the image is ready or has failed;
// the trials that need it find out which.
type Readiness interface {
	Build(ctx context.Context, key string)
}

// Shares hands out the right to have one more sandbox, with what it needs, across
// whatever else shares the provider. Acquire answers at once; after a refusal, Freed tells
// when it is worth asking again.
type Shares interface {
	Acquire(ctx context.Context, trial string, needs Resources) (release func(), ok bool, err error)
	Freed() <-chan struct{}
}

// Options are a scheduler's limits and partners.
type Options struct {
	MaxTrials int // at once, at least 1
	MaxBuilds int // at once, at least 1
	Budget    Resources
	Pools     map[string]int // limits of pools
	Runner    Runner
	Readiness Readiness
	Shares    Shares
}

// Run runs all trials of a job and returns when none is left, or when ctx ended
// and all that ran has stopped. It returns how many trials never started.
func Run(ctx context.Context, o Options, trials []Trial) (unstarted int, err error) {
	l := &loop{opt: o, finished: make(chan completion), built: make(chan string), state: newState(o, trials, time.Now())}
	err = l.run(ctx)
	for i := range l.state.trials {
		if l.state.trials[i].tries == 0 {
			unstarted++
		}
	}
	return unstarted, err
}

// loop is the owner of the state. Only its goroutine touches it.
type loop struct {
	opt      Options
	state    *state
	active   int // goroutines that will report
	finished chan completion
	built    chan string
	err      error
}

type completion struct {
	trial   int
	outcome Outcome
}

func (l *loop) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	ended := ctx.Done()
	for {
		now := time.Now()
		l.state.wake(now)
		w := place(l.state, now)
		l.start(ctx, w)
		if l.active == 0 && (l.state.stopped || l.state.left == 0) {
			return l.err
		}
		if !w.wake.IsZero() {
			timer.Reset(time.Until(w.wake))
		}
		select {
		case c := <-l.finished:
			l.active--
			l.settle(c)
		case key := <-l.built:
			l.active--
			l.state.buildEnded(key, time.Now())
		case <-l.opt.Shares.Freed():
			l.state.refused = false
		case <-timer.C:
		case <-ended:
			l.state.stopped, ended = true, nil
		}
	}
}

func (l *loop) start(ctx context.Context, w work) {
	for _, key := range slices.Clone(w.builds) {
		l.state.buildStarted(key)
		l.active++
		go func() {
			l.opt.Readiness.Build(ctx, key)
			l.built <- key
		}()
	}
	for _, i := range w.tries {
		if !l.startTry(ctx, i) {
			return
		}
	}
}

// startTry takes the lease and starts. A refusal leaves the trial where it was.
func (l *loop) startTry(ctx context.Context, i int) bool {
	t := &l.state.trials[i]
	release, ok, err := l.opt.Shares.Acquire(ctx, t.Name, t.Needs)
	if err != nil {
		l.state.stopped = true
		if ctx.Err() == nil {
			l.err = err
		}
		return false
	}
	if !ok {
		l.state.refused = true
		return false
	}
	l.state.tryStarted(i)
	a := Assignment{Trial: i, Try: t.tries, Waited: time.Since(t.queued), Images: t.images}
	l.active++
	go func() {
		outcome := l.opt.Runner.Run(ctx, a)
		release()
		l.finished <- completion{i, outcome}
	}()
	return true
}

func (l *loop) settle(c completion) {
	if c.outcome.Retry && !l.state.stopped {
		l.state.trySlept(c.trial, time.Now().Add(c.outcome.Pause))
	} else {
		l.state.tryEnded(c.trial)
	}
}
