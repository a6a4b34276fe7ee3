package providers

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

type valueKey struct{}

func TestCleanup(t *testing.T) {
	t.Parallel()
	const limit, hurry, never = time.Minute, 5 * time.Second, time.Duration(-1)
	for _, c := range []struct {
		name  string
		ends  time.Duration // when the caller's context does
		lives time.Duration
	}{
		{"nobody hurries", never, limit},
		{"it had ended before", 0, hurry},
		{"it ends meanwhile", 10 * time.Second, 15 * time.Second},
		{"it ends near the limit", 58 * time.Second, limit},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.WithValue(t.Context(), valueKey{}, "kept"))
				defer cancel()
				if c.ends == 0 {
					cancel()
				} else if c.ends != never {
					time.AfterFunc(c.ends, cancel)
				}
				begun := time.Now()
				out, stop := Cleanup(ctx, limit, hurry)
				defer stop()
				if out.Err() != nil || out.Value(valueKey{}) != "kept" {
					t.Errorf("at the start: %v %v", out.Err(), out.Value(valueKey{}))
				}
				<-out.Done()
				if got := time.Since(begun); got != c.lives {
					t.Errorf("it lived for %s, want %s", got, c.lives)
				}
			})
		})
	}
}
