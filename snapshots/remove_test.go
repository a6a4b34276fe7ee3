package snapshots

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

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
