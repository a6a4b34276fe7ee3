package authproxy

import (
	"net/http"
	"testing"
	"time"

	"harborgate/authproxy/internal/wire"
)

func TestFailuresOfTheUpstreamAreNotUnpriced(t *testing.T) {
	t.Parallel()
	g, _ := newGrant(GrantSpec{Job: "j", Trial: "t", Phase: "agent", Expires: time.Now().Add(time.Hour)})
	defer g.end()
	for _, status := range []int{http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusOK} {
		g.count(&Record{Status: status, billed: true, Usage: wire.Usage{Input: 1}})
	}
	if n := g.status().Totals.Unpriced; n != 1 {
		t.Errorf("%d requests without a price, one used something", n)
	}
}
