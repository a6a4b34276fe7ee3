package snapshots

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"

	"harborgate/providers"
)

var errNo = errors.New("no")

// TestFailureOfTheProviderIsForgotten: an engine that was away for a moment does
// not cost every trial of a task its image.
func TestFailureOfTheProviderIsForgotten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind   providers.Kind
		builds int
		err    error
	}{
		{providers.KindInternal, 2, fmt.Errorf("write its log: %w", syscall.ENOSPC)},
		{providers.KindUnavailable, 2, errNo}, {providers.KindRateLimited, 2, errNo}, {providers.KindExhausted, 2, errNo}, {providers.KindAlreadyExists, 2, errNo},
		{providers.KindInvalid, 1, errNo}, {providers.KindInternal, 1, errNo}, {providers.KindNotFound, 1, errNo},
	} {
		t.Run(c.kind.String()+" "+c.err.Error(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := store(t, t.TempDir())
				reg := &registry{fail: providers.E(c.kind, "build", c.err)}
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
