package snapshots

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"harborgate/providers"
)

// TestB057FailedBuildIsRememberedByOthers: a process that asks soon after another one's
// build failed gets that failure, unless it wants to know again.
func TestB057FailedBuildIsRememberedByOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, reg := t.TempDir(), &registry{fail: providers.E(providers.KindInvalid, "build", errors.New("RUN failed"))}
		ask := func(change func(*Request)) error {
			s := store(t, dir) // a process of its own
			defer s.Close()
			r := reg.request("k", 1)
			if change != nil {
				change(&r)
			}
			hold, err := s.Ensure(t.Context(), r)
			hold.Release()
			return err
		}
		steps := []struct {
			what   string
			wait   time.Duration
			change func(*Request)
			past   bool // the failure is an earlier one
			builds int
		}{
			{"first", 0, nil, false, 1},
			{"soon after", time.Minute, nil, true, 1},
			{"a retry", 0, func(r *Request) { r.Try = 2 }, false, 2},
			{"asked for", 0, func(r *Request) { r.Again = true }, false, 3},
			{"soon after", time.Minute, nil, true, 3},
			{"later", failedFor, nil, false, 4},
			{"another clock", -24 * time.Hour, nil, false, 5},
		}
		for _, st := range steps {
			if st.wait > 0 {
				<-time.After(st.wait)
			} else if st.wait < 0 {
				ahead(t, store(t, dir), "k", -st.wait)
			}
			err := ask(st.change)
			b, ok := errors.AsType[*BuildError](err)
			if !ok || !providers.Is(err, providers.KindInvalid) || b.Key != "k" || b.Past.IsZero() == st.past || !strings.Contains(err.Error(), "RUN failed") {
				t.Errorf("%s: %v", st.what, err)
			}
			if st.past && !strings.Contains(err.Error(), "/k.log") {
				t.Errorf("%s: it does not say where the log is: %v", st.what, err)
			}
			if reg.builds != st.builds {
				t.Errorf("%s: built %d times, want %d", st.what, reg.builds, st.builds)
			}
		}
		reg.fail = nil
		if err := errors.Join(ask(func(r *Request) { r.Again = true }), os.Remove(store(t, dir).path("k", ".json")), ask(nil)); err != nil {
			t.Errorf("a build that worked left its failure: %v", err)
		}
	})
}

// ahead makes a failure one of a clock that was ahead.
func ahead(t *testing.T, s *Store, key Key, by time.Duration) {
	t.Helper()
	b := `{"at":"` + time.Now().Add(by).UTC().Format(time.RFC3339) + `","message":"RUN failed"}`
	if err := os.WriteFile(s.path(key, ".failed"), []byte(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFailureOfWhatItIsMadeFrom is that of the other image, and is remembered with it.
func TestFailureOfWhatItIsMadeFrom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, reg := store(t, t.TempDir()), &registry{fail: providers.E(providers.KindInvalid, "build", errors.New("no"))}
		top := Request{Key: "top", Try: 1, Check: reg.request("top", 1).Check, Build: func(ctx context.Context, _ io.Writer) (providers.Image, error) {
			hold, err := s.Ensure(ctx, reg.request("below", 1))
			hold.Release()
			return providers.Image{}, err
		}}
		_, err := s.Ensure(t.Context(), top)
		if b, ok := errors.AsType[*BuildError](err); !ok || b.Key != "below" {
			t.Errorf("%v", err)
		}
		for key, remembered := range map[Key]bool{"top": false, "below": true} {
			if _, err := os.Stat(s.path(key, ".failed")); (err == nil) != remembered {
				t.Errorf("%s: %v", key, err)
			}
		}
	})
}
