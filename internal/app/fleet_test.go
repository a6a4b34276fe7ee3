package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"harborgate/configs"
	"harborgate/internal/events"
	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/trials"
	"harborgate/trials/results"
)

// fakes are providers with a world for each.
func fakes(names ...string) (Fleet, map[string]*fake.World) {
	var f Fleet
	worlds := map[string]*fake.World{}
	for i, name := range names {
		worlds[name] = fake.NewWorld()
		f = append(f, Member{Provider: fake.New(fake.Options{Name: name, World: worlds[name]}), Rank: i})
	}
	return f, worlds
}

// startOn makes a job on a fleet.
func startOn(t *testing.T, cfg trials.JobConfig, fleet Fleet, limits map[string]configs.Provider) *Job {
	t.Helper()
	a := newApp(t, hostOf(t, nil))
	a.Host.Providers = limits
	plan, err := NewPlan(cfg, "11111111-2222-3333-4444-555555555555")
	if err != nil {
		t.Fatal(err)
	}
	j, err := a.StartJob(plan, fleet, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// where counts the results of a job by provider.
func where(t *testing.T, dir string) map[string]int {
	t.Helper()
	found, err := results.ReadWholeTrials(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, f := range found {
		if f.Result != nil && f.Result.RewardValid {
			out[f.Result.Harborgate.Provider]++
		}
	}
	return out
}

// placements are the decisions that a job's events tell.
func placements(t *testing.T, dir string) []string {
	t.Helper()
	all, err := events.NewReader(filepath.Join(dir, results.EventsFile)).Read()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range all {
		var d struct {
			Provider, Reason string
			Passed           map[string]string
		}
		if e.Type != trials.EventPlaced {
			continue
		}
		if err := json.Unmarshal(e.Data, &d); err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s: %s %v", d.Provider, d.Reason, d.Passed))
	}
	return out
}

// What the first provider has no room for, its CPUs, runs at the next one, and every
// decision says why.
func TestJobOverflowsToTheNextProvider(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := filepath.Join(t.TempDir(), "set")
		putTask(t, set, "a", "sleep 30; echo 1 > /logs/verifier/reward.txt", taskToml+"[environment]\ncpus = 1\n")
		cfg := jobOf(t, set)
		cfg.NAttempts, cfg.NConcurrentTrials = 12, 6
		fleet, worlds := fakes("near", "far")
		j := startOn(t, cfg, fleet, map[string]configs.Provider{"near": {Limits: configs.Limits{CPUs: 2}}})
		sum, err := j.Run(t.Context())
		if err != nil || sum.Result.Harborgate.Graded != 12 {
			t.Fatalf("%d graded, %v", sum.Result.Harborgate.Graded, err)
		}
		if got := where(t, j.Dir); got["near"] != 4 || got["far"] != 8 {
			t.Errorf("%v", got)
		}
		said := placements(t, j.Dir)
		if len(said) != 12 || said[0] != "near: first choice map[]" || !strings.Contains(strings.Join(said, "\n"), "far: first that can take it map[near:full: too little CPUs]") {
			t.Errorf("%q", said)
		}
		for name, w := range worlds {
			if w.Left() > 0 {
				t.Errorf("%d sandboxes are left at %s", w.Left(), name)
			}
		}
	})
}

// A provider dies under a job and comes back: its trials run again elsewhere, nothing
// is lost or left, and it takes trials again.
func TestJobOutlivesEachOfItsProviders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := manyTrials(t)
		cfg.NAttempts, cfg.NConcurrentTrials = 60, 6
		fleet, worlds := fakes("a", "b", "c")
		limits := map[string]configs.Provider{}
		for i := range fleet {
			fleet[i].Rank, fleet[i].Weight = 0, 1
			name := fleet[i].Info().Name
			away(worlds[name], time.Duration(65+100*i)*time.Second)
			time.AfterFunc(time.Duration(125+100*i)*time.Second, worlds[name].Heal)
		}
		j := startOn(t, cfg, fleet, limits)
		sum, err := j.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		reconcile(t, sum.Result)
		if x := sum.Result.Harborgate; x.Graded != 60 || len(x.CleanupFailed) > 0 {
			t.Errorf("%d graded, %v, not removed %v", x.Graded, x.Ungraded, x.CleanupFailed)
		}
		for name, w := range worlds {
			if n := where(t, j.Dir)[name]; w.Left() > 0 || n < 10 {
				t.Errorf("%s: %d sandboxes left, %d verdicts", name, w.Left(), n)
			}
		}
		if said := strings.Join(placements(t, j.Dir), "\n"); !strings.Contains(said, ":down: ") {
			t.Errorf("nothing says that a provider was down: %s", said)
		}
	})
}

