package runner

import (
	"context"
	"time"

	"harborgate/providers"
	"harborgate/trials"
)

// removeLimit bounds the removal of one sandbox. What is not gone by then is left
// to the next sweep, and reported.
const removeLimit = 60 * time.Second

// teardown hands what the try still has over for removal. It runs once, whatever
// happened, and does not care whether the try was cancelled. It waits only when
// too many removals are under way already.
func (x *run) teardown(ctx context.Context) {
	x.r.removals <- struct{}{}
	x.r.removing.Go(func() {
		defer func() { <-x.r.removals }()
		x.removeAll(ctx)
	})
}

func (x *run) removeAll(ctx context.Context) {
	if x.sandbox != nil && !x.removed {
		x.remove(ctx, x.sandbox)
	}
	if x.verifierSandbox != nil {
		x.remove(ctx, x.verifierSandbox)
	}
	for _, h := range x.holds {
		h.Release()
	}
	if err := x.t.Sink.Close(); err != nil {
		x.r.opt.Logger.Error("trial log could not be closed", "trial", x.t.Config.TrialName, "error", err)
	}
}

// remove destroys one sandbox. How that ends is an event and the job's business;
// the result is already on disk.
func (x *run) remove(ctx context.Context, s providers.Sandbox) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
	defer cancel()
	begun := time.Now()
	err := s.Destroy(ctx)
	data := map[string]any{"sandbox": s.ID(), "dur_ms": time.Since(begun).Milliseconds()}
	if err != nil {
		data["error"] = err.Error()
		x.log.Error("sandbox could not be removed, `harbor cleanup` will", "sandbox", s.ID(), "error", err)
	}
	x.emit(trials.EventRemoved, data)
	if x.r.opt.OnRemoved != nil {
		x.r.opt.OnRemoved(x.t.Config.TrialName, s.ID(), err)
	}
}
