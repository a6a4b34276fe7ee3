package fake_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/providers/fake/plane"
	"harborgate/providers/providertest"
)

func planeOf(t *testing.T, c plane.Config) *plane.Plane {
	t.Helper()
	p, err := plane.New(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func countersOf(t *testing.T, p *plane.Plane) plane.Counters {
	t.Helper()
	c, err := p.Counters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A simulated provider is a provider like any other.
func TestConformanceWithControlPlane(t *testing.T) {
	t.Parallel()
	w := fake.NewWorld()
	h := harness(t, w)
	control := planeOf(t, plane.Config{})
	h.Open = func() (providers.Provider, error) {
		return fake.New(fake.Options{World: w, Control: control}), nil
	}
	providertest.Run(t, h)
	t.Cleanup(func() {
		if c := countersOf(t, control); c.InUse.Sandboxes != 0 {
			t.Errorf("%d sandboxes are left at the control plane", c.InUse.Sandboxes)
		}
	})
}

// named makes a spec that is told apart from others by n.
func named(t *testing.T, n int) providers.Spec {
	t.Helper()
	s := spec(t)
	s.Name = providers.Name(t.Name(), fmt.Sprint(n))
	return s
}

func TestControlPlaneRefusesAndTakesItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		control := planeOf(t, plane.Config{
			Limits: plane.Size{MemoryMiB: 1000}, Rates: map[plane.Op]plane.Rate{plane.OpRead: {PerMin: 1}},
			Latency: map[plane.Op]plane.Latency{plane.OpCreate: {Sec: 3}, plane.OpDelete: {Sec: 2}, plane.OpExec: {Sec: 1}},
		})
		p := fake.New(fake.Options{Control: control})
		begun := time.Now()
		big := named(t, 1)
		big.Resources.MemoryMiB = 600
		sb := create(t, p, big)
		if _, err := sh(t.Context(), sb, "true"); err != nil || time.Since(begun) != 4*time.Second {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		other := named(t, 2)
		other.Resources.MemoryMiB = 600
		if _, err := p.Create(t.Context(), other); !providers.Is(err, providers.KindExhausted) {
			t.Errorf("beside one that has 600 of 1000: %v", err)
		}
		if err := p.Check(t.Context()); err != nil {
			t.Error(err)
		}
		var e *providers.Error
		if _, err := p.List(t.Context(), providers.Selector{}); !errors.As(err, &e) || e.Kind != providers.KindRateLimited || e.RetryAfter != time.Minute {
			t.Errorf("two reads in a minute that has one: %v", err)
		}
		begun = time.Now()
		if err := sb.Destroy(t.Context()); err != nil || time.Since(begun) != 2*time.Second {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		if c := countersOf(t, control); c.InUse != (plane.Size{}) || c.Deleted != 1 {
			t.Errorf("%+v", c)
		}
	})
}

// Who gives up on a create leaves nothing.
func TestCreateThatNobodyWaitsForLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		control := planeOf(t, plane.Config{Latency: map[plane.Op]plane.Latency{plane.OpCreate: {Sec: 60}}})
		p := fake.New(fake.Options{Control: control})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Create(ctx, named(t, 1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if c := countersOf(t, control); c.InUse.Sandboxes != 0 || c.Deleted != 1 {
			t.Errorf("%+v", c)
		}
	})
}

// What a process had that is dead is on the list, with its labels, until somebody
// destroys it.
func TestSandboxesOutliveTheirProcess(t *testing.T) {
	t.Parallel()
	control := planeOf(t, plane.Config{Limits: plane.Size{Sandboxes: 1}})
	dead, alive := fake.New(fake.Options{Control: control}), fake.New(fake.Options{Control: control})
	s := named(t, 1)
	s.Labels.Owner = "dead"
	create(t, dead, s)
	if _, err := alive.Create(t.Context(), named(t, 2)); !providers.Is(err, providers.KindExhausted) {
		t.Errorf("what is left of the other counts no more: %v", err)
	}
	found, err := alive.List(t.Context(), providers.Selector{Labels: map[string]string{providers.LabelOwner: "dead"}})
	if err != nil || len(found) != 1 || found[0].Name != s.Name {
		t.Fatalf("%v, %v", found, err)
	}
	if err := alive.Destroy(t.Context(), found[0].ID); err != nil {
		t.Fatal(err)
	}
	create(t, alive, named(t, 3))
}

func TestLostSandboxIsDead(t *testing.T) {
	t.Parallel()
	control := planeOf(t, plane.Config{})
	p := fake.New(fake.Options{Control: control})
	sb := create(t, p, named(t, 1))
	if _, err := sh(t.Context(), sb, "true"); err != nil {
		t.Fatal(err)
	}
	if err := control.Inject(t.Context(), plane.Fault{Effect: plane.Lose, Op: plane.OpExec, Every: 1}); err != nil {
		t.Fatal(err)
	}
	_, err := sh(t.Context(), sb, "true")
	if _, died := providers.DeathOf(err); !died || !providers.Is(err, providers.KindUnavailable) {
		t.Errorf("in a lost sandbox: %v", err)
	}
	if err := sb.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

// Sandboxes that nobody uses cost little, so that ten thousand can be there.
func TestManySandboxesAreLight(t *testing.T) {
	const many, most = 10_000, 10 << 10
	control := planeOf(t, plane.Config{})
	p := fake.New(fake.Options{Control: control})
	create(t, p, named(t, 0)) // what all share is there
	memory := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc + m.StackInuse)
	}
	before := memory()
	kept := make([]providers.Sandbox, 0, many)
	for i := range many {
		kept = append(kept, create(t, p, named(t, i+1)))
	}
	each := (memory() - before) / many
	t.Logf("%d bytes each", each)
	if each > most {
		t.Errorf("a sandbox takes %d bytes, want at most %d", each, most)
	}
	if _, err := sh(t.Context(), kept[many-1], "test -d /etc"); err != nil {
		t.Error(err)
	}
}
