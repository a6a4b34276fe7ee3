package shares

import (
	"context"
	"errors"
	"testing"
)

// Who awaits a lease gets the next, before those who only ask, and those are told
// afterwards. Several who wait take no word from each other.
func TestWhoAwaitsALeaseComesFirst(t *testing.T) {
	t.Parallel()
	o, err := Register(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	p := open(t, o, Need{Sandboxes: 1}, nil)
	release, ok, err := p.Acquire(t.Context(), Need{})
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	got := make(chan func(), 2)
	for range 2 {
		go func() {
			release, err := p.Await(t.Context(), Need{})
			if err != nil {
				t.Error(err)
			}
			got <- release
		}()
	}
	await(t, "both to wait", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.urgent) == 2
	})
	if _, ok, err := p.Acquire(t.Context(), Need{}); ok || err != nil {
		t.Errorf("who only asks has it: %v %v", ok, err)
	}
	release()
	for range 2 {
		release = <-got
		if _, ok, err := p.Acquire(t.Context(), Need{}); ok || err != nil {
			t.Errorf("there is none: %v %v", ok, err)
		}
		release()
	}
	await(t, "a lease for who only asks", func() bool {
		<-p.Freed()
		_, ok, err := p.Acquire(t.Context(), Need{})
		return ok && err == nil
	})
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	o, err := Register(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	p := open(t, o, Need{Sandboxes: 1}, nil)
	if _, ok, err := p.Acquire(t.Context(), Need{}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Await(ctx, Need{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
