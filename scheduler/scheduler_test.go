package scheduler

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

	"harborgate/trials"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world runs tries and builds in virtual time and remembers what it saw.
type world struct {
	mu       sync.Mutex
	running  int
	most     int
	log      []string
	try      func(a Assignment) (time.Duration, Outcome)
	building time.Duration
	refuse   int // leases to refuse before the first is granted
	outage   time.Duration
	gone     error     // what an outage ends with
	has      Resources // then
	freed    chan struct{}
}

func newWorld() *world {
	return &world{freed: make(chan struct{}, 1), try: func(Assignment) (time.Duration, Outcome) { return time.Second, Outcome{} }}
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func (w *world) Run(ctx context.Context, a Assignment) Outcome {
	w.mu.Lock()
	w.running++
	w.most = max(w.most, w.running)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.running--
		w.mu.Unlock()
	}()
	d, out := w.try(a)
	select {
	case <-time.After(d):
		w.note("ran %d/%d", a.Trial, a.Try)
	case <-ctx.Done():
		w.note("cancelled %d", a.Trial)
	}
	return out
}

func (w *world) Build(ctx context.Context, _ int, key string) {
	select {
	case <-time.After(w.building):
	case <-ctx.Done():
	}
	w.note("built %s", key)
}

func (w *world) Acquire(context.Context, string, Resources) (func(), bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse > 0 {
		w.refuse--
		time.AfterFunc(time.Minute, func() { w.freed <- struct{}{} })
		return nil, false, nil
	}
	return func() {}, true, nil
}

func (w *world) Freed() <-chan struct{} { return w.freed }

// Recover takes as long as the world says, or fails.
func (w *world) Recover(ctx context.Context) (Resources, error) {
	select {
	case <-time.After(w.outage):
		w.note("recovered")
		return w.has, w.gone
	case <-ctx.Done():
		return Resources{}, ctx.Err()
	}
}

func (w *world) options(n int) Options {
	return Options{MaxTrials: n, Sites: []Site{{MaxBuilds: 1, Shares: w, Health: w}}, Runner: w, Readiness: w}
}

func some(n int, builds ...string) []Trial {
	out := make([]Trial, n)
	for i := range out {
		out[i] = Trial{Name: fmt.Sprint(i), Demand: &Demand{Places: []Place{{Builds: builds}}}}
	}
	return out
}

func TestRunsEverythingWithinTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		begun := time.Now()
		unstarted, err := Run(t.Context(), w.options(4), some(10))
		if err != nil || unstarted != 0 || len(w.log) != 10 || w.most != 4 {
			t.Errorf("unstarted %d, err %v, most %d, log %v", unstarted, err, w.most, w.log)
		}
		if d := time.Since(begun); d != 3*time.Second {
			t.Errorf("took %s of virtual time, want 3 s: a slot was idle", d)
		}
	})
}

func TestBackOffHoldsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.try = func(a Assignment) (time.Duration, Outcome) {
			return time.Second, Outcome{Retry: a.Trial == 0 && a.Try == 1, Pause: time.Minute}
		}
		begun := time.Now()
		if _, err := Run(t.Context(), w.options(1), some(3)); err != nil {
			t.Fatal(err)
		}
		want := []string{"ran 0/1", "ran 1/1", "ran 2/1", "ran 0/2"}
		if !slices.Equal(w.log, want) {
			t.Errorf("log %v, want %v", w.log, want)
		}
		if d := time.Since(begun); d != 62*time.Second {
			t.Errorf("took %s, want 62 s", d)
		}
	})
}

func TestWaitForBuildHoldsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.building = 10 * time.Second
		if _, err := Run(t.Context(), w.options(1), append(some(2, "image"), some(1)...)); err != nil {
			t.Fatal(err)
		}
		want := []string{"ran 2/1", "built image", "ran 0/1", "ran 1/1"}
		if !slices.Equal(w.log, want) {
			t.Errorf("log %v, want %v", w.log, want)
		}
	})
}

// The time for two images, one after the other, is none for a slot; a slot counts
// from then on, and each try for itself.
func TestWaitForImagesIsNoWaitForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.building = 4 * time.Second
		var got []Assignment
		w.try = func(a Assignment) (time.Duration, Outcome) {
			got = append(got, a) // one runs at a time
			return time.Second, Outcome{Retry: a.Trial == 0 && a.Try == 1, Pause: 500 * time.Millisecond}
		}
		if _, err := Run(t.Context(), w.options(1), some(2, "environment", "verifier")); err != nil {
			t.Fatal(err)
		}
		want := []Assignment{
			{Trial: 0, Try: 1, Images: 8 * time.Second},
			{Trial: 1, Try: 1, Images: 8 * time.Second, Waited: time.Second},
			{Trial: 0, Try: 2, Waited: 500 * time.Millisecond},
		}
		if !slices.EqualFunc(got, want, func(a, b Assignment) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
			t.Errorf("%+v\nwant %+v", got, want)
		}
	})
}

