package app

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"harborgate/providers"
	"harborgate/providers/fake"
)

// A trial that was refused five times for want of room may still be moved for an outage.
func TestRefusalsForWantOfRoomUseUpNoMovesForOutages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := fake.NewWorld()
		cfg := manyTrials(t)
		cfg.NAttempts, cfg.Retry.MaxRetries = 1, 0
		for n := range mostMoves { // the first create proves the image
			w.Inject(fake.Fault{Op: fake.OpCreate, Nth: n + 2, Effect: fake.Refuse, Kind: providers.KindExhausted})
		}
		pauses := 155 * time.Second // 5, 10, 20, 40 and 80
		away(w, pauses+10*time.Second)
		heal := time.AfterFunc(pauses+time.Minute, w.Heal)
		defer heal.Stop()
		j := start(t, cfg, w)
		sum, err := j.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if moved, err := filepath.Glob(filepath.Join(j.Dir, "*", "tries", "*", "moved.txt")); err != nil || len(moved) != mostMoves+1 {
			t.Errorf("moved %d times, want %d: %v", len(moved), mostMoves+1, err)
		}
		if x := sum.Result.Harborgate; x.Graded != 1 || sum.Result.Stats.Retries != 0 {
			t.Errorf("%d graded, ungraded %v, %d retries", x.Graded, x.Ungraded, sum.Result.Stats.Retries)
		}
	})
}
