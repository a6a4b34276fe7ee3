package limit_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"harborgate/providers"
	"harborgate/providers/limit"
)

// driver takes its time and notes what comes when.
type driver struct {
	providers.Provider
	takes time.Duration
	start time.Time

	mu    sync.Mutex // guards what follows
	errs  []error
	calls []time.Duration
	now   int
	most  int
}

func (d *driver) call() error {
	d.mu.Lock()
	d.calls = append(d.calls, time.Since(d.start))
	d.now++
	d.most = max(d.most, d.now)
	var err error
	if len(d.errs) > 0 {
		err, d.errs = d.errs[0], d.errs[1:]
	}
	d.mu.Unlock()
	t := time.NewTimer(d.takes)
	<-t.C
	d.mu.Lock()
	d.now--
	d.mu.Unlock()
	return err
}

func (d *driver) Check(context.Context) error                 { return d.call() }
func (d *driver) Destroy(context.Context, providers.ID) error { return d.call() }
func (d *driver) List(context.Context, providers.Selector) ([]providers.Resource, error) {
	return nil, d.call()
}

func (d *driver) Create(context.Context, providers.Spec) (providers.Sandbox, error) {
	if err := d.call(); err != nil {
		return nil, err
	}
	return &box{d: d}, nil
}

type box struct {
	providers.Sandbox
	d *driver
}

func (b *box) Exec(context.Context, providers.Command) (providers.ExitStatus, error) {
	return providers.ExitStatus{}, b.d.call()
}
func (b *box) Destroy(context.Context) error { return b.d.call() }

// in runs f in a bubble, where the options are made too: a channel from outside
// would stop its clock.
func in(t *testing.T, d *driver, o func() limit.Options, f func(t *testing.T, p *limit.Provider)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d.start = time.Now()
		f(t, limit.New(d, o()))
	})
}

// only paces one class.
func only(c limit.Class, p limit.Pace) limit.Options {
	return limit.Options{Paces: map[limit.Class]limit.Pace{c: p}}
}

// creates makes n sandboxes at once and returns the errors.
func creates(ctx context.Context, p *limit.Provider, n int) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { _, errs[i] = p.Create(ctx, providers.Spec{}) })
	}
	wg.Wait()
	return errs
}

func TestCreatesKeepTheirPace(t *testing.T) {
	t.Parallel()
	d := &driver{}
	in(t, d, func() limit.Options { return only(limit.Creates, limit.PerSecond(2, 3)) }, func(t *testing.T, p *limit.Provider) {
		if err := errors.Join(creates(t.Context(), p, 6)...); err != nil {
			t.Error(err)
		}
		if err := p.Check(t.Context()); err != nil {
			t.Error(err)
		}
	})
	want := []time.Duration{0, 0, 0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond, 1500 * time.Millisecond}
	if !slices.Equal(d.calls, want) {
		t.Errorf("calls at %v, want %v", d.calls, want)
	}
}

