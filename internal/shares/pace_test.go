package shares

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// backlog is how far ahead the turns of a class are taken.
func backlog(t *testing.T, p *Pool, class string) time.Duration {
	t.Helper()
	var ahead time.Duration
	err := p.change(func(a *account, now int64) bool {
		ahead = a.next(class, 1, 1, now)
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
	return ahead
}

// A thousand deletes that are given up after Ctrl-C must not hold up the next process:
// no turn is taken that is far away.
func TestTurnsOfThoseWhoGaveUpAreNotLost(t *testing.T) {
	t.Parallel()
	p := open(t, register(t, t.TempDir()), Need{}, nil)
	pace := p.Pace("deletes", 0.1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { _ = pace.Wait(ctx) })
	}
	await(t, "turns that are taken", func() bool { return backlog(t, p, "deletes") > 10*time.Second })
	cancel()
	wg.Wait()
	if left := backlog(t, p, "deletes"); left > 30*time.Second {
		t.Errorf("the next turn is %s away", left)
	}
}

// A turn that comes after the deadline is not taken.
func TestCallWhoseTurnComesTooLateTakesNone(t *testing.T) {
	t.Parallel()
	p := open(t, register(t, t.TempDir()), Need{}, nil)
	pace := p.Pace("reads", 0.01, 1)
	if err := pace.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 10 {
		if err := pace.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Fatalf("%v; %v", err, ctx.Err())
		}
	}
	if left := backlog(t, p, "reads"); left > 100*time.Second {
		t.Errorf("the next turn is %s away", left)
	}
}

// Sandboxes that are held up between their leases and their creates, all by the same
// thing, are not made all at once then.
func TestTurnsThatCameWithLeasesAreNotUsedAllAtOnce(t *testing.T) {
	t.Parallel()
	p := open(t, register(t, t.TempDir()), Need{}, nil)
	creates := p.Creates(0.01, 1)
	for range 5 {
		p.pay() // as if they had come one after the other
	}
	if err := creates.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := creates.Wait(ctx); err == nil {
		t.Error("the second one goes at once, too")
	}
}
