package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"harborgate/providers"
	"harborgate/providers/retry"
)

// driver fails the first calls with errs, one each, and notes when they came.
type driver struct {
	providers.Provider
	errs  []error
	start time.Time
	calls []time.Duration
}

func (d *driver) next() error {
	d.calls = append(d.calls, time.Since(d.start))
	if len(d.errs) == 0 {
		return nil
	}
	err := d.errs[0]
	d.errs = d.errs[1:]
	return err
}

func (d *driver) Check(context.Context) error { return d.next() }
func (d *driver) List(context.Context, providers.Selector) ([]providers.Resource, error) {
	if err := d.next(); err != nil {
		return nil, err
	}
	return []providers.Resource{{ID: "x"}}, nil
}
func (d *driver) Destroy(context.Context, providers.ID) error { return d.next() }
func (d *driver) Create(context.Context, providers.Spec) (providers.Sandbox, error) {
	return &box{d: d}, d.next()
}

type box struct {
	providers.Sandbox
	d *driver
}

func (b *box) Destroy(context.Context) error { return b.d.next() }
func (b *box) Exec(context.Context, providers.Command) (providers.ExitStatus, error) {
	return providers.ExitStatus{}, b.d.next()
}

func kind(k providers.Kind) error { return providers.Errorf(k, "test", "it failed") }

func after(d time.Duration) error {
	return &providers.Error{Kind: providers.KindRateLimited, RetryAfter: d, Err: errors.New("slow down")}
}

func many(err error, n int) []error {
	out := make([]error, n)
	for i := range out {
		out[i] = err
	}
	return out
}

// in runs f in a bubble with a driver that fails so, jitter in the middle.
func in(t *testing.T, errs []error, f func(t *testing.T, p *retry.Provider, d *driver)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &driver{errs: errs, start: time.Now()}
		f(t, retry.New(d, retry.Options{First: time.Second, Longest: 3 * time.Second, Jitter: func() float64 { return 0.5 }}), d)
	})
}

func TestReadsAndDestroyAreRepeated(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context, *retry.Provider) error{
		"check":   func(ctx context.Context, p *retry.Provider) error { return p.Check(ctx) },
		"destroy": func(ctx context.Context, p *retry.Provider) error { return p.Destroy(ctx, "x") },
		"list": func(ctx context.Context, p *retry.Provider) error {
			list, err := p.List(ctx, providers.Selector{})
			if err == nil && len(list) != 1 {
				return errors.New("the list is lost")
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, many(kind(providers.KindUnavailable), 2), func(t *testing.T, p *retry.Provider, d *driver) {
				if err := call(t.Context(), p); err != nil || len(d.calls) != 3 {
					t.Errorf("error %v after %d calls, want success after 3", err, len(d.calls))
				}
			})
		})
	}
}

func TestPausesDoubleUpToTheLongest(t *testing.T) {
	t.Parallel()
	in(t, many(kind(providers.KindUnavailable), 9), func(t *testing.T, _ *retry.Provider, d *driver) {
		p := retry.New(d, retry.Options{Attempts: 5, First: time.Second, Longest: 3 * time.Second, Jitter: func() float64 { return 0.5 }})
		if err := p.Check(t.Context()); !providers.Is(err, providers.KindUnavailable) {
			t.Errorf("error %v, want the last one", err)
		}
		// Three quarters of 1, 2, 3 and 3 seconds.
		want := []time.Duration{0, 750 * time.Millisecond, 2250 * time.Millisecond, 4500 * time.Millisecond, 6750 * time.Millisecond}
		if len(d.calls) != len(want) {
			t.Fatalf("%d calls, want %d", len(d.calls), len(want))
		}
		for i := range want {
			if d.calls[i] != want[i] {
				t.Errorf("call %d came after %s, want %s", i, d.calls[i], want[i])
			}
		}
	})
}

func TestRetryAfterIsObeyed(t *testing.T) {
	t.Parallel()
	in(t, []error{after(20 * time.Second)}, func(t *testing.T, p *retry.Provider, d *driver) {
		if err := p.Check(t.Context()); err != nil || len(d.calls) != 2 || d.calls[1] != 20*time.Second {
			t.Errorf("error %v, calls at %v, want the second after 20s", err, d.calls)
		}
	})
	in(t, []error{after(time.Hour)}, func(t *testing.T, p *retry.Provider, d *driver) {
		if err := p.Check(t.Context()); !providers.Is(err, providers.KindRateLimited) || len(d.calls) != 1 {
			t.Errorf("error %v after %d calls, want it at once", err, len(d.calls))
		}
	})
}

func TestWhatIsForGoodIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, k := range providers.Kinds() {
		if k == providers.KindUnavailable || k == providers.KindRateLimited {
			continue
		}
		in(t, many(kind(k), 5), func(t *testing.T, p *retry.Provider, d *driver) {
			if err := p.Check(t.Context()); !providers.Is(err, k) || len(d.calls) != 1 {
				t.Errorf("%v: error %v after %d calls, want one", k, err, len(d.calls))
			}
		})
	}
}

func TestCreateAndExecAreNeverRepeated(t *testing.T) {
	t.Parallel()
	in(t, many(kind(providers.KindUnavailable), 5), func(t *testing.T, p *retry.Provider, d *driver) {
		if _, err := p.Create(t.Context(), providers.Spec{}); !providers.Is(err, providers.KindUnavailable) || len(d.calls) != 1 {
			t.Errorf("create: error %v after %d calls", err, len(d.calls))
		}
	})
	in(t, append([]error{nil}, many(kind(providers.KindUnavailable), 5)...), func(t *testing.T, p *retry.Provider, d *driver) {
		sb, err := p.Create(t.Context(), providers.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sb.Exec(t.Context(), providers.Command{}); err == nil || len(d.calls) != 2 {
			t.Errorf("exec: error %v after %d calls", err, len(d.calls)-1)
		}
		if err := sb.Destroy(t.Context()); err == nil || len(d.calls) != 2+4 {
			t.Errorf("destroy: error %v after %d calls, want 4", err, len(d.calls)-2)
		}
	})
}

func TestWaitEndsWithTheContext(t *testing.T) {
	t.Parallel()
	in(t, many(after(30*time.Second), 5), func(t *testing.T, p *retry.Provider, d *driver) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		err := p.Check(ctx)
		if !errors.Is(err, context.Canceled) || !providers.Is(err, providers.KindRateLimited) {
			t.Errorf("error %v, want both the reason and the context's", err)
		}
		if took := time.Since(d.start); took != 5*time.Second || len(d.calls) != 1 {
			t.Errorf("%d calls in %s", len(d.calls), took)
		}
	})
}

// What comes after the deadline is not waited for.
func TestPausePastTheDeadlineIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	in(t, many(after(30*time.Second), 5), func(t *testing.T, p *retry.Provider, d *driver) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := p.Check(ctx); !providers.Is(err, providers.KindRateLimited) || time.Since(d.start) != 0 || len(d.calls) != 1 {
			t.Errorf("error %v after %s and %d calls, want the provider's at once", err, time.Since(d.start), len(d.calls))
		}
	})
}
