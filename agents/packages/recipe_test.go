package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// cook runs a recipe as a sandbox would, with clients of the test's own.
func cook(t *testing.T, r Recipe, clients map[string]string) (dest string, err error) {
	t.Helper()
	bin, work := t.TempDir(), t.TempDir()
	for name, script := range clients {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dest = filepath.Join(t.TempDir(), "opt", "agent")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", r.Script, "sh", dest)
	cmd.Dir, cmd.Stdin, cmd.Env = work, strings.NewReader(r.Input), []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("%s", out)
	}
	return dest, err
}

func TestArchivesComeInsideWithTheirDigest(t *testing.T) {
	t.Parallel()
	text, integrity := archive(t)
	packed := filepath.Join(t.TempDir(), "packed")
	if err := os.WriteFile(packed, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	npm := map[string]string{"npm": `test "$1 $2" = "pack agent@1.0" && cp ` + packed + ` agent-1.0.tgz`}
	for name, c := range map[string]struct {
		from  Source
		files []string // nil is a failure
	}{
		"pinned":     {Archive{"agent@1.0", integrity, "package/bin"}, []string{"agent", "sub/data"}},
		"not pinned": {Archive{"agent@1.0", "", "package/bin"}, []string{"agent", "sub/data"}},
		"other":      {Archive{"agent@1.0", strings.Replace(integrity, "sha512-", "sha512-AAAA", 1)[:95], "package/bin"}, nil},
		"missing":    {Archive{"agent@1.1", integrity, "package/bin"}, nil},
		"several":    {Archives{".": {"agent@1.0", integrity, "package/bin"}, "node_modules/b": {"agent@1.0", integrity, "package"}}, []string{"agent", "node_modules/b/bin/agent"}},
	} {
		r := c.from.Inside()
		if len(r.Needs) != 1 || r.Needs[0] != NeedNPM {
			t.Errorf("%s: needs %v", name, r.Needs)
		}
		// what leads out of a directory is in no archive of a registry; tar refuses it
		r.Script = strings.ReplaceAll(r.Script, "tar -xzf", "tar --exclude='*escape' -xzf")
		dest, err := cook(t, r, npm)
		if (err == nil) != (c.files != nil) {
			t.Errorf("%s: %v", name, err)
		}
		for _, file := range c.files {
			if _, err := os.Stat(filepath.Join(dest, file)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestPythonComesInsideFromTheImage(t *testing.T) {
	t.Parallel()
	python := func(status string) map[string]string {
		return map[string]string{"python3": `case "$*" in *version_info*) exit ` + status + ` ;; *) echo "$@" >"$RAN" ;; esac`}
	}
	r := Interpreter{From: 10, Below: 13}.Inside()
	if _, err := cook(t, r, python("1")); err == nil {
		t.Error("an image's Python of another version did")
	}
	dest, err := cook(t, r, python("0"))
	if err != nil {
		t.Fatal(err)
	}
	ran := filepath.Join(t.TempDir(), "ran")
	cmd := exec.CommandContext(t.Context(), filepath.Join(dest, PythonProgram), "-c", "x")
	cmd.Env = []string{"RAN=" + ran}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if got, err := os.ReadFile(ran); err != nil || string(got) != "-I -S -X utf8 -c x\n" {
		t.Errorf("started with %q, %v", got, err)
	}
}

func TestWheelsComeInsideByTheirLock(t *testing.T) {
	t.Parallel()
	pip := map[string]string{"python3": `for last; do test "$before" = --target && mkdir -p "$last" && to=$last; before=$last; done; echo "$@" >"$to/asked"; test ! -f requirements.txt || cp requirements.txt "$to"`}
	for want, w := range map[string]Wheels{
		"--no-deps --require-hashes -r requirements.txt": {Lock: "a==1 --hash=sha256:00\n"},
		"agent==2": {Spec: "agent==2"},
	} {
		dest, err := cook(t, w.Inside(), pip)
		if err != nil {
			t.Fatal(err)
		}
		asked, _ := os.ReadFile(filepath.Join(dest, "asked"))
		lock, _ := os.ReadFile(filepath.Join(dest, "requirements.txt"))
		if !strings.HasSuffix(strings.TrimSpace(string(asked)), want) || !strings.Contains(string(asked), "--only-binary :all:") || string(lock) != w.Lock {
			t.Errorf("asked for %q with %q", asked, lock)
		}
	}
}
