// Package scripts tests what the scripts say when they cannot help. What they do
// when they can is tested by `make demo` and `make test-full`.
package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestScriptsExplain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		line string // for bash
		want string // in what it prints
		ok   bool
	}{
		{name: "an engine that answers is kept", line: "./engine.sh && ./engine.sh", want: "answers", ok: true},
		{name: "only an engine of ours is stopped", line: "./engine.sh stop && ./engine.sh", want: "nothing to stop", ok: true},
		{name: "an engine that the user chose is not replaced", line: "DOCKER_HOST=unix:///nowhere ./engine.sh", want: "unset DOCKER_HOST"},
		{name: "no engine for images", line: "DOCKER_HOST=unix:///nowhere ./base-image.sh", want: "run scripts/engine.sh first"},
		{name: "an image that is there", line: "./base-image.sh debian:bookworm-slim", want: "debian:bookworm-slim is there", ok: true},
		{name: "an image that nobody knows", line: "HARBOR_PULL_TIMEOUT=5 ./base-image.sh no.invalid/image:1", want: "there is no recipe for it"},
		{name: "a tool that is not pinned", line: "./tools.sh hammer", want: "no tool hammer is pinned"},
		{
			name: "fuzzing whose time was over", line: `go() { printf -- '--- FAIL: X\n    context deadline exceeded\nFAIL\n'; return 1; }; export -f go; ./fuzz.sh tasks`,
			want: "ended in the middle of a try", ok: true,
		},
		{
			name: "fuzzing that found something", line: `go() { printf -- '--- FAIL: X\n    context deadline exceeded\n    Failing input written to x\n'; return 1; }; export -f go; ./fuzz.sh tasks`,
			want: "fuzz: failed Fuzz",
		},
		{name: "an unknown word", line: "./engine.sh restart", want: "usage: ./engine.sh [stop]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "bash", "-c", c.line)
			cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if (err == nil) != c.ok {
				t.Errorf("%s: %v", c.line, err)
			}
			if !strings.Contains(string(out), c.want) {
				t.Errorf("%s prints no %q:\n%s", c.line, c.want, out)
			}
		})
	}
}

func TestScriptsAreWellFormed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.sh")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range append(files, "../.ci/run") {
		if out, err := exec.CommandContext(t.Context(), "bash", "-n", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
		if fi, err := os.Stat(file); err != nil || fi.Mode()&0o111 == 0 {
			t.Errorf("%s is not executable: %v, %v", file, fi.Mode(), err)
		}
		if content, err := os.ReadFile(file); err != nil || !strings.Contains(string(content), "\nset -euo pipefail\n") {
			t.Errorf("%s goes on after errors: %v", file, err)
		}
	}
}
