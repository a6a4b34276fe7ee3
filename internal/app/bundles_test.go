package app

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/tasks"
	"harborgate/trials"
)

// A version that nobody has is said once, before anything is made; what is there is
// not fetched, nor what is installed in sandboxes.
func TestAgentThatCannotBeFetchedIsSaidFirst(t *testing.T) {
	bin := t.TempDir()
	npm := "#!/bin/sh\ncase $2 in *@9.9.9) echo 'npm error code ETARGET' >&2; exit 1 ;; esac\n"
	if err := os.WriteFile(filepath.Join(bin, "npm"), []byte(npm), 0o755); err != nil {
		t.Fatal(err)
	}
	r := newModelRig(t, "true", "")
	agent, model := "claude-code", "anthropic/m"
	r.cfg.Agents[0].Name, r.cfg.Agents[0].ModelName = &agent, &model
	there := filepath.Join(r.app.Dirs.Cache, "agents", "claude-code-"+runtime.GOARCH+"-1.0.0")
	if err := os.MkdirAll(there, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, version, install string
		lacks                  bool
		said                   string // by the look
		failed                 string
		fetching               int
	}{
		{bin, "9.9.9", "host", true, "", "@9.9.9: choose another --ak version", 1},
		{"/nowhere", "9.9.9", "host", true, "npm is not in the PATH", "npm is not in the PATH", 0},
		{"/nowhere", "9.9.9", "inside", false, "", "", 0},
		{"/nowhere", "1.0.0", "host", false, "", "", 0},
	} {
		t.Setenv("PATH", c.path)
		r.cfg.Agents[0].Kwargs = trials.Object[any]{"version": c.version, "install": c.install}
		plan, err := NewPlan(r.cfg, "5e0c1f0e-0000-4000-8000-000000000000")
		if err != nil {
			t.Fatal(err)
		}
		wrong := func(err error, said string) bool {
			return (err != nil) != (said != "") || err != nil && !strings.Contains(err.Error(), said)
		}
		lacks, err := r.app.LacksAgents(t.Context(), plan)
		if lacks != c.lacks || wrong(err, c.said) {
			t.Errorf("%+v: lacks %v, %v", c, lacks, err)
		}
		n := 0
		if err := r.app.FetchAgents(t.Context(), plan, func(string, string) { n++ }); wrong(err, c.failed) || n != c.fetching {
			t.Errorf("%+v: %v, said %d times", c, err, n)
		}
	}
}

// noSnapshots is a provider that keeps none.
type noSnapshots struct{ providers.Provider }

func (p noSnapshots) Info() providers.Info {
	i := p.Provider.Info()
	i.Can.Snapshots = false
	return i
}

// An agent that is installed inside of a sandbox without a network is refused before
// anything is made, unless the provider keeps what was installed with one.
func TestInstallInsideWithoutNetwork(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, "true", "")
	agent, model := "codex", "openai/m"
	r.cfg.Agents[0].Name, r.cfg.Agents[0].ModelName = &agent, &model
	without := noSnapshots{fake.New(fake.Options{})}
	for _, c := range []struct {
		install string
		fleet   Fleet
		refused bool
	}{
		{"inside", Alone(without), true},
		{"host", Alone(without), false},
		{"inside", Alone(fake.New(fake.Options{})), false},
		{"inside", Fleet{{Provider: without}, {Provider: fake.New(fake.Options{})}}, false},
	} {
		r.cfg.Agents[0].Kwargs = trials.Object[any]{"install": c.install}
		plan, err := NewPlan(r.cfg, "5e0c1f0e-0000-4000-8000-000000000000")
		if err != nil {
			t.Fatal(err)
		}
		plan.Trials[0].Task.Config.Environment.Network.Mode = tasks.NetworkNone
		err = c.fleet.Installable(plan)
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "allows no network: leave out --ak install=inside") {
			t.Errorf("%s: %v, want refused %v", c.install, err, c.refused)
		}
	}
}
