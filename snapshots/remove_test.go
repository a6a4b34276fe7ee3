package snapshots

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"harborgate/providers"
)

func TestRemoveUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, reg := store(t, t.TempDir()), &registry{}
		hold := ensure(t, s, reg.request("k", 1))
		var removed []string
		remove := func(_ context.Context, id string) error {
			removed = append(removed, id)
			return nil
		}
		try := func(key Key, id string, want bool) {
			t.Helper()
			if got, err := s.RemoveUnknown(t.Context(), key, id, remove); got != want || err != nil {
				t.Errorf("%s of %s: %v %v, want %v", id, key, got, err, want)
			}
		}
		try("k", "older", false) // somebody works with the key right now
		hold.Release()
		try("k", hold.Image.ID, false)
		try("k", "older", true)
		try("other", "lost", true)
		if !slices.Equal(removed, []string{"older", "lost"}) {
			t.Errorf("removed %v", removed)
		}
		if again := ensure(t, s, reg.request("k", 1)); !again.Cached {
			t.Error("the known image was forgotten")
		} else {
			again.Release()
		}
		for kind, fails := range map[providers.Kind]bool{providers.KindDenied: false, providers.KindUnavailable: true} {
			got, err := s.RemoveUnknown(t.Context(), "x", "used", func(context.Context, string) error {
				return providers.E(kind, "remove", errors.New("no"))
			})
			if got || (err != nil) != fails {
				t.Errorf("%s: %v %v", kind, got, err)
			}
		}
	})
}

// What an image replaced, because its base had moved, would stay for ever: it has no tag
// and no record of its own. The image's record knows it.
func TestReplacedImagesAreSurplus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, reg := store(t, t.TempDir()), &registry{}
		for range 3 {
			ensure(t, s, reg.request("k", 1)).Release()
			clear(reg.images) // its base moved: it is not found good any more
		}
		all, err := s.Survey()
		if err != nil || len(all) != 3 {
			t.Fatalf("%+v %v", all, err)
		}
		var removed []string
		denied := "image-2" // a container of it is left
		remove := func(_ context.Context, id string) error {
			if id == denied {
				return providers.E(providers.KindDenied, "remove", errors.New("in use"))
			}
			removed = append(removed, id)
			return nil
		}
		surplus := Policy{Bytes: 100}.Surplus(all, time.Now())
		for _, k := range surplus {
			if _, err := s.Remove(t.Context(), k, remove); err != nil {
				t.Error(err)
			}
		}
		if len(surplus) != 2 || !slices.Equal(removed, []string{"image-1"}) {
			t.Errorf("removed %v of %+v", removed, surplus)
		}
		rec, err := s.read("k")
		if err != nil || rec.ID != "image-3" || len(rec.Replaced) != 1 {
			t.Fatalf("%+v %v", rec, err)
		}
		if gone, err := s.Remove(t.Context(), Kept{Record: rec}, remove); gone || err != nil { // it would be forgotten
			t.Errorf("%v %v", gone, err)
		}
		denied = ""
		if gone, err := s.Remove(t.Context(), Kept{Record: rec}, remove); !gone || err != nil || !slices.Equal(removed, []string{"image-1", "image-2", "image-3"}) {
			t.Errorf("%v %v, removed %v", gone, err, removed)
		}
		if left, err := s.List(); err != nil || len(left) != 0 {
			t.Errorf("%+v %v", left, err)
		}
	})
}

// Who surveyed an image before another process built it again removes nothing of that.
func TestImageThatWasBuiltAgainMeanwhileStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, reg := store(t, t.TempDir()), &registry{}
		hold := ensure(t, s, reg.request("k", 1))
		hold.Release()
		rec, err := s.read("k")
		if err != nil {
			t.Fatal(err)
		}
		rec.ID = "an earlier one"
		gone, err := s.Remove(t.Context(), Kept{Record: rec}, func(_ context.Context, id string) error { return errors.New("removed " + id) })
		if gone || err != nil {
			t.Errorf("%v %v", gone, err)
		}
		if _, err := s.read("k"); err != nil {
			t.Error(err)
		}
	})
}

// An image that was used between the survey and its removal is not the least lately used.
func TestImageThatWasUsedMeanwhileStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, reg := store(t, t.TempDir()), &registry{}
		ensure(t, s, reg.request("k", 1)).Release()
		all, err := s.Survey()
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v %v", all, err)
		}
		<-time.After(time.Hour)
		ensure(t, s, reg.request("k", 1)).Release()
		remove := func(context.Context, string) error { return nil }
		if gone, err := s.Remove(t.Context(), all[0], remove); gone || err != nil {
			t.Errorf("%v %v", gone, err)
		}
		if all, err = s.Survey(); err != nil || len(all) != 1 {
			t.Fatalf("%+v %v", all, err)
		}
		if gone, err := s.Remove(t.Context(), all[0], remove); !gone || err != nil {
			t.Errorf("surveyed again: %v %v", gone, err)
		}
	})
}

// What was held for hours was used until then.
func TestUseEndsWithTheLastHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, reg := store(t, t.TempDir()), &registry{}
		long := ensure(t, s, reg.request("long", 1))
		<-time.After(time.Hour)
		ensure(t, s, reg.request("short", 1)).Release()
		<-time.After(time.Hour)
		long.Release()
		all, err := s.Survey()
		if err != nil || len(all) != 2 || all[0].Key != "long" || time.Since(all[0].Used) > time.Minute {
			t.Errorf("%+v %v", all, err)
		}
	})
}
