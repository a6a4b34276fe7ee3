package fake

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
)

// struck tells which of many calls fail under a seed.
func struck(t *testing.T, percent float64, seed uint64) []int {
	t.Helper()
	w := NewWorld()
	w.Gamble(Chance{Percent: percent, Seed: seed})
	var out []int
	for i := range 400 {
		op := []Op{OpCreate, OpExec, OpUpload, OpDestroy}[i%4]
		if w.perform(t.Context(), op, "x", func(context.Context) (*box, error) { return nil, nil }) != nil {
			out = append(out, i)
		}
	}
	w.Heal()
	if f := w.strike(OpCheck, "x"); f.Op != "" {
		t.Errorf("healed, and struck by %+v", f)
	}
	return out
}

func TestChance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		if got := struck(t, 0, 1); len(got) > 0 {
			t.Errorf("no chance, and %d are struck", len(got))
		}
		first := struck(t, 20, 1)
		if n := len(first); n < 20 || n > 100 {
			t.Errorf("%d of 400 failed at 20 percent", n)
		}
		if again := struck(t, 20, 1); !slices.Equal(first, again) {
			t.Errorf("the same seed struck %v and %v", first, again)
		}
		if other := struck(t, 20, 2); slices.Equal(first, other) {
			t.Error("another seed struck the same")
		}
	})
}
