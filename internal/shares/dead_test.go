package shares

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// leaveDead has a process that no longer runs hold a lease.
func leaveDead(t *testing.T, p *Pool) {
	t.Helper()
	dead := identity{pid: 1 << 22, start: fmt.Sprint(time.Now().UnixNano()), boot: boot()}
	err := p.change(func(a *account, now int64) bool {
		return a.acquire(fmt.Sprintf("%d-%s-%s-00000000", dead.pid, dead.start, dead.boot), "", Need{Sandboxes: 1}, Need{}, now) == ""
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What a dead process left at the provider counts until it is swept.
func TestShareOfTheDeadComesBackAfterTheSweep(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	o := register(t, state)
	swept, goOn := make(chan struct{}), make(chan struct{})
	p := open(t, o, Need{Sandboxes: 1}, func(context.Context) error {
		close(swept)
		<-goOn
		return nil
	})
	leaveDead(t, p)
	if _, ok, _ := p.Acquire(t.Context(), Need{}); ok {
		t.Fatal("what the dead one left is not there")
	}
	<-swept
	if _, ok, _ := p.Acquire(t.Context(), Need{}); ok {
		t.Fatal("it is used before the sweep has ended")
	}
	close(goOn)
	await(t, "the share of the dead", func() bool {
		_, ok, _ := p.Acquire(t.Context(), Need{})
		return ok
	})
}

// A provider that is away lets nothing be removed: what is left counts until it is back.
func TestShareOfTheDeadStaysWhileItCannotBeRemoved(t *testing.T) {
	t.Parallel()
	swept, answer := make(chan struct{}), make(chan error)
	p := open(t, register(t, t.TempDir()), Need{Sandboxes: 1}, func(context.Context) error {
		swept <- struct{}{}
		return <-answer
	})
	leaveDead(t, p)
	for range 2 {
		if _, ok, _ := p.Acquire(t.Context(), Need{}); ok {
			t.Fatal("what the dead one left is still there")
		}
		<-swept
		answer <- errors.New("the provider is away")
	}
	<-swept
	answer <- nil
	await(t, "the share of the dead", func() bool {
		_, ok, _ := p.Acquire(t.Context(), Need{})
		return ok
	})
}

// Whoever sweeps gives back what the dead had, although nobody asks for a lease.
func TestShareOfTheDeadComesBackWithASweepOfAnotherKind(t *testing.T) {
	t.Parallel()
	o := register(t, t.TempDir())
	p := open(t, o, Need{}, nil)
	leaveDead(t, p)
	used := func() int {
		all, err := o.Standings()
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		return all[0].Use.Sandboxes
	}
	away := errors.New("the provider is away")
	if err := p.Sweep(func() error { return away }); !errors.Is(err, away) || used() != 1 {
		t.Errorf("after a sweep that failed %d count, %v", used(), err)
	}
	err := p.Sweep(func() error {
		leaveDead(t, p) // what it had may be there since the sweep looked
		return nil
	})
	if err != nil || used() != 1 {
		t.Errorf("%d count after a sweep, want the one that died meanwhile: %v", used(), err)
	}
}

// A process that ends and leaves a sandbox leaves its lease, too, and nothing else.
func TestLeaseThatWasNotReleasedOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	first := register(t, state)
	p := open(t, first, Need{Sandboxes: 2}, nil)
	if _, ok, err := p.Acquire(t.Context(), Need{}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	release, ok, err := p.Acquire(t.Context(), Need{})
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	release()
	if err := errors.Join(p.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	standing, err := register(t, state).Standings()
	if err != nil || len(standing) != 1 || len(standing[0].Owners) != 1 || standing[0].Use != (Amount{Sandboxes: 1}) {
		t.Errorf("%+v, %v", standing, err)
	}
}

// Where nothing is limited nothing is refused, and yet the dead go: else the account is
// full after some hundred kills, and every job ends.
func TestDeadOwnersOfAnUnlimitedProviderAreForgotten(t *testing.T) {
	t.Parallel()
	p := open(t, register(t, t.TempDir()), Need{}, func(context.Context) error { return nil })
	for range 3 {
		for range 5 {
			leaveDead(t, p)
		}
		await(t, "the dead owners' end", func() bool {
			release, ok, err := p.Acquire(t.Context(), Need{})
			if err != nil || !ok {
				t.Fatalf("%v %v", ok, err)
			}
			release()
			a, err := p.book.look()
			return err == nil && len(a.Owners) == 0
		})
	}
}
