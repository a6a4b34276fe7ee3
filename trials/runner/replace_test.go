package runner

import (
	"testing"
	"time"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/trials"
)

// What refuses the verifier's sandbox and made none is asked again, as long as the limit
// of 60 seconds allows. The agent has worked by then, once.
func TestRefusedVerifierSandboxDoesNotCostTheAgentsWork(t *testing.T) {
	for name, c := range map[string]struct {
		kind   providers.Kind
		after  time.Duration
		times  int
		graded bool
		least  time.Duration
	}{
		"too many calls":         {providers.KindRateLimited, 30 * time.Second, 1, true, 30 * time.Second},
		"no room for a while":    {providers.KindExhausted, 0, 3, true, 7 * time.Second},
		"no room":                {providers.KindExhausted, 0, 100, false, 31 * time.Second},
		"a pause past the limit": {providers.KindRateLimited, time.Hour, 1, false, 0},
		"nobody knows of it":     {providers.KindUnavailable, 0, 1, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, separateTask(checkSeparate))
				for n := range c.times { // the first create is the agent's
					r.world.Inject(fake.Fault{Op: fake.OpCreate, Nth: 2 + n, Effect: fake.Refuse, Kind: c.kind, RetryAfter: c.after})
				}
				begun := time.Now()
				res := r.run(t.Context())
				took := time.Since(begun)
				if c.graded {
					want(t, res, "1.0", "")
				} else {
					wantFailure(t, res, trials.PhaseEnvironmentSetup, trials.CauseProvider, trials.BlameInfrastructure)
				}
				if took < c.least || took >= time.Minute {
					t.Errorf("it took %s, want %s at least and less than the limit", took, c.least)
				}
			})
		})
	}
}

// Where room is counted, the verifier's sandbox waits until the agent's is gone, but not
// for ever.
func TestVerifierWaitsForTheRoomOfTheAgent(t *testing.T) {
	for name, c := range map[string]struct {
		counted bool
		heals   time.Duration
		want    int // sandboxes when the tests run
	}{
		"counted":               {true, 2 * time.Minute, 1},
		"counted, never":        {true, time.Hour, 2},
		"room for all there is": {false, 2 * time.Minute, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, separateTask(checkSeparate))
				r.options = func(o *Options) { o.AwaitRemoval = c.counted }
				r.world.Inject(fake.Fault{Op: fake.OpDestroy, Match: "fake-1", Effect: fake.Refuse, Kind: providers.KindRateLimited})
				heal := time.AfterFunc(c.heals, r.world.Heal)
				defer heal.Stop()
				left := 0
				r.events.then = func(e trials.Event) {
					if word(e) == "phase-start verifier" {
						left = r.world.Left()
						r.world.Heal() // for the rig
					}
				}
				want(t, r.run(t.Context()), "1.0", "")
				if left != c.want {
					t.Errorf("%d sandboxes when the tests ran, want %d", left, c.want)
				}
			})
		})
	}
}
