package app

import (
	"errors"
	"testing"
)

// A job keeps its budget when it goes on with another proxy than the one that it began
// with, whose ledger knows nothing of what was spent.
func TestJobBudgetHoldsOverAChangeOfProxy(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, askLine+"\n"+askLine, "")
	own := r.app
	r.serve()
	service := r.app
	r.set.Budget = 4_000_000
	var before USD
	for i, app := range []*App{service, own, service, own} {
		r.app = app
		s, _, err := r.run()
		var used *BudgetError
		if !errors.As(err, &used) {
			t.Fatalf("session %d: %v", i, err)
		}
		var now USD
		if err := now.UnmarshalText([]byte(s.Result.Harborgate.SpentUSD)); err != nil || now == 0 || now < before || now > r.set.Budget {
			t.Errorf("session %d: spent %s after %s, %v", i, now, before, err)
		}
		before = now
	}
	if n := len(r.mock.Requests()); n != 1 {
		t.Errorf("%d requests arrived", n)
	}
}