// A sandbox that was made and of which nobody was told, because its provider went away
// with the answer, is gone when the job is.
func TestSandboxWithoutAnAnswerIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fleet, worlds := fakes("a", "b")
		j := startOn(t, manyTrials(t), fleet, nil)
		worlds["a"].Inject(fake.Fault{Op: fake.OpCreate, Nth: 5, Effect: fake.Lose, Kind: providers.KindUnavailable})
		away(worlds["a"], 95*time.Second)
		time.AfterFunc(150*time.Second, worlds["a"].Heal)
		sum, err := j.Run(t.Context())
		if x := sum.Result.Harborgate; x.Graded != 20 || err != nil || len(x.CleanupFailed) > 0 {
			t.Errorf("%d graded, %v, %v, not removed %v", x.Graded, x.Ungraded, err, x.CleanupFailed)
		}
		if n := worlds["a"].Left(); n > 0 {
			t.Errorf("%d sandboxes are left", n)
		}
	})
}

// A build's sandbox whose Create got no answer is nobody's, and goes with the outage too.
func TestSandboxOfABuildWithoutAnAnswerIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fleet, worlds := fakes("a", "b")
		j := startOn(t, manyTrials(t), fleet, nil)
		w := worlds["a"]
		away(w, 95*time.Second)
		time.AfterFunc(150*time.Second, w.Heal)
		time.AfterFunc(160*time.Second, func() { // what a build that was cut off has left
			_, err := j.sites[0].Create(t.Context(), providers.Spec{
				Name: providers.Name("build", j.app.owner.ID, "any"), Source: providers.Source{Image: "debian"}, Deadline: time.Now().Add(time.Hour),
				Labels: providers.Labels{Owner: j.app.owner.ID, Host: j.app.owner.Host, Expires: time.Now().Add(2 * time.Hour)},
			})
			if err != nil {
				t.Error(err)
			}
		})
		if sum, err := j.Run(t.Context()); err != nil || sum.Result.Harborgate.Graded != 20 {
			t.Errorf("%d graded, %v", sum.Result.Harborgate.Graded, err)
		}
		if n := w.Left(); n > 0 {
			t.Errorf("%d sandboxes are left", n)
		}
	})
}

// One that is gone for good costs nothing when another can do its work.
func TestProviderThatStaysAwayIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fleet, worlds := fakes("a", "b")
		j := startOn(t, manyTrials(t), fleet, nil)
		away(worlds["a"], 65*time.Second)
		sum, err := j.Run(t.Context())
		if x := sum.Result.Harborgate; x.Graded != 20 || err != nil {
			t.Errorf("%d graded, %v, %v", x.Graded, x.Ungraded, err)
		}
		worlds["a"].Clear()
	})
}

// A provider without room is asked again later, and meanwhile others are.
func TestExhaustedProviderIsNoFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fleet, worlds := fakes("a", "b")
		full := fake.Fault{Op: fake.OpCreate, Effect: fake.Refuse, Kind: providers.KindExhausted}
		worlds["a"].Inject(full)
		time.AfterFunc(45*time.Second, worlds["a"].Heal)
		j := startOn(t, manyTrials(t), fleet, nil)
		sum, err := j.Run(t.Context())
		if x := sum.Result.Harborgate; x.Graded != 20 || err != nil {
			t.Fatalf("%d graded, %v, %v", x.Graded, x.Ungraded, err)
		}
		if got := where(t, j.Dir); got["a"] < 5 || got["b"] < 3 {
			t.Errorf("%v", got)
		}
	})
}

func TestFleetOfWhichNobodyAnswersIsAnError(t *testing.T) {
	t.Parallel()
	fleet, worlds := fakes("a", "b")
	gone := fake.Fault{Op: fake.OpCheck, Effect: fake.Refuse, Kind: providers.KindUnavailable}
	worlds["a"].Inject(gone)
	notes, err := fleet.Check(t.Context())
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0].Message, "provider a does not answer, the job begins without it") {
		t.Errorf("%v %v", notes, err)
	}
	worlds["b"].Inject(gone)
	if _, err := fleet.Check(t.Context()); !errors.As(err, new(*providers.Error)) {
		t.Errorf("%v", err)
	}
}

// A trial that no provider can run claims no place: its message and its placement name
// each provider with the reason.
func TestTrialThatNoProviderCanRunIsPlacedNowhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := filepath.Join(t.TempDir(), "set")
		putTask(t, set, "gpu", "echo 1 > /logs/verifier/reward.txt", taskToml+"[environment]\ngpus = 1\n")
		fleet, _ := fakes("a", "c")
		j := startOn(t, jobOf(t, set), fleet, nil)
		if _, err := j.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		found, err := results.ReadWholeTrials(j.Dir)
		if err != nil || len(found) != 1 {
			t.Fatalf("%d trials, %v", len(found), err)
		}
		res := found[0].Result
		for _, want := range []string{"provider a cannot run this task yet, it needs gpu", "provider c cannot run this task yet, it needs gpu"} {
			if !strings.Contains(res.ExceptionInfo.Message, want) {
				t.Errorf("%q does not say %q", res.ExceptionInfo.Message, want)
			}
		}
		if res.ExceptionInfo.Type != trials.ExcUnsupportedTask || res.Harborgate.Provider != "" {
			t.Errorf("%s at %q", res.ExceptionInfo.Type, res.Harborgate.Provider)
		}
		said := strings.Join(placements(t, j.Dir), "\n")
		if !strings.HasPrefix(said, ": no provider can run it map[a:provider a cannot run") || !strings.Contains(said, " c:provider c cannot run") {
			t.Errorf("%q", said)
		}
	})
}
