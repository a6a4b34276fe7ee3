package runner

import (
	"context"
	"testing"
	"time"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/trials"
)

// A build's sandbox that stays keeps one lease, not those of the builds after it, and goes
// when another can be removed.
func TestOneSandboxOfABuildThatStaysKeepsOneLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		im := b.images()
		taken, free := 0, 0
		build := func(dockerfile string) {
			t.Helper()
			task := writeTask(t, map[string]string{"environment/Dockerfile": "FROM " + dockerfile + "\n"})
			env, err := im.Environment(task, trials.NewTrialConfig(trials.TaskConfig{}), 1)
			if err != nil {
				t.Fatal(err)
			}
			env.Slot = func(context.Context) (func(), error) {
				taken++
				return func() { im.OnFree(func() { free++ }) }, nil
			}
			hold, err := im.Get(t.Context(), env)
			if err != nil {
				t.Fatal(err)
			}
			hold.Release()
		}
		b.world.Inject(fake.Fault{Op: fake.OpDestroy, Effect: fake.Refuse, Kind: providers.KindRateLimited})
		build("one")
		if taken != 1 || free != 0 {
			t.Fatalf("%d of %d leases came back while the sandbox stays", free, taken)
		}
		b.world.Heal()
		b.world.Inject(fake.Fault{Op: fake.OpDestroy, Match: "fake-1", Effect: fake.Refuse, Kind: providers.KindRateLimited})
		build("two")
		build("three")
		if taken != 3 || free != 2 || b.world.Left() != 1 {
			t.Errorf("%d of %d leases came back, %d sandboxes are left; want 2 and 1", free, taken, b.world.Left())
		}
		b.world.Heal()
		build("four")
		if taken != 4 || free != 4 || b.world.Left() != 0 {
			t.Errorf("%d of %d leases came back, %d sandboxes are left; want all and none", free, taken, b.world.Left())
		}
	})
}

// Who waits for a lease that such a sandbox keeps gets it soon after the provider does
// its work again.
func TestSandboxOfABuildGoesForWhoWaitsForItsLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		im := b.images()
		env, err := im.Environment(writeTask(t, nil), trials.NewTrialConfig(trials.TaskConfig{}), 1)
		if err != nil {
			t.Fatal(err)
		}
		freed := make(chan struct{})
		env.Slot = func(context.Context) (func(), error) { return func() { im.OnFree(func() { close(freed) }) }, nil }
		b.world.Inject(fake.Fault{Op: fake.OpDestroy, Effect: fake.Refuse, Kind: providers.KindUnavailable})
		hold, err := im.Get(t.Context(), env)
		if err != nil {
			t.Fatal(err)
		}
		hold.Release()
		begun := time.Now()
		time.AfterFunc(time.Minute-time.Second, b.world.Heal)
		stop := im.KeepRemoving(t.Context())
		<-freed
		stop()
		if took := time.Since(begun); took != time.Minute || b.world.Left() != 0 {
			t.Errorf("after %s, %d left; want a minute and none", took, b.world.Left())
		}
	})
}
