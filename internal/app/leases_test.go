package app

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"harborgate/configs"
	"harborgate/internal/shares"
	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/scheduler"
	"harborgate/trials"
)

// poolOf makes an App hold its leases with another process of the host, that has some.
func poolOf(t *testing.T, a *App, provider string, limits shares.Need, has int, each shares.Need) {
	t.Helper()
	o, err := shares.Register(a.Dirs.State)
	if err != nil {
		t.Fatal(err)
	}
	other, err := o.Pool(provider, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := other.Close(); err != nil {
			t.Error(err)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	other.For("another job", limits)
	for range has {
		if _, ok, err := other.Acquire(t.Context(), each); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if a.pools[provider], err = a.owner.Pool(provider, nil); err != nil {
		t.Fatal(err)
	}
}

// A job may declare each of four cores twice, be they configured or what the provider has.
// Beside seven of them a trial without a job, and a build, go on; not more than jobs, too.
func TestTrialsAndBuildsHoldToTheLimitsOfJobs(t *testing.T) {
	t.Parallel()
	core := scheduler.Resources{CPUs: 1}
	uses := map[string]func(ctx context.Context, t *testing.T, a *App, p providers.Provider) error{
		"trial": func(ctx context.Context, t *testing.T, a *App, p providers.Provider) error {
			dir := putTask(t, t.TempDir(), "one", "echo 1 > /logs/verifier/reward.txt", taskToml+"[environment]\ncpus = 1\n")
			cfg := trials.NewTrialConfig(trials.TaskConfig{Path: &dir})
			cfg.TrialName, cfg.TrialsDir = "alone", t.TempDir()
			_, err := a.RunTrial(ctx, cfg, p, Settings{})
			return err
		},
		"build": func(ctx context.Context, t *testing.T, a *App, p providers.Provider) error {
			set := filepath.Join(t.TempDir(), "set")
			putTask(t, set, "one", "true", "")
			plan, err := NewPlan(jobOf(t, set), "id")
			if err != nil {
				return err
			}
			return a.BuildImages(ctx, plan, p, false, func(Prebuilt) {})
		},
	}
	for what, use := range uses {
		for where, limits := range map[string]configs.Limits{"configured": {CPUs: 4, OvercommitCPUs: 2}, "measured": {OvercommitCPUs: 2}} {
			t.Run(what+" "+where, func(t *testing.T) {
				t.Parallel()
				a := newApp(t, hostOf(t, nil))
				a.Host.Providers = map[string]configs.Provider{"a": {Limits: limits}}
				poolOf(t, a, "a", shares.Need{MilliCPUs: 8000}, 7, needOf(core))
				p := &sized{fake.New(fake.Options{Name: "a", World: fake.NewWorld()}), 0}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := use(ctx, t, a, p); err != nil {
					t.Fatal(err)
				}
				for n, want := range []bool{true, false} {
					if _, ok, err := a.leases("a").Acquire(t.Context(), "", core); ok != want || err != nil {
						t.Errorf("core %d of 8: %v %v", 8+n, ok, err)
					}
				}
			})
		}
	}
}
