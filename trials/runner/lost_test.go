package runner

import (
	"testing"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/trials"
)

// A Create of a build whose answer is lost leaves a sandbox that nobody knows of: it goes
// when its provider answers, and the next try of the build is not in its way.
func TestLostSandboxOfABuildIsFoundAndInNobodysWay(t *testing.T) {
	t.Parallel()
	lose := fake.Fault{Op: fake.OpCreate, Nth: 1, Effect: fake.Lose, Kind: providers.KindUnavailable}
	for what, c := range map[string]struct {
		faults []fake.Fault
		left   int
	}{
		"the provider answers again at once": {[]fake.Fault{lose}, 0},
		"it is away for a while":             {[]fake.Fault{lose, {Op: fake.OpList, Effect: fake.Refuse, Kind: providers.KindUnavailable}}, 1},
		"nothing was made":                   {[]fake.Fault{{Op: fake.OpCreate, Nth: 1, Effect: fake.Refuse, Kind: providers.KindUnavailable}}, 0},
		"the name was taken":                 {[]fake.Fault{{Op: fake.OpCreate, Nth: 1, Effect: fake.Refuse, Kind: providers.KindAlreadyExists}}, 0},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				b := newBench(t)
				im := b.images()
				env, err := im.Environment(writeTask(t, nil), trials.NewTrialConfig(trials.TaskConfig{}), 1)
				if err != nil {
					t.Fatal(err)
				}
				b.world.Inject(c.faults...)
				if _, err := im.Get(t.Context(), env); err == nil || b.world.Left() != c.left {
					t.Fatalf("%v, %d left, want %d", err, b.world.Left(), c.left)
				}
				hold, err := im.Get(t.Context(), env)
				if err != nil {
					t.Fatalf("the same build again: %v", err)
				}
				hold.Release()
				b.world.Heal()
				if stay := im.RemoveLeft(t.Context()); len(stay) != 0 || b.world.Left() != 0 {
					t.Errorf("%v stay, %d left", stay, b.world.Left())
				}
			})
		})
	}
}
