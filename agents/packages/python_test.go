package packages

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fakePython answers like an interpreter of a version, whose pip notes what it is
// asked for in a file.
func fakePython(t *testing.T, dir, name, version string) {
	t.Helper()
	minor := strings.Split(version, ".")[1]
	script := `#!/bin/sh
case "$*" in
*sysconfig*) echo '{"Program": "` + dir + "/" + name + `", "Version": "` + version + `", "Minor": ` + minor + `, "Stdlib": "/lib", "Platform": ""}' ;;
*"pip install"*) for last; do test "$before" = --target && /bin/mkdir "$last" && echo "$@" >"$last/asked"; before=$last; done ;;
esac
`
	if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestInterpreterIsChosenByItsVersion(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	fakePython(t, dir, "python3", "3.8.2")
	range3 := Interpreter{From: 10, Below: 13}
	if _, err := range3.Pin(t.Context()); err == nil || !strings.Contains(err.Error(), "from 3.10 to 3.12") || !strings.Contains(err.Error(), "has 3.8.2") {
		t.Errorf("got %v", err)
	}
	fakePython(t, dir, "python3.11", "3.11.4")
	fakePython(t, dir, "python3.13", "3.13.0")
	pin, err := range3.Pin(t.Context())
	if err != nil || !strings.HasPrefix(pin, "3.11.4-") {
		t.Errorf("%q %v", pin, err)
	}
	fakePython(t, dir, "python3.11", "3.11.5")
	if again, err := range3.Pin(t.Context()); err != nil || again == pin {
		t.Errorf("another interpreter has the pin %q, %v", again, err)
	}
}

func TestWheelsAreNeverBuilt(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	fakePython(t, dir, "python3", "3.11.4")
	python := Interpreter{From: 10, Below: 13}
	pins := map[string]bool{}
	for want, w := range map[string]Wheels{
		"--require-hashes --no-deps -r ": {For: python, Lock: "a==1 --hash=sha256:00"},
		" agent==2":                      {For: python, Spec: "agent==2"},
	} {
		work := t.TempDir()
		dest := filepath.Join(work, "ready")
		if err := w.Fetch(t.Context(), work, dest); err != nil {
			t.Fatal(err)
		}
		asked, err := os.ReadFile(filepath.Join(dest, "asked"))
		if err != nil || !strings.Contains(string(asked), "--only-binary :all:") || !strings.Contains(string(asked), want) {
			t.Errorf("asked for %q, %v", asked, err)
		}
		pin, err := w.Pin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pins[pin] = true
	}
	if len(pins) != 2 || !pins["py3.11"] {
		t.Errorf("pins %v", pins)
	}
}

func TestLibrariesThatLddNames(t *testing.T) {
	t.Parallel()
	const out = "/usr/bin/python3:\n\tlinux-vdso.so.1 (0x00007ffe)\n\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)\n" +
		"\tlibnone.so.1 => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\na.so:\n\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)\n"
	if got := librariesIn([]byte(out)); !slices.Equal(got, []string{"/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"}) {
		t.Errorf("got %v", got)
	}
	for name, ok := range map[string]bool{"ld-linux-x86-64.so.2": true, "ld-musl-x86_64.so.1": true, "libld.so": false} {
		if isLoader(name) != ok {
			t.Errorf("%s: %v", name, !ok)
		}
	}
}

func TestTreesAreCopiedWithoutLinks(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "lib")
	for name, text := range map[string]string{"os.py": "o", "test/x.py": "x", "site-packages/p.py": "p", "json/a.py": "a", "_testcapi.so": "t"} {
		path := filepath.Join(from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"link.py": "os.py", "gone.py": "nowhere", "dir": "json"} {
		if err := os.Symlink(target, filepath.Join(from, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := copyTree(from, to, unneeded); err != nil {
		t.Fatal(err)
	}
	var got []string
	_ = filepath.WalkDir(to, func(path string, d os.DirEntry, _ error) error {
		if !d.IsDir() {
			got = append(got, strings.TrimPrefix(path, to+"/"))
			if fi, err := d.Info(); err != nil || fi.Mode() != 0o644 {
				t.Errorf("%s: %v %v", path, fi, err)
			}
		}
		return nil
	})
	if !slices.Equal(got, []string{"json/a.py", "link.py", "os.py"}) {
		t.Errorf("copied %v", got)
	}
}
