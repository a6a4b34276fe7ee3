package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func acquire(t *testing.T, g *Gate, who string, need Need) *Ticket {
	t.Helper()
	ticket, err := g.Acquire(t.Context(), who, need)
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

func TestNoLimitsNoWaiting(t *testing.T) {
	t.Parallel()
	g := New(Limits{})
	for range 1000 {
		acquire(t, g, "a", Need{1 << 40, 1 << 40})
	}
	if s := g.State(); s.Running != 1000 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}

func TestRequestsAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(Limits{Requests: 60})
		start := time.Now()
		for range 66 {
			acquire(t, g, "a", Need{}).Release(Need{})
		}
		// A tenth of a minute's requests may come at once, then one each second.
		if d := time.Since(start); d != 60*time.Second {
			t.Errorf("66 requests took %s", d)
		}
	})
}

func TestTokensAreReservedAndSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(Limits{Output: 6000})
		start := time.Now()
		acquire(t, g, "a", Need{Output: 6000}).Release(Need{Output: 1000})
		acquire(t, g, "a", Need{Output: 5000}).Release(Need{Output: 8000}) // owes 3000
		if d := time.Since(start); d != 0 {
			t.Errorf("what came back was not used: %s", d)
		}
		acquire(t, g, "a", Need{Output: 3000})
		if d := time.Since(start).Round(time.Second); d != time.Minute {
			t.Errorf("a debt of 3000 and a need of 3000 took %s", d)
		}
		acquire(t, g, "a", Need{Output: 1 << 40}) // more than there ever are
		if d := time.Since(start).Round(time.Second); d != 2*time.Minute {
			t.Errorf("the whole bucket took until %s", d)
		}
	})
}

// Attack 19 of the threat model: one trial cannot starve others.
func TestAttack19NoisyTrialWaitsBehindItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(Limits{Concurrent: 1})
		first := acquire(t, g, "noisy", Need{})
		var mu sync.Mutex
		var order []string
		var wg sync.WaitGroup
		ask := func(who string) {
			wg.Go(func() {
				ticket := acquire(t, g, who, Need{})
				mu.Lock()
				order = append(order, who)
				mu.Unlock()
				ticket.Release(Need{})
			})
			synctest.Wait()
		}
		for range 50 {
			ask("noisy")
		}
		for i := range 9 {
			ask(fmt.Sprintf("quiet %d", i))
		}
		if s := g.State(); s.Waiting != 59 {
			t.Errorf("%+v", s)
		}
		first.Release(Need{})
		wg.Wait()
		for i := range 9 {
			if at := slices.Index(order, fmt.Sprintf("quiet %d", i)); at > 10 {
				t.Errorf("quiet %d came as number %d", i, at)
			}
		}
	})
}

func TestWhoLeavesHoldsUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(Limits{Input: 100})
		acquire(t, g, "a", Need{Input: 100})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := g.Acquire(ctx, "a", Need{Input: 100})
			failed <- err
		}()
		synctest.Wait()
		start := time.Now()
		acquire(t, g, "b", Need{Input: 10}) // waits behind a, until a leaves
		if err := <-failed; !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if d := time.Since(start).Round(time.Second); d != 6*time.Second {
			t.Errorf("b waited %s", d)
		}
		if s := g.State(); s.Waiting != 0 || s.Running != 2 {
			t.Errorf("%+v", s)
		}
	})
}

func TestPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(Limits{})
		start := time.Now()
		g.Pause(start.Add(90 * time.Second))
		g.Pause(start.Add(30 * time.Second)) // the later one holds
		if d := g.Delay(Need{}); d != 90*time.Second {
			t.Error(d)
		}
		acquire(t, g, "a", Need{})
		if d := time.Since(start); d != 90*time.Second {
			t.Errorf("%s", d)
		}
	})
}

func TestConfigureKeepsWhoIsThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(Limits{Concurrent: 1})
		ticket := acquire(t, g, "a", Need{})
		done := make(chan struct{})
		go func() {
			acquire(t, g, "b", Need{})
			close(done)
		}()
		synctest.Wait()
		g.Configure(Limits{Concurrent: 2})
		<-done
		ticket.Release(Need{})
		ticket.Release(Need{}) // only once
		if s := g.State(); s.Running != 1 {
			t.Errorf("%+v", s)
		}
	})
}
