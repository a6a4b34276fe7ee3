package runner

import (
	"context"
	"errors"
	"time"

	"harborgate/providers"
	"harborgate/trials"
)

const (
	// longestVacating is how long the verifier's sandbox waits for the agent's to go, where
	// one that stays takes the room of another: a lease is not kept for longer either.
	longestVacating = 5 * time.Minute
	// firstRefusal and longestRefusal are pauses before what a provider refused, or could
	// not do, is asked of it again, each twice as long as the one before.
	firstRefusal, longestRefusal = time.Second, time.Minute
)

// replaceSandbox swaps the agent's sandbox for the verifier's: the first is gone
// before the second starts, and declared artifacts are all that passes.
func (x *run) replaceSandbox(ctx context.Context) (s providers.Sandbox, bundled bool, f *trials.Failure) {
	if x.sandbox != nil { // there is none when a trial is graded again
		x.vacate(ctx)
	}
	begun := time.Now()
	ctx, cancel := withLimit(ctx, trials.PhaseEnvironmentSetup, x.limits.EnvironmentStart)
	defer cancel()
	err := func() (err error) {
		src := x.t.Task.VerifierSource(nil)
		bundled = src.Bundled
		if s, err = x.createForVerdict(ctx, x.spec(x.verifierImage, src.Environment, "verifier")); err != nil {
			return err
		}
		x.verifierSandbox = s
		if err := openDirs(ctx, s, verifierDir, artifactsDir); err != nil {
			return err
		}
		for _, a := range x.artifacts {
			if err := x.returnArtifact(ctx, s, a); err != nil {
				return during(trials.CauseUpload, err)
			}
		}
		return nil
	}()
	return s, bundled, x.explain(ctx, trials.PhaseEnvironmentSetup, time.Since(begun), err)
}

// vacate removes the agent's sandbox, in whose place the verifier's comes.
func (x *run) vacate(ctx context.Context) {
	x.removed = true
	err := x.destroy(ctx, x.sandbox)
	last := time.Now().Add(longestVacating)
	for pause := firstRefusal; err != nil && x.r.opt.AwaitRemoval && time.Now().Before(last); pause = min(2*pause, longestRefusal) {
		if !sleep(ctx, pause) {
			break
		}
		err = x.destroy(ctx, x.sandbox)
	}
	x.removal(ctx, x.sandbox, err)
}

// createForVerdict makes a sandbox without which an agent's work would be lost: a provider
// that refuses it, so that there is none, is asked again as long as the limit allows.
func (x *run) createForVerdict(ctx context.Context, spec providers.Spec) (providers.Sandbox, error) {
	for pause := firstRefusal; ; pause = min(2*pause, longestRefusal) {
		s, err := x.create(ctx, spec)
		wait, refused := refusal(err)
		wait = max(wait, pause)
		end, bounded := ctx.Deadline()
		if !refused || x.sandbox == nil || bounded && time.Until(end) <= wait {
			return s, err
		}
		x.log.Info("the verifier's sandbox is asked for again", "in", wait, "error", err)
		if !sleep(ctx, wait) {
			return nil, ctx.Err()
		}
	}
}

// refusal reports whether a provider made no sandbox because it had no room or was called
// too often, and how long it wants to be left alone, 0 if it did not say.
func refusal(err error) (wait time.Duration, refused bool) {
	var e *providers.Error
	if !errors.As(err, &e) || e.Kind != providers.KindExhausted && e.Kind != providers.KindRateLimited {
		return 0, false
	}
	return e.RetryAfter, true
}

// sleep reports whether ctx outlived a pause.
func sleep(ctx context.Context, pause time.Duration) bool {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