func TestRefusedLeaseWaitsForTheNotification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.refuse = 1
		begun := time.Now()
		if _, err := Run(t.Context(), w.options(2), some(2)); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begun); d != time.Minute+time.Second || len(w.log) != 2 {
			t.Errorf("took %s, log %v; want a minute and a second, both once", d, w.log)
		}
	})
}

// machine is what is free of a host that others use too. Who was refused may ask again each
// second.
type machine struct {
	mu    sync.Mutex
	free  Resources
	asked int
	again *time.Timer
	freed chan struct{}
}

func (m *machine) Acquire(_ context.Context, _ string, needs Resources) (func(), bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	if !needs.within(m.free) {
		if m.again == nil {
			m.again = time.AfterFunc(time.Second, m.tell)
		}
		m.again.Reset(time.Second)
		return nil, false, nil
	}
	m.free.CPUs -= needs.CPUs
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.free.CPUs += needs.CPUs
		m.tell()
	}, true, nil
}

func (m *machine) tell() {
	select {
	case m.freed <- struct{}{}:
	default:
	}
}

func (m *machine) Freed() <-chan struct{} { return m.freed }

// Other processes leave 4 CPUs of 16, and later all: trials of one CPU pass the one of
// eight for a minute, and no longer; those that need what it does not are not held up.
func TestRefusedLeaseOfALargeTrialIsNoRefusalOfSmallOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		m := &machine{free: Resources{CPUs: 4, GPUs: 9}, freed: make(chan struct{}, 1)}
		begun := time.Now()
		time.AfterFunc(5*time.Minute, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.free.CPUs += 12
		})
		started := map[int]time.Duration{}
		w.try = func(a Assignment) (time.Duration, Outcome) {
			w.mu.Lock()
			defer w.mu.Unlock()
			started[a.Trial] = time.Since(begun)
			return 40 * time.Second, Outcome{}
		}
		o := w.options(16)
		o.Sites[0].Shares, o.Sites[0].Budget = m, Resources{CPUs: 16}
		trials := append(several(1, everywhere(1, Resources{CPUs: 8})), several(10, everywhere(1, Resources{CPUs: 1}))...)
		trials = append(trials, several(20, everywhere(1, Resources{GPUs: 1}))...)
		if left, err := Run(t.Context(), o, trials); left != 0 || err != nil {
			t.Fatal(left, err)
		}
		for i, want := range map[int]time.Duration{0: 5 * time.Minute, 4: 0, 8: 40 * time.Second, 9: 5 * time.Minute, 30: 40 * time.Second} {
			if d := started[i] - want; d < 0 || d > time.Second {
				t.Errorf("trial %d started after %s, want %s", i, started[i], want)
			}
		}
		if m.asked > 400 {
			t.Errorf("%d leases were asked for", m.asked)
		}
	})
}

func TestCancelStopsRunningAndStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.try = func(Assignment) (time.Duration, Outcome) { return time.Hour, Outcome{Retry: true} }
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		unstarted, err := Run(ctx, w.options(2), some(5))
		if err != nil || unstarted != 3 || len(w.log) != 2 {
			t.Errorf("unstarted %d, err %v, log %v; want 3 and two cancelled", unstarted, err, w.log)
		}
	})
}

func TestRunWithoutTrials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if n, err := Run(t.Context(), newWorld().options(1), nil); n != 0 || err != nil {
			t.Error(n, err)
		}
	})
}

type brokenShares struct{ *world }

var errShares = errors.New("the shares are gone")

func (brokenShares) Acquire(context.Context, string, Resources) (func(), bool, error) {
	return nil, false, errShares
}

func TestBrokenSharesEndTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newWorld().options(1)
		o.Sites[0].Shares = brokenShares{newWorld()}
		if _, err := Run(t.Context(), o, some(1)); !errors.Is(err, errShares) {
			t.Errorf("got %v", err)
		}
	})
}

func TestRetry(t *testing.T) {
	t.Parallel()
	job := trials.NewJobConfig()
	c := job.Retry
	c.MaxRetries, c.MinWaitSec, c.WaitMultiplier, c.MaxWaitSec = 3, 2, 3, 10
	for _, x := range []struct {
		exception string
		n         int
		random    float64
		want      Outcome
	}{
		{"", 1, 0.5, Outcome{}},
		{"AgentTimeoutError", 1, 0.5, Outcome{}},
		{"HealthcheckError", 1, 0.5, Outcome{Retry: true, Pause: 2 * time.Second}},
		{"HealthcheckError", 2, 0.5, Outcome{Retry: true, Pause: 6 * time.Second}},
		{"HealthcheckError", 3, 0.5, Outcome{Retry: true, Pause: 10 * time.Second}},
		{"HealthcheckError", 4, 0.5, Outcome{}},
		{"HealthcheckError", 1, 0, Outcome{Retry: true, Pause: 1600 * time.Millisecond}},
		{"UnsupportedTaskError", 1, 0.5, Outcome{}},
	} {
		if got := Retry(c, nil, x.exception, x.n, x.random); got != x.want {
			t.Errorf("%s, try %d: %v, want %v", x.exception, x.n, got, x.want)
		}
	}
}
