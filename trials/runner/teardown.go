package runner

import (
	"context"
	"sync"
	"time"

	"harborgate/providers"
	"harborgate/trials"
)

const (
	// removeLimit bounds the removal of one sandbox. What is not gone by then is
	// tried again, at last when the job ends, and then reported and left to the
	// next sweep.
	removeLimit = 60 * time.Second
	// hurry bounds it once the try was cancelled: somebody waits.
	hurry = 10 * time.Second
	// graceful is how long a cancelled try may put its things in order before its
	// sandboxes are taken from it.
	graceful = 10 * time.Second
	// probeLimit is how long a provider may take to show that it answers at all,
	// once somebody waits for the end. Of one that does not, nothing is expected
	// any more: its sandboxes are taken at once, and deafHurry replaces hurry.
	probeLimit = 5 * time.Second
	deafHurry  = time.Second
	// mostAgain is how often a failed removal is tried again before the job ends.
	mostAgain = 3
)

// removals are the sandboxes of a runner that are on their way out.
type removals struct {
	slots chan struct{} // holds one for each removal under way
	under sync.WaitGroup

	probe sync.Once

	mu     sync.Mutex // guards failed and deaf
	failed []removal
	deaf   bool
}

// removal is one that failed.
type removal struct {
	run     *run
	ctx     context.Context // of the try, for values and for its end
	sandbox providers.Sandbox
	times   int
	err     error
}

// Wait returns when no removal is under way any more, after a last attempt at
// those that failed. Call it after the last Run.
func (r *Runner) Wait() {
	r.removals.under.Wait()
	r.again(func(f removal) { f.run.told(f.sandbox, f.err) })
}

// RemoveLeft tries removals again that failed. Call it when the provider does its work
// again: places that wait for them are free then.
func (r *Runner) RemoveLeft() { r.again(r.removals.put) }

// again is one more attempt at all removals that failed.
func (r *Runner) again(failed func(removal)) {
	var all sync.WaitGroup
	for _, f := range r.removals.take(0) {
		all.Go(func() {
			if f.err = f.run.destroy(f.ctx, f.sandbox); f.err != nil {
				failed(f)
			} else {
				f.run.unstick()
			}
		})
	}
	all.Wait()
}

// take hands out what failed, with a limit only what failed less often.
func (m *removals) take(limit int) []removal {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out, kept []removal
	for _, f := range m.failed {
		if limit > 0 && f.times >= limit {
			kept = append(kept, f)
		} else {
			out = append(out, f)
		}
	}
	m.failed = kept
	return out
}

func (m *removals) put(f removal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f.times++
	m.failed = append(m.failed, f)
}

func (m *removals) hurry() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.deaf {
		return deafHurry
	}
	return hurry
}

