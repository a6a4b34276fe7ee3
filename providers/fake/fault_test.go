package fake_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"harborgate/providers"
	"harborgate/providers/fake"
)

// sh runs a script and returns what it printed.
func sh(ctx context.Context, sb providers.Sandbox, script string) (string, error) {
	var out strings.Builder
	_, err := sb.Exec(ctx, providers.Command{Args: []string{"/bin/sh", "-c", script}, Stdout: &out, Stderr: &out})
	return out.String(), err
}

func left(t *testing.T, w *fake.World) int {
	t.Helper()
	list, err := fake.New(fake.Options{World: w}).List(t.Context(), providers.Selector{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestB006CreateAnsweredLateLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := fake.NewWorld()
		w.Inject(fake.Fault{Op: fake.OpCreate, Late: 3 * time.Second})
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := fake.New(fake.Options{World: w}).Create(ctx, spec(t))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the context's", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %s, want 1s", took)
		}
		if n := left(t, w); n != 0 {
			t.Errorf("%d sandboxes are left", n)
		}
	})
}

func TestLostAnswerLeavesTheSandbox(t *testing.T) {
	t.Parallel()
	w := fake.NewWorld()
	w.Inject(fake.Fault{Op: fake.OpCreate, Effect: fake.Lose, Kind: providers.KindUnavailable})
	_, err := fake.New(fake.Options{World: w}).Create(t.Context(), spec(t))
	if !providers.Is(err, providers.KindUnavailable) {
		t.Errorf("error %v, want unavailable", err)
	}
	if n := left(t, w); n != 1 {
		t.Errorf("%d sandboxes are left, want the one that nobody knows", n)
	}
	w.Clear()
}

func TestOnlyTheNthMatchingCallIsStruck(t *testing.T) {
	t.Parallel()
	w := fake.NewWorld()
	w.Inject(
		fake.Fault{Op: fake.OpExec, Match: "flaky", Nth: 2, Effect: fake.Refuse, Kind: providers.KindUnavailable},
		fake.Fault{Op: fake.OpExec, Match: "limited", Effect: fake.Refuse, Kind: providers.KindRateLimited, RetryAfter: time.Minute},
	)
	sb := create(t, fake.New(fake.Options{World: w}), spec(t))
	for i, want := range []bool{true, false, true} {
		if _, err := sh(t.Context(), sb, "echo other"); err != nil {
			t.Errorf("another command was struck: %v", err)
		}
		if _, err := sh(t.Context(), sb, "echo flaky"); (err == nil) != want {
			t.Errorf("call %d: error %v, want success %v", i+1, err, want)
		}
	}
	_, err := sh(t.Context(), sb, "echo limited")
	var e *providers.Error
	if !errors.As(err, &e) || e.RetryAfter != time.Minute || e.ID != string(sb.ID()) {
		t.Errorf("error %+v, want a rate limit of a minute that names the sandbox", err)
	}
	w.Heal()
	if _, err := sh(t.Context(), sb, "echo limited"); err != nil {
		t.Errorf("error %v after Heal", err)
	}
}

func TestHangEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := fake.NewWorld()
		w.Inject(fake.Fault{Op: fake.OpDestroy, Nth: 1, Hang: true})
		p := fake.New(fake.Options{World: w})
		sb := create(t, p, spec(t))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := p.Destroy(ctx, sb.ID()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if n := left(t, w); n != 1 {
			t.Errorf("%d sandboxes, want one: nothing was done", n)
		}
	})
}

func TestDieTakesTheSandboxWithIt(t *testing.T) {
	t.Parallel()
	w := fake.NewWorld()
	want := providers.Death{ExitCode: 137, OOMKilled: true, Output: "out of memory"}
	w.Inject(fake.Fault{Op: fake.OpUpload, Effect: fake.Die, Death: want})
	sb := create(t, fake.New(fake.Options{World: w}), spec(t))
	if err := sb.Upload(t.Context(), strings.NewReader(""), "/up"); err != nil {
		t.Fatal(err)
	}
	_, err := sh(t.Context(), sb, "true")
	if got, ok := providers.DeathOf(err); !ok || got != want || !providers.Is(err, providers.KindUnavailable) {
		t.Errorf("error %v with death %+v, want %+v", err, got, want)
	}
}

func TestWorldKillEndsRunningCommands(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := fake.NewWorld()
		sb := create(t, fake.New(fake.Options{World: w}), spec(t))
		time.AfterFunc(time.Minute, func() { w.Kill(sb.ID(), providers.Death{ExitCode: 7}) })
		_, err := sh(t.Context(), sb, "sleep 1000")
		if d, ok := providers.DeathOf(err); !ok || d.ExitCode != 7 {
			t.Errorf("error %v, want a death with code 7", err)
		}
	})
}

func TestTimePassesOnlyInTheBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := fake.New(fake.Options{CreateTime: 2 * time.Second, ExecTime: 5 * time.Millisecond})
		start := time.Now()
		sb := create(t, p, spec(t))
		out, err := sh(t.Context(), sb, "sleep 3600 | cat; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo $i")
		if err != nil || out != "20000\n" {
			t.Errorf("printed %q, error %v", out, err)
		}
		if took := time.Since(start); took < time.Hour || took > time.Hour+time.Minute {
			t.Errorf("took %s on the bubble's clock", took)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := sh(short, sb, "while :; do :; done"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an endless loop ended with %v", err)
		}
	})
}
