package snapshots

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"harborgate/providers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// registry is a provider's images, with builds that take a second.
type registry struct {
	mu      sync.Mutex
	images  map[string]bool
	builds  int
	running int
	most    int // builds at once
	fail    error
	ended   []error // how the builds' contexts were when they returned
}

func (r *registry) request(key Key, try int) Request {
	return Request{
		Key: key, Try: try, Title: "test",
		Check: func(_ context.Context, id string) (providers.Image, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if !r.images[id] {
				return providers.Image{}, providers.Errorf(providers.KindNotFound, "inspect", "no image %s", id)
			}
			return providers.Image{ID: id}, nil
		},
		Build: func(ctx context.Context, log io.Writer) (providers.Image, error) {
			r.mu.Lock()
			r.builds++
			r.running++
			r.most = max(r.most, r.running)
			id, fail := fmt.Sprintf("image-%d", r.builds), r.fail
			r.mu.Unlock()
			fmt.Fprintln(log, "step 1")
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				fail = ctx.Err()
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.running--
			r.ended = append(r.ended, ctx.Err())
			if fail != nil {
				return providers.Image{}, fail
			}
			if r.images == nil {
				r.images = map[string]bool{}
			}
			r.images[id] = true
			return providers.Image{ID: id, Bytes: 7}, nil
		},
	}
}