func TestAllCallsShareOnePace(t *testing.T) {
	t.Parallel()
	d := &driver{}
	in(t, d, func() limit.Options { return limit.Options{Calls: limit.PerSecond(1, 1)} }, func(t *testing.T, p *limit.Provider) {
		ctx := t.Context()
		sb, err := p.Create(ctx, providers.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		_, listed := p.List(ctx, providers.Selector{})
		_, ran := sb.Exec(ctx, providers.Command{})
		if err := errors.Join(listed, ran, p.Check(ctx), p.Destroy(ctx, "x"), sb.Destroy(ctx)); err != nil {
			t.Error(err)
		}
	})
	// Exec, the third, does not wait for a turn.
	want := []time.Duration{0, time.Second, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}
	if !slices.Equal(d.calls, want) {
		t.Errorf("calls at %v, want %v", d.calls, want)
	}
}

// Each class has its own pace: one that has used up its turns holds no other up.
func TestClassesHaveTheirOwnPaces(t *testing.T) {
	t.Parallel()
	d := &driver{}
	in(t, d, func() limit.Options {
		return limit.Options{Paces: map[limit.Class]limit.Pace{
			limit.Deletes: limit.PerSecond(1, 1), limit.Reads: limit.PerSecond(0.5, 1), limit.Execs: limit.PerSecond(0.1, 1),
		}}
	}, func(t *testing.T, p *limit.Provider) {
		ctx := t.Context()
		sb, err := p.Create(ctx, providers.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		var errs []error
		for range 2 {
			_, listed := p.List(ctx, providers.Selector{})
			errs = append(errs, listed)
		}
		for range 2 {
			errs = append(errs, sb.Destroy(ctx))
		}
		for range 2 {
			_, ran := sb.Exec(ctx, providers.Command{})
			errs = append(errs, ran)
		}
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})
	want := []time.Duration{0, 0, 2 * time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second, 13 * time.Second}
	if !slices.Equal(d.calls, want) {
		t.Errorf("calls at %v, want %v", d.calls, want)
	}
}

// Those that a pause held up do not all go at its end.
func TestPaceHoldsAfterAPause(t *testing.T) {
	t.Parallel()
	tooFast := &providers.Error{Kind: providers.KindRateLimited, RetryAfter: 10 * time.Second, Err: errors.New("slow down")}
	d := &driver{errs: []error{tooFast}}
	in(t, d, func() limit.Options { return only(limit.Creates, limit.PerSecond(1, 1)) }, func(t *testing.T, p *limit.Provider) {
		if failed := creates(t.Context(), p, 4); !providers.Is(errors.Join(failed...), providers.KindRateLimited) {
			t.Errorf("%v", failed)
		}
	})
	if len(d.calls) != 4 || d.calls[1] < 10*time.Second {
		t.Fatalf("calls at %v", d.calls)
	}
	for i := 2; i < len(d.calls); i++ {
		if d.calls[i]-d.calls[i-1] < time.Second {
			t.Errorf("calls at %v: more than one a second", d.calls)
		}
	}
}

func TestCreatesAtOnceAreLimited(t *testing.T) {
	t.Parallel()
	d := &driver{takes: time.Second}
	in(t, d, func() limit.Options { return limit.Options{AtOnce: limit.AtMost(3)} }, func(t *testing.T, p *limit.Provider) {
		if err := errors.Join(creates(t.Context(), p, 9)...); err != nil {
			t.Error(err)
		}
		if took := time.Since(d.start); took != 3*time.Second {
			t.Errorf("took %s, want 3s", took)
		}
	})
	if d.most != 3 {
		t.Errorf("%d creates at once, want 3", d.most)
	}
}

func TestSlotComesBackAfterAnError(t *testing.T) {
	t.Parallel()
	d := &driver{errs: []error{errors.New("no")}}
	in(t, d, func() limit.Options { return limit.Options{AtOnce: limit.AtMost(1)} }, func(t *testing.T, p *limit.Provider) {
		if _, err := p.Create(t.Context(), providers.Spec{}); err == nil {
			t.Error("no error")
		}
		if _, err := p.Create(t.Context(), providers.Spec{}); err != nil {
			t.Error(err)
		}
	})
}

func TestRateLimitedMakesItsClassWait(t *testing.T) {
	t.Parallel()
	tooFast := func(after time.Duration) error {
		return &providers.Error{Kind: providers.KindRateLimited, RetryAfter: after, Err: errors.New("slow down")}
	}
	for name, test := range map[string]struct {
		err  error
		want time.Duration
	}{
		"told when":     {tooFast(7 * time.Second), 7 * time.Second},
		"not told when": {tooFast(0), 4 * time.Second},
		"another error": {providers.Errorf(providers.KindExhausted, "create", "full"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &driver{errs: []error{test.err}}
			in(t, d, func() limit.Options { return limit.Options{CoolDown: 4 * time.Second} }, func(t *testing.T, p *limit.Provider) {
				if _, err := p.Create(t.Context(), providers.Spec{}); providers.KindOf(err) != providers.KindOf(test.err) {
					t.Errorf("error %v, want %v", err, test.err)
				}
				if err := p.Check(t.Context()); err != nil { // of another class
					t.Error(err)
				}
				if _, err := p.Create(t.Context(), providers.Spec{}); err != nil {
					t.Error(err)
				}
			})
			if want := []time.Duration{0, 0, test.want}; !slices.Equal(d.calls, want) {
				t.Errorf("calls at %v, want %v", d.calls, want)
			}
		})
	}
}

func TestWaitsEndWithTheContext(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]func() limit.Options{
		"pace":      func() limit.Options { return only(limit.Creates, limit.PerSecond(0.001, 1)) },
		"slots":     func() limit.Options { return limit.Options{AtOnce: limit.AtMost(1)} },
		"all calls": func() limit.Options { return limit.Options{Calls: limit.PerSecond(0.001, 1)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &driver{takes: time.Minute}
			in(t, d, o, func(t *testing.T, p *limit.Provider) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				errs := creates(ctx, p, 2)
				if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), context.Canceled) {
					t.Errorf("errors %v, want one context.Canceled", errs)
				}
			})
			if len(d.calls) != 1 {
				t.Errorf("%d calls reached the provider, want 1", len(d.calls))
			}
		})
	}
}

