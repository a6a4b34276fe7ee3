package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/trials"
	"harborgate/trials/results"
)

// manyTrials is a job of twenty trials of half a minute, two at once.
func manyTrials(t *testing.T) trials.JobConfig {
	t.Helper()
	set := filepath.Join(t.TempDir(), "set")
	putTask(t, set, "a", "sleep 30; echo 1 > /logs/verifier/reward.txt", "")
	cfg := jobOf(t, set)
	cfg.NAttempts, cfg.NConcurrentTrials = 20, 2
	return cfg
}

// away makes the provider go at a time, as if nobody listened.
func away(w *fake.World, at time.Duration) {
	time.AfterFunc(at, func() {
		gone := func(op fake.Op) fake.Fault {
			return fake.Fault{Op: op, Effect: fake.Refuse, Kind: providers.KindUnavailable}
		}
		w.Inject(gone(fake.OpCheck), gone(fake.OpCreate), gone(fake.OpBuild), gone(fake.OpExec), gone(fake.OpDownload), gone(fake.OpDestroy))
	})
}

func TestProviderThatGoesAndComesBackCostsWhatRan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := fake.NewWorld()
		j := start(t, manyTrials(t), w)
		away(w, 65*time.Second)
		time.AfterFunc(200*time.Second, w.Heal)
		sum, err := j.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		x := sum.Result.Harborgate
		reconcile(t, sum.Result)
		if lost := x.Ungraded[trials.BlameInfrastructure]; lost < 1 || lost > 4 || x.Graded+lost != 20 {
			t.Errorf("%d graded, ungraded %v", x.Graded, x.Ungraded)
		}
		if sum.Result.FinishedAt == nil || len(x.CleanupFailed) > 0 || w.Left() > 0 {
			t.Errorf("finished %v, not removed %v, left %d", sum.Result.FinishedAt, x.CleanupFailed, w.Left())
		}
		said := fmt.Sprint(x.Notes)
		if !strings.Contains(said, "no trial starts before this is over") || !strings.Contains(said, "the outage is over") {
			t.Errorf("notes %s", said)
		}
	})
}

func TestProviderThatIsGoneForGoodStopsTheJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := fake.NewWorld()
		defer w.Clear()
		j := start(t, manyTrials(t), w)
		away(w, 65*time.Second)
		begun := time.Now()
		sum, err := j.Run(t.Context())
		var gone *OutageError
		if !errors.As(err, &gone) || !strings.Contains(err.Error(), "harbor job resume") {
			t.Fatalf("%v", err)
		}
		if took := time.Since(begun); took > outagePatience+5*time.Minute {
			t.Errorf("it took %s", took)
		}
		reconcile(t, sum.Result)
		s, x := sum.Result.Stats, sum.Result.Harborgate
		if s.Pending < 10 || sum.Result.FinishedAt != nil || x.Graded < 2 || x.Interrupted == "" {
			t.Errorf("%d pending, finished %v, %d graded, interrupted by %q", s.Pending, sum.Result.FinishedAt, x.Graded, x.Interrupted)
		}
		if len(x.CleanupFailed) == 0 {
			t.Error("what is left is not told")
		}
		found, err := results.ReadTrials(j.Dir)
		if err != nil || len(found) != s.Completed {
			t.Errorf("%d results on disk, %d in the job's: %v", len(found), s.Completed, err)
		}
	})
}

func TestOutageEndsWithTheJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &outage{
			probe: func(context.Context) error { return errors.New("away") }, patience: time.Hour,
			stop: func(error) { t.Error("it stopped a job that had ended") }, tell: func(string) {}, doubt: true,
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		passed := make(chan error)
		for range 3 {
			go func() { passed <- o.pass(ctx) }()
		}
		for range 3 {
			if err := <-passed; !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
		}
	})
}
