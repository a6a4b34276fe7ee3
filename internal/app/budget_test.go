package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"harborgate/configs"
	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/trials"
)

// most is how many trials of a job ran at once.
func most(t *testing.T, j *Job) (run func() trials.JobResult, at func() int) {
	t.Helper()
	seen, stop := j.Events.Subscribe(10_000)
	return func() trials.JobResult {
			sum, err := j.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			stop()
			return sum.Result
		}, func() int {
			now, highest := 0, 0
			for e := range seen {
				switch e.Type {
				case trials.EventStart:
					now++
					highest = max(highest, now)
				case trials.EventEnd:
					now--
				default:
				}
			}
			return highest
		}
}

// TestB074DeclaredCPUsAreAdmittedAgainstTheHost: eight trials that declare two cores
// each, four cores, and eight slots.
func TestB074DeclaredCPUsAreAdmittedAgainstTheHost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limits configs.Limits
		want   int
		noted  bool
	}{
		{configs.Limits{}, 8, false}, // nothing is known of the host
		{configs.Limits{CPUs: 4}, 2, false},
		{configs.Limits{CPUs: 4, OvercommitCPUs: 1}, 2, false},
		{configs.Limits{CPUs: 4, OvercommitCPUs: 2}, 4, true},
		{configs.Limits{CPUs: 4, OvercommitCPUs: 0.5}, 1, true},
		{configs.Limits{CPUs: 1}, 1, false}, // more than there are: alone
	} {
		t.Run(fmt.Sprintf("%g cores, %g times", c.limits.CPUs, c.limits.OvercommitCPUs), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				set := filepath.Join(t.TempDir(), "set")
				for i := range 8 {
					putTask(t, set, fmt.Sprintf("t%d", i), "sleep 3; echo 1 > /logs/verifier/reward.txt", taskToml+"[environment]\ncpus = 2\n")
				}
				cfg := jobOf(t, set)
				cfg.NConcurrentTrials = 8
				j := start(t, cfg, fake.NewWorld())
				j.app.Host.Providers = map[string]configs.Provider{"fake": {Limits: c.limits}}
				run, highest := most(t, j)
				res := run()
				if n := highest(); n != c.want {
					t.Errorf("%d trials at once, want %d", n, c.want)
				}
				if noted := strings.Contains(fmt.Sprint(res.Harborgate.Notes), "overcommit_cpus"); noted != c.noted || res.Harborgate.Graded != 8 {
					t.Errorf("noted %v, want %v; %d graded", noted, c.noted, res.Harborgate.Graded)
				}
			})
		})
	}
}

// sized is a provider that knows what it has, when it is asked often enough.
type sized struct {
	providers.Provider
	silent int // times that it does not say
}

func (s *sized) Unwrap() providers.Provider { return s.Provider }

func (s *sized) Size(context.Context) (providers.Resources, error) {
	if s.silent > 0 {
		s.silent--
		return providers.Resources{}, providers.E(providers.KindUnavailable, "size", errors.New("no answer"))
	}
	return providers.Resources{CPUs: 4, MemoryMiB: 8192}, nil
}

// What a provider has that was away at the start, or did not say it then, holds as soon as
// it is back.
func TestProviderThatIsBackIsNotOverfilled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		down   error
		silent int
	}{
		"it was away":                {errors.New("no answer"), 0},
		"it did not say what it has": {nil, 2},
		"both":                       {errors.New("no answer"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				set := filepath.Join(t.TempDir(), "set")
				for i := range 4 {
					putTask(t, set, fmt.Sprintf("t%d", i), "sleep 3; echo 1 > /logs/verifier/reward.txt", taskToml+"[environment]\ncpus = 2\n")
				}
				cfg := jobOf(t, set)
				cfg.NConcurrentTrials = 4
				fleet, _ := fakes("a")
				fleet[0].Provider, fleet[0].Down = &sized{fleet[0].Provider, c.silent}, c.down
				j := startOn(t, cfg, fleet, nil)
				run, highest := most(t, j)
				res := run()
				if n := highest(); n != 2 || res.Harborgate.Graded != 4 {
					t.Errorf("%d trials of 2 CPUs at once where there are 4, %d graded", n, res.Harborgate.Graded)
				}
			})
		})
	}
}

// What no provider has is told before anything runs; what one of several has is not.
func TestTaskLargerThanItsProviderIsNamedBeforehand(t *testing.T) {
	t.Parallel()
	a, set := newApp(t, hostOf(t, nil)), filepath.Join(t.TempDir(), "set")
	putTask(t, set, "wide", "echo 1 > /logs/verifier/reward.txt", taskToml+"[environment]\ncpus = 64\n")
	putTask(t, set, "small", "echo 1 > /logs/verifier/reward.txt", taskToml+"[environment]\ncpus = 2\n")
	for _, c := range []struct {
		name   string
		second float64
		policy string
		want   string
	}{
		{"both are smaller", 32, "auto", "task wide declares more than there is and will probably be refused: a has 4 CPUs, not 64"},
		{"one is large enough", 64, "auto", ""},
		{"the other's size is not known", 0, "auto", ""},
		{"nothing is enforced", 32, "ignore", ""},
	} {
		a.Host.Providers = map[string]configs.Provider{"a": {Limits: configs.Limits{CPUs: 4}}, "b": {Limits: configs.Limits{CPUs: c.second}}}
		cfg := jobOf(t, set)
		cfg.Environment.CPUEnforcementPolicy = c.policy
		fleet, _ := fakes("a", "b")
		plan, err := NewPlan(cfg, "5e0c1f0e-0000-4000-8000-000000000000")
		if err != nil {
			t.Fatal(err)
		}
		notes := a.TooLarge(t.Context(), fleet, plan)
		if got := fmt.Sprint(notes); (c.want == "") != (len(notes) == 0) || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// Which of several providers could take a trial is known beforehand.
func TestProvidersThatCouldTakeATrial(t *testing.T) {
	t.Parallel()
	a, set := newApp(t, hostOf(t, nil)), filepath.Join(t.TempDir(), "set")
	for name, more := range map[string]string{"gpu": "gpus = 1", "huge": "cpus = 99", "small": "cpus = 2", "wide": "cpus = 8"} {
		putTask(t, set, name, "echo 1 > /logs/verifier/reward.txt", taskToml+"[environment]\n"+more+"\n")
	}
	a.Host.Providers = map[string]configs.Provider{"a": {Limits: configs.Limits{CPUs: 4}}, "b": {Limits: configs.Limits{CPUs: 16}}}
	fleet, _ := fakes("a", "b")
	plan, err := NewPlan(jobOf(t, set), "5e0c1f0e-0000-4000-8000-000000000000")
	if err != nil {
		t.Fatal(err)
	}
	suited := a.Suited(t.Context(), fleet)
	want := map[string]string{
		"gpu":   "[] map[a:provider a cannot run this task yet, it needs gpu",
		"huge":  "[a b] map[]",
		"small": "[a b] map[]",
		"wide":  "[b] map[a:it has 4 CPUs, not 8]",
	}
	for _, trial := range plan.Trials {
		able, not := suited.Of(trial)
		if got := fmt.Sprint(able, not); !strings.HasPrefix(got, want[trial.Task.Name]) {
			t.Errorf("%s: %s, want %s", trial.Task.Name, got, want[trial.Task.Name])
		}
	}
}
