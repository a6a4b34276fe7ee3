package snapshots

import (
	"errors"
	"testing"
	"testing/synctest"

	"harborgate/providers"
)

// TestFailureOfTheProviderIsForgotten: an engine that was away for a moment does
// not cost every trial of a task its image.
func TestFailureOfTheProviderIsForgotten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind   providers.Kind
		builds int
	}{
		{providers.KindUnavailable, 2}, {providers.KindRateLimited, 2}, {providers.KindExhausted, 2},
		{providers.KindInvalid, 1}, {providers.KindInternal, 1}, {providers.KindNotFound, 1},
	} {
		t.Run(c.kind.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := store(t, t.TempDir())
				reg := &registry{fail: providers.E(c.kind, "build", errors.New("no"))}
				for range 2 {
					if _, err := s.Ensure(t.Context(), reg.request("k", 1)); !providers.Is(err, c.kind) {
						t.Errorf("%v", err)
					}
				}
				if reg.builds != c.builds {
					t.Errorf("built %d times, want %d", reg.builds, c.builds)
				}
			})
		})
	}
}