// answers asks the provider whether it does its work, once for all tries that
// were cancelled together.
func (r *Runner) answers(ctx context.Context) bool {
	m := &r.removals
	m.probe.Do(func() {
		ctx, cancel := providers.Cleanup(ctx, probeLimit, probeLimit)
		defer cancel()
		err := r.opt.Provider.Check(ctx)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.deaf = err != nil && !providers.Is(err, providers.KindRateLimited); m.deaf {
			r.opt.Logger.Error("the provider does not answer, what it runs is left: the next start or `harbor cleanup` removes it", "error", err)
		}
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.deaf
}

// teardown hands what the try still has over for removal. It runs once, whatever
// happened, and does not care whether the try was cancelled. Unless it has to await
// the removal, it waits only when too many are under way already.
func (x *run) teardown(ctx context.Context) {
	if x.r.opt.AwaitRemoval {
		x.removeAll(ctx)
		x.unstick()
		return
	}
	m := &x.r.removals
	m.slots <- struct{}{}
	m.under.Go(func() {
		defer func() { <-m.slots }()
		x.removeAll(ctx)
		x.unstick()
	})
}

// unstick counts what the try still has: itself, and each removal that failed.
func (x *run) unstick() {
	if x.stuck.Add(-1) == 0 && x.t.Gone != nil {
		x.t.Gone()
	}
}

func (x *run) removeAll(ctx context.Context) {
	if x.sandbox != nil && !x.removed {
		x.remove(ctx, x.sandbox)
	}
	if x.verifierSandbox != nil {
		x.remove(ctx, x.verifierSandbox)
	}
	x.cutter.cuts.Wait()
	for _, h := range x.holds {
		h.Release()
	}
	if err := x.t.Sink.Close(); err != nil {
		x.r.opt.Logger.Warn("trial log could not be closed", "trial", x.t.Config.TrialName, "error", err)
	}
}

// remove destroys one sandbox. How that ends is an event and the job's business;
// the result is already on disk. What failed before is tried again when one
// succeeds, because the provider does its work again then.
func (x *run) remove(ctx context.Context, s providers.Sandbox) {
	x.removal(ctx, s, x.destroy(ctx, s))
}

// removal is what follows when one has ended.
func (x *run) removal(ctx context.Context, s providers.Sandbox, err error) {
	if err != nil {
		x.stuck.Add(1)
		x.r.removals.put(removal{run: x, ctx: ctx, sandbox: s, err: err})
		return
	}
	for _, f := range x.r.removals.take(mostAgain) {
		if f.err = f.run.destroy(f.ctx, f.sandbox); f.err != nil {
			x.r.removals.put(f)
		} else {
			f.run.unstick()
		}
	}
}

// destroy is one attempt; its success is final.
func (x *run) destroy(ctx context.Context, s providers.Sandbox) error {
	out, cancel := providers.Cleanup(ctx, removeLimit, x.r.removals.hurry())
	defer cancel()
	begun := time.Now()
	err := s.Destroy(out)
	data := map[string]any{"sandbox": s.ID(), "dur_ms": time.Since(begun).Milliseconds()}
	if err != nil {
		data["error"] = err.Error()
	}
	x.emit(trials.EventRemoved, data)
	if err == nil {
		x.told(s, nil)
	}
	return err
}

// told passes on how the removal of a sandbox ended for good.
func (x *run) told(s providers.Sandbox, err error) {
	if err != nil {
		x.r.opt.Logger.Error("sandbox could not be removed, `harbor cleanup` will", "trial", x.t.Config.TrialName, "sandbox", s.ID(), "error", err)
	}
	if x.r.opt.OnRemoved != nil {
		x.r.opt.OnRemoved(x.t.Config.TrialName, s.ID(), err)
	}
}

// cutter takes the sandboxes from a try that was cancelled and does not come to
// its end, because its provider does not answer.
type cutter struct {
	cuts sync.WaitGroup
	// uncut has the try's values and outlives its end, until the cut.
	uncut context.Context
	cut   context.CancelFunc

	mu   sync.Mutex // guards live
	live []providers.Sandbox
}

// after begins to cut some time after ctx has ended, or when the provider turns
// out not to answer, unless the try is over by then, which end tells.
func (c *cutter) after(ctx context.Context, answers func(context.Context) bool) (end func()) {
	c.uncut, c.cut = context.WithCancel(context.WithoutCancel(ctx))
	over, done := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() { // no goroutine for each try that only waits
		defer close(done)
		if answers(ctx) {
			t := time.NewTimer(graceful)
			defer t.Stop()
			select {
			case <-t.C:
			case <-over:
				return
			}
		}
		c.all(ctx)
	})
	return func() {
		close(over)
		if !stop() {
			<-done
		}
		c.cut()
	}
}

func (c *cutter) all(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut()
	for _, s := range c.live {
		c.destroy(ctx, s)
	}
}

// add makes a sandbox one of the try's.
func (c *cutter) add(ctx context.Context, s providers.Sandbox) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live = append(c.live, s)
	if c.uncut.Err() != nil {
		c.destroy(ctx, s)
	}
}

// destroy ends what is under way in a sandbox, whether or not the provider
// answers. How the removal ends, teardown finds out.
func (c *cutter) destroy(ctx context.Context, s providers.Sandbox) {
	c.cuts.Go(func() {
		ctx, cancel := providers.Cleanup(ctx, deafHurry, deafHurry)
		defer cancel()
		_ = s.Destroy(ctx)
	})
}
