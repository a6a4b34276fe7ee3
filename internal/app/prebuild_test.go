package app

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"harborgate/providers/fake"
	"harborgate/trials"
	"harborgate/trials/results"
)

// prebuildSet is three environments, one of which cannot be built, and five tasks.
func prebuildSet(t *testing.T) string {
	t.Helper()
	set := filepath.Join(t.TempDir(), "set")
	for name, dockerfile := range map[string]string{
		"a1": "FROM debian\nRUN echo a\n", "a2": "FROM debian\nRUN echo a\n", "b1": "FROM debian\nRUN echo b\n", "b2": "FROM debian\nRUN echo b\n",
		"bad": "FROM debian\nRUN exit 9\n",
	} {
		dir := putTask(t, set, name, "echo 1 > /logs/verifier/reward.txt", "")
		put(t, filepath.Join(dir, "environment", "Dockerfile"), dockerfile)
	}
	return set
}

func states(all []Prebuilt) string {
	counts := map[BuildState]int{}
	for _, p := range all {
		counts[p.State]++
	}
	return fmt.Sprint(counts)
}

// TestPrebuild makes each image once before the trials, which build nothing more; what
// failed costs its own trials and is told once.
func TestPrebuild(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := start(t, jobOf(t, prebuildSet(t)), fake.NewWorld())
		var all []Prebuilt
		j.Prebuild(t.Context(), func(p Prebuilt) { all = append(all, p) })
		if got := states(all); got != "map[built:2 failed:1]" {
			t.Errorf("%s: %+v", got, all)
		}
		sum, err := j.Run(t.Context())
		if err != nil || sum.Result.Harborgate.Graded != 4 || sum.Result.Harborgate.Ungraded[trials.BlameTask] != 1 {
			t.Errorf("%+v %v", sum.Result.Harborgate, err)
		}
		told := 0
		for _, n := range sum.Result.Harborgate.Notes {
			if n.Code == "build_failed" && strings.Contains(n.Message, "task bad failed: its log is ") {
				told++
			}
		}
		if told != 1 {
			t.Errorf("told %d times: %v", told, sum.Result.Harborgate.Notes)
		}
		said, err := os.ReadFile(filepath.Join(j.Dir, results.EventsFile))
		if n := strings.Count(string(said), `"cached":false`); n != 2 || err != nil {
			t.Errorf("%d builds, %v", n, err)
		}
	})
}

// TestBuildImages looks, makes, finds, and tries again what failed.
func TestBuildImages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, set, p := newApp(t, hostOf(t, nil)), prebuildSet(t), fake.New(fake.Options{World: fake.NewWorld()})
		plan, err := NewPlan(jobOf(t, set), "id")
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"map[missing:3]", "map[built:2 failed:1]", "map[failed:1 present:2]", "map[missing:1 present:2]"} {
			var all []Prebuilt
			if err := a.BuildImages(t.Context(), plan, p, i == 0 || i == 3, func(one Prebuilt) { all = append(all, one) }); err != nil {
				t.Fatal(err)
			}
			if got := states(all); got != want {
				t.Errorf("step %d: %s, want %s", i, got, want)
			}
			failed := slices.IndexFunc(all, func(one Prebuilt) bool { return one.State == ImageFailed })
			if failed >= 0 && (all[failed].Log == "" || strings.Contains(all[failed].Error, "not tried again")) {
				t.Errorf("step %d: %+v", i, all[failed])
			}
		}
		// A bound does not take what was asked for.
		a.Host.Snapshots.KeepMiB = 1
		if err := a.BuildImages(t.Context(), plan, p, false, func(Prebuilt) {}); err != nil {
			t.Fatal(err)
		}
		if kept, err := a.Snapshots(p); len(kept) != 2 || err != nil {
			t.Errorf("%+v %v", kept, err)
		}
		a.prune(t.Context(), p, nil)
		if kept, err := a.Snapshots(p); len(kept) != 1 || err != nil { // each has a MiB
			t.Errorf("%+v %v", kept, err)
		}
	})
}