func store(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func ensure(t *testing.T, s *Store, r Request) *Hold {
	t.Helper()
	h, err := s.Ensure(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A process that dies between the writing of a record and its rename has made nothing:
// what it wrote is no record, and goes with the next build of the key.
func TestRecordThatWasNotRenamedIsNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	half := filepath.Join(dir, ".k.json.123")
	if err := os.WriteFile(half, []byte(`{"key":"k","image":"image-1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, reg := store(t, dir), &registry{}
	if all, err := s.Survey(); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	if h := ensure(t, s, reg.request("k", 1)); h.Cached || reg.builds != 1 {
		t.Errorf("%+v after %d builds", h, reg.builds)
	}
	if _, err := os.Stat(half); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it stays: %v", err)
	}
}

func TestManyCallersShareOneBuild(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, reg := store(t, t.TempDir()), &registry{}
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				h := ensure(t, s, reg.request("k", 1))
				if h.Image.ID != "image-1" {
					t.Errorf("image %s", h.Image.ID)
				}
				h.Release()
				h.Release()
			})
		}
		wg.Wait()
		if reg.builds != 1 {
			t.Errorf("%d builds", reg.builds)
		}
		if h := ensure(t, s, reg.request("k", 2)); !h.Cached || h.Image.ID != "image-1" {
			t.Errorf("later: %+v", h)
		}
		if b, err := os.ReadFile(s.LogPath("k")); err != nil || string(b) != "step 1\n" {
			t.Errorf("build log %q %v", b, err)
		}
		var none *Hold
		none.Release()
	})
}

func TestKeysAreBuiltApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, reg := store(t, t.TempDir()), &registry{}
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() { ensure(t, s, reg.request(Key(fmt.Sprint(i)), 1)) })
		}
		wg.Wait()
		if reg.builds != 5 || reg.most != 5 {
			t.Errorf("%d builds, %d at once", reg.builds, reg.most)
		}
	})
}

// Two stores of one directory are what two processes have.
func TestTwoProcessesShareOneBuild(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, reg := t.TempDir(), &registry{}
		var wg sync.WaitGroup
		for range 2 {
			s := store(t, dir)
			for range 3 {
				wg.Go(func() { ensure(t, s, reg.request("k", 1)).Release() })
			}
		}
		wg.Wait()
		if reg.builds != 1 {
			t.Errorf("%d builds", reg.builds)
		}
	})
}

func TestOtherProcessTakesOverAFailedBuild(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, reg := t.TempDir(), &registry{fail: errors.New("boom")}
		var wg sync.WaitGroup
		for range 2 {
			s := store(t, dir)
			wg.Go(func() {
				if _, err := s.Ensure(t.Context(), reg.request("k", 1)); err == nil {
					t.Error("no error")
				}
			})
		}
		wg.Wait()
		if reg.builds != 2 || reg.most != 1 {
			t.Errorf("%d builds, %d at once", reg.builds, reg.most)
		}
	})
}

func TestFailureIsSharedPerTry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		s, reg := store(t, t.TempDir()), &registry{fail: boom}
		for range 3 { // also when they come one after the other
			if _, err := s.Ensure(t.Context(), reg.request("k", 1)); !errors.Is(err, boom) {
				t.Errorf("%v", err)
			}
		}
		if reg.builds != 1 {
			t.Errorf("%d builds for one try", reg.builds)
		}
		reg.fail = nil
		if h := ensure(t, s, reg.request("k", 2)); h.Image.ID != "image-2" || h.Cached {
			t.Errorf("the next try got %+v", h)
		}
	})
}

func TestWaiterThatLeavesDoesNotDisturbOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, reg := store(t, t.TempDir()), &registry{}
		var wg sync.WaitGroup
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			begun := time.Now()
			_, err := s.Ensure(ctx, reg.request("k", 1))
			if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != 100*time.Millisecond {
				t.Errorf("%v after %s", err, time.Since(begun))
			}
		})
		wg.Go(func() { ensure(t, s, reg.request("k", 1)) })
		wg.Wait()
		if reg.builds != 1 || reg.ended[0] != nil {
			t.Errorf("%d builds, ended %v", reg.builds, reg.ended)
		}
	})
}

func TestLastWaiterCancelsTheBuild(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, reg := store(t, t.TempDir()), &registry{}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if _, err := s.Ensure(ctx, reg.request("k", 1)); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v", err)
				}
			})
		}
		wg.Wait()
		s.Close()
		if reg.builds != 1 || !errors.Is(reg.ended[0], context.Canceled) {
			t.Errorf("%d builds, ended %v", reg.builds, reg.ended)
		}
		// That is no failure: whoever comes next gets a build of its own.
		if h := ensure(t, s, reg.request("k", 1)); h.Image.ID != "image-2" {
			t.Errorf("%+v", h)
		}
	})
}

func TestBuildLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, reg := store(t, t.TempDir()), &registry{}
		r := reg.request("k", 1)
		r.Limit = 300 * time.Millisecond
		begun := time.Now()
		if _, err := s.Ensure(t.Context(), r); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != r.Limit {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
	})
}

func TestImageThatIsGoneIsBuiltAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, reg := store(t, t.TempDir()), &registry{}
		ensure(t, s, reg.request("k", 1)).Release()
		reg.images = nil // somebody pruned
		if h := ensure(t, s, reg.request("k", 1)); h.Cached || h.Image.ID != "image-2" {
			t.Errorf("%+v", h)
		}
	})
}

func TestRemove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, reg := t.TempDir(), &registry{}
		s, other := store(t, dir), store(t, dir)
		h := ensure(t, s, reg.request("k", 1))
		second := ensure(t, s, reg.request("k", 1))
		recs, err := other.List()
		if err != nil || len(recs) != 1 || recs[0].ID != "image-1" || recs[0].Key != "k" || recs[0].Bytes != 7 || recs[0].Made.IsZero() {
			t.Fatalf("records %+v %v", recs, err)
		}
		var removed []string
		remove := func(_ context.Context, id string) error { removed = append(removed, id); return nil }
		for _, release := range []func(){h.Release, second.Release} {
			for _, from := range []*Store{s, other} {
				if ok, err := from.Remove(t.Context(), Kept{Record: recs[0]}, remove); ok || err != nil {
					t.Errorf("removed while in use: %v %v", ok, err)
				}
			}
			release()
		}
		if ok, err := other.Remove(t.Context(), Kept{Record: recs[0]}, remove); !ok || err != nil || len(removed) != 1 || removed[0] != "image-1" {
			t.Errorf("%v %v, removed %v", ok, err, removed)
		}
		if recs, err := s.List(); err != nil || len(recs) != 0 {
			t.Errorf("records %+v %v", recs, err)
		}
		if _, err := os.Stat(s.LogPath("k")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the log is still there: %v", err)
		}
	})
}

func TestRemoveThatFailsKeepsTheRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, reg := store(t, t.TempDir()), &registry{}
		ensure(t, s, reg.request("k", 1)).Release()
		recs, err := s.List()
		if err != nil || len(recs) != 1 {
			t.Fatal(recs, err)
		}
		for _, c := range []struct {
			kind providers.Kind
			err  bool
		}{{providers.KindDenied, false}, {providers.KindUnavailable, true}} {
			ok, err := s.Remove(t.Context(), Kept{Record: recs[0]}, func(context.Context, string) error { return providers.Errorf(c.kind, "remove", "no") })
			if ok || (err != nil) != c.err {
				t.Errorf("%s: %v %v", c.kind, ok, err)
			}
		}
		if h := ensure(t, s, reg.request("k", 1)); !h.Cached {
			t.Errorf("%+v", h)
		}
	})
}

// While an image is being removed nobody gets it: who needs it waits, and builds it
// anew afterwards.
func TestB059ImageThatIsBeingRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, reg := t.TempDir(), &registry{}
		s, other := store(t, dir), store(t, dir)
		ensure(t, s, reg.request("k", 1)).Release()
		recs, _ := s.List()
		got := make(chan *Hold, 1)
		_, err := s.Remove(t.Context(), Kept{Record: recs[0]}, func(ctx context.Context, _ string) error {
			impatient, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if _, err := other.Ensure(impatient, reg.request("k", 1)); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "being removed") {
				t.Errorf("%v", err)
			}
			go func() {
				h, err := other.Ensure(ctx, reg.request("k", 1))
				if err != nil {
					t.Error(err)
				}
				got <- h
			}()
			<-time.After(time.Second) // of virtual time
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if h := <-got; h == nil || h.Cached {
			t.Errorf("%+v", h)
		}
	})
}

func TestUnreadableRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir, reg := t.TempDir(), &registry{}
		s := store(t, dir)
		for name, content := range map[string]string{"k.json": "{", "other.json": "[]", "k.lock": "", "notes.txt": "x"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if recs, err := s.List(); err != nil || len(recs) != 0 {
			t.Errorf("records %+v %v", recs, err)
		}
		if h := ensure(t, s, reg.request("k", 1)); h.Cached {
			t.Errorf("%+v", h)
		}
		if recs, err := s.List(); err != nil || len(recs) != 1 {
			t.Errorf("records %+v %v", recs, err)
		}
	})
}

func TestKeysTellPartsApart(t *testing.T) {
	t.Parallel()
	seen := map[Key][]string{}
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"a"}, {"a", "b"}, {"ab"}, {"a,b"}, {"1:a"}, {"a", ""}, {"b", "a"}} {
		k := KeyOf(parts...)
		if other, ok := seen[k]; ok {
			t.Errorf("%q and %q have the same key", parts, other)
		}
		if len(k) != 40 || strings.Trim(string(k), "0123456789abcdef") != "" {
			t.Errorf("key %q", k)
		}
		seen[k] = parts
	}
	if k := KeyOf("a", "b"); k != "a6c523a812c9ad787ea945203aa3a3feec528c4b" {
		t.Errorf("images of earlier versions would not be found: %s", k)
	}
}
