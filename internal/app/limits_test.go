package app

import (
	"testing"

	"harborgate/configs"
	"harborgate/internal/shares"
)

func TestConfiguredLimitOfBuildsIsNotExceeded(t *testing.T) {
	t.Parallel()
	a := &App{Host: configs.Host{Providers: map[string]configs.Provider{"one": {Limits: configs.Limits{Builds: 1}}, "any": {}}}}
	for name, want := range map[string]int{"one": 1, "any": maxBuilds} {
		if n := a.limits(name).Builds; n != want {
			t.Errorf("%s: %d builds at once, want %d", name, n, want)
		}
	}
}

func TestLimitsInForceAreThoseOfRunningJobs(t *testing.T) {
	t.Parallel()
	configured := configs.Limits{Sandboxes: 3, CPUs: 4}
	// Cores that are promised twice, and what the engine's host has of memory.
	if l := inForce(configured, shares.Amount{CPUs: 8, MemoryMiB: 1024}); l != (configs.Limits{Sandboxes: 3, CPUs: 8, MemoryMiB: 1024}) {
		t.Errorf("%+v", l)
	}
	if l := inForce(configured, shares.Amount{}); l != configured {
		t.Errorf("%+v", l)
	}
}
