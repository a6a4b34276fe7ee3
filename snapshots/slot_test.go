package snapshots

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gofrs/flock"

	"harborgate/providers"
)

// TestSlotIsTakenForBuildsOnly, and before the build keeps others out.
func TestSlotIsTakenForBuildsOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, reg, taken, held := store(t, t.TempDir()), &registry{}, 0, 0
		r := reg.request("k", 1)
		r.Slot = func(context.Context) (func(), error) {
			if l := flock.New(s.path("k", ".lock")); !must(l.TryLock()) || l.Unlock() != nil {
				t.Error("others wait while there is no room")
			}
			taken, held = taken+1, held+1
			return func() { held-- }, nil
		}
		for range 2 {
			ensure(t, s, r).Release()
		}
		if taken != 1 || held != 0 {
			t.Errorf("taken %d times, %d held", taken, held)
		}
		r = reg.request("other", 1)
		r.Slot = func(context.Context) (func(), error) { return nil, errors.New("no room") }
		if _, err := s.Ensure(t.Context(), r); err == nil || !strings.Contains(err.Error(), "no room") || reg.builds != 1 {
			t.Errorf("%v after %d builds", err, reg.builds)
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestOneSlotIsEnough for an image, one that is made from it, and who wants both.
func TestOneSlotIsEnough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, reg, room := store(t, t.TempDir()), &registry{}, make(chan struct{}, 1)
		slot := func(ctx context.Context) (func(), error) {
			select {
			case room <- struct{}{}:
				return func() { <-room }, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		below, top := reg.request("below", 1), reg.request("top", 1)
		build := top.Build
		top.From = &below
		top.Build = func(ctx context.Context, log io.Writer) (providers.Image, error) {
			hold, err := s.Ensure(ctx, reg.request("below", 1))
			if err != nil {
				return providers.Image{}, err
			}
			defer hold.Release()
			return build(ctx, log)
		}
		below.Slot, top.Slot = slot, slot
		var wg sync.WaitGroup
		for _, r := range []Request{top, below, top} {
			wg.Go(func() { ensure(t, s, r).Release() })
		}
		wg.Wait()
		if reg.builds != 2 || reg.most != 1 {
			t.Errorf("%d builds, %d at once", reg.builds, reg.most)
		}
	})
}
