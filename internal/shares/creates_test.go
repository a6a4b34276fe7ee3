package shares

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A lease is given when its sandbox may be made, with the turn for that: who waits for a
// turn has no place. The clock is the test's.
func TestLeaseComesWithItsTurn(t *testing.T) {
	t.Parallel()
	a, r, clock := &account{}, rate{PerSecond: 2, Burst: 3}, int64(1)
	got := func() (string, time.Duration) { return a.admit("a", "", Need{Sandboxes: 1}, Need{}, r, clock) }
	for range 2 { // half of the burst, rounded up
		if why, _ := got(); why != "" {
			t.Fatal(why)
		}
	}
	why, again := got()
	if why != "the limit of creates_per_sec is reached" || again != 500*time.Millisecond || a.used().Sandboxes != 2 {
		t.Errorf("%q, again in %s, %d in use", why, again, a.used().Sandboxes)
	}
	clock += int64(again)
	if why, _ := got(); why != "" || a.Paces[creates].Taken != 3 {
		t.Errorf("%q, %d turns", why, a.Paces[creates].Taken)
	}
	a.cool(creates, clock+int64(time.Minute), "429")
	if why, again = got(); why != "no creates for now: 429" || again != time.Minute {
		t.Errorf("%q, again in %s", why, again)
	}
}

// Where turns are what lacks, the process that has less gets the next.
func TestTurnGoesToWhoHasLess(t *testing.T) {
	t.Parallel()
	a, r, clock := &account{}, rate{PerSecond: 1, Burst: 1}, int64(1)
	one, got := Need{Sandboxes: 1}, map[string]int{}
	for range 40 {
		for _, id := range []string{"first", "second"} {
			if why, _ := a.admit(id, "", one, Need{}, r, clock); why == "" {
				got[id]++
			}
		}
		clock += int64(time.Second) / 2
	}
	if got["first"] != 10 || got["second"] != 10 {
		t.Errorf("%v", got)
	}
}

// Creates of new leases pass at once, others in their turn.
func TestCreateOfALeaseDoesNotWait(t *testing.T) {
	t.Parallel()
	o, err := Register(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	p := open(t, o, Need{}, nil)
	pace := p.Creates(0.001, 1)
	if _, ok, err := p.Acquire(t.Context(), Need{}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, ok, err := p.Acquire(t.Context(), Need{}); ok || err != nil {
		t.Errorf("a second lease at once: %v %v", ok, err)
	}
	if err := pace.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error)
	go func() { waits <- pace.Wait(ctx) }()
	select {
	case err := <-waits:
		t.Errorf("a create without a lease passed: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	cancel()
	<-waits
}

// Who awaits a lease makes its sandbox later, with a turn of its own then: one that came
// with the lease would be used beside those that are due by then.
func TestAwaitedLeaseComesWithoutATurn(t *testing.T) {
	t.Parallel()
	p := open(t, register(t, t.TempDir()), Need{}, nil)
	pace := p.Creates(0.001, 1)
	for range 2 {
		if _, err := p.Await(t.Context(), Need{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := pace.Wait(t.Context()); err != nil { // the first turn
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := pace.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a second create passed: %v", err)
	}
}