func TestNoTurnBeforeTheDeadlineIsATimeout(t *testing.T) {
	t.Parallel()
	d := &driver{}
	in(t, d, func() limit.Options { return limit.Options{Calls: limit.PerSecond(0.01, 1)} }, func(t *testing.T, p *limit.Provider) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Check(ctx); err != nil {
			t.Error(err)
		}
		if err := p.Check(ctx); !providers.Is(err, providers.KindTimeout) {
			t.Errorf("error %v of kind %v, want a timeout", err, providers.KindOf(err))
		}
	})
}

// Work that can go elsewhere does not wait for the end of a pause with its first create,
// and does with its second.
func TestFirstCreateOfImpatientWorkIsRefusedInAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &driver{start: time.Now(), errs: []error{&providers.Error{Kind: providers.KindRateLimited, RetryAfter: time.Minute}}}
		p := limit.New(d, limit.Options{})
		if _, err := p.Create(t.Context(), providers.Spec{}); !providers.Is(err, providers.KindRateLimited) {
			t.Fatal(err)
		}
		ctx := limit.Impatient(t.Context())
		begun := time.Now()
		_, err := p.Create(ctx, providers.Spec{})
		var e *providers.Error
		if !errors.As(err, &e) || e.Kind != providers.KindRateLimited || e.RetryAfter != time.Minute || time.Since(begun) != 0 {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		if _, err := p.Create(ctx, providers.Spec{}); err != nil || time.Since(begun) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
	})
}

// Who cannot wait for the end of a pause is told of it at once, and not that time ran out.
func TestPausePastTheDeadlineIsSaidAtOnce(t *testing.T) {
	t.Parallel()
	d := &driver{errs: []error{&providers.Error{Kind: providers.KindRateLimited, RetryAfter: time.Minute, Err: errors.New("slow down")}}}
	in(t, d, func() limit.Options { return limit.Options{} }, func(t *testing.T, p *limit.Provider) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := p.Check(ctx); !providers.Is(err, providers.KindRateLimited) {
			t.Errorf("error %v, want the provider's", err)
		}
		err := p.Check(ctx)
		if !providers.Is(err, providers.KindRateLimited) || !strings.Contains(err.Error(), "check: the provider asked for a pause that lasts 1m0s more") {
			t.Errorf("error %v of kind %v, want the pause", err, providers.KindOf(err))
		}
		if len(d.calls) != 1 || ctx.Err() != nil {
			t.Errorf("%d calls, %v", len(d.calls), ctx.Err())
		}
		if err := p.Check(t.Context()); err != nil || d.calls[1] != time.Minute {
			t.Errorf("%v, calls at %v: who can wait has not", err, d.calls)
		}
	})
}
