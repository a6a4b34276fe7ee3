package runner

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/trials"
	"harborgate/trials/results"
)

func TestTeardownHappensOnceAlsoWhenItFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.world.Inject(fake.Fault{Op: fake.OpDestroy, Effect: fake.Lose, Kind: providers.KindUnavailable})
		res := r.run(t.Context())
		want(t, res, "1.0", "")
		if len(r.removed) != 1 || !strings.Contains(r.removed[0], "injected fault") {
			t.Errorf("removals: %q", r.removed)
		}
	})
}

// TestB005RemovalThatHangsIsBoundedAndTriedAgain: what was not gone in time goes at
// the end of the job.
func TestB005RemovalThatHangsIsBoundedAndTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.world.Inject(fake.Fault{Op: fake.OpDestroy, Nth: 1, Hang: true})
		var left []int
		r.events.then = func(e trials.Event) {
			if e.Type == trials.EventRemoved {
				left = append(left, r.world.Left())
			}
		}
		begun := time.Now()
		want(t, r.run(t.Context()), "1.0", "")
		if took := time.Since(begun); took != removeLimit {
			t.Errorf("took %s, want %s", took, removeLimit)
		}
		if !slices.Equal(left, []int{1, 0}) || !slices.Equal(r.removed, []string{"trial fake-1"}) {
			t.Errorf("left %v at each removal, %q removed", left, r.removed)
		}
	})
}

// A try that awaits the removal of its sandbox ends after it; another, before.
func TestTryEndsWhenItsSandboxIsGone(t *testing.T) {
	for name, await := range map[string]bool{"awaited": true, "not awaited": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.options = func(o *Options) { o.AwaitRemoval = await }
				want(t, r.run(t.Context()), "1.0", "")
				sink, err := results.NewTrial(r.dir, 2, results.DefaultLimits())
				if err != nil {
					t.Fatal(err)
				}
				r.try.Sink, r.try.Number, r.try.Lock = sink, 2, &trials.TrialLock{}
				r.world.Inject(fake.Fault{Op: fake.OpDestroy, Delay: 5 * time.Second})
				r.runner.Run(t.Context(), &r.try)
				if gone := r.world.Left() == 0; gone != await {
					t.Errorf("it is gone: %v", gone)
				}
				r.runner.Wait()
			})
		})
	}
}

// TestB005RemovalThatAlwaysFailsIsReportedOnce with every attempt in the events.
func TestB005RemovalThatAlwaysFailsIsReportedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.world.Inject(fake.Fault{Op: fake.OpDestroy, Effect: fake.Refuse, Kind: providers.KindInternal})
		attempts := 0
		r.events.then = func(e trials.Event) {
			if e.Type == trials.EventRemoved {
				attempts++
			}
			if attempts == 2 {
				r.world.Clear() // for the rig
			}
		}
		res := r.run(t.Context())
		want(t, res, "1.0", "")
		if !res.RewardValid || attempts != 2 {
			t.Errorf("reward valid %v after %d attempts", res.RewardValid, attempts)
		}
		if len(r.removed) != 1 || !strings.Contains(r.removed[0], "injected fault") {
			t.Errorf("removals: %q", r.removed)
		}
	})
}

func TestCancelledTryDoesNotWaitForAProviderThatIsDeaf(t *testing.T) {
	for name, op := range map[string]fake.Op{"exec": fake.OpExec, "download": fake.OpDownload, "create": fake.OpCreate} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, nil).command("sleep 30")
				r.world.Inject(fake.Fault{Op: op, Match: map[fake.Op]string{fake.OpExec: "sleep 30"}[op], Hang: true},
					fake.Fault{Op: fake.OpDestroy, Hang: true}, fake.Fault{Op: fake.OpCheck, Hang: true})
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(10*time.Second, cancel)
				r.events.then = func(e trials.Event) {
					if e.Type == trials.EventRemoved {
						r.world.Heal() // for the rig: the last attempt works
					}
				}
				begun := time.Now()
				res := r.run(ctx)
				want(t, res, "null", trials.ExcCancelled)
				if took := time.Since(begun); took > 10*time.Second+probeLimit+2*deafHurry {
					t.Errorf("it took %s", took-10*time.Second)
				}
			})
		})
	}
}

// A try's moments are those of its beginning and of what passed since, so they stand
// in order and add up, whatever somebody does to the clock meanwhile.
func TestTimesOfATryAddUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		res := newRig(t, nil).command("sleep 30").run(t.Context())
		at := res.StartedAt.Time
		for _, p := range []*trials.Timing{res.EnvironmentSetup, res.AgentSetup, res.AgentExecution, res.Verifier} {
			if p.StartedAt.Before(at) || p.FinishedAt.Before(p.StartedAt.Time) {
				t.Errorf("%v to %v begins before %v", p.StartedAt, p.FinishedAt, at)
			}
			at = p.FinishedAt.Time
		}
		if took := res.AgentExecution.Duration(); took != 30*time.Second || res.FinishedAt.Before(at) {
			t.Errorf("the agent took %s, the end is at %v", took, res.FinishedAt)
		}
	})
}

// The places of sandboxes that could not be removed are free when they are, and a
// provider that is there again is asked at once.
func TestPlaceIsFreeWhenTheSandboxIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.options = func(o *Options) { o.AwaitRemoval = true }
		gone := 0
		r.try.Gone = func() { gone++ }
		want(t, r.run(t.Context()), "1.0", "")
		if gone != 1 {
			t.Errorf("told %d times", gone)
		}
		sink, err := results.NewTrial(r.dir, 2, results.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		r.try.Sink, r.try.Number, r.try.Lock = sink, 2, &trials.TrialLock{}
		r.world.Inject(fake.Fault{Op: fake.OpDestroy, Nth: 1, Effect: fake.Refuse, Kind: providers.KindUnavailable})
		r.runner.Run(t.Context(), &r.try)
		if gone != 1 || r.world.Left() != 1 {
			t.Errorf("told %d times, %d left", gone, r.world.Left())
		}
		r.runner.RemoveLeft()
		if gone != 2 || r.world.Left() != 0 {
			t.Errorf("told %d times, %d left", gone, r.world.Left())
		}
		r.runner.Wait()
	})
}

// A provider that was called too often is not deaf: a cancelled try puts its things in
// order first.
func TestPauseDoesNotCutACancelledTry(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil).command("sleep 30")
		r.world.Inject(fake.Fault{Op: fake.OpExec, Match: "sleep 30", Hang: true},
			fake.Fault{Op: fake.OpDownload, Delay: 5 * time.Second},
			fake.Fault{Op: fake.OpCheck, Effect: fake.Refuse, Kind: providers.KindRateLimited, RetryAfter: time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, cancel)
		begun := time.Now()
		want(t, r.run(ctx), "null", trials.ExcCancelled)
		if took := time.Since(begun); took < 15*time.Second {
			t.Errorf("it took %s: nothing was collected", took-10*time.Second)
		}
	})
}
