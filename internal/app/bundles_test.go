package app

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

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
