package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harborgate/configs"
)

func TestBaseURLsAreThoseThatClientsCanUse(t *testing.T) {
	t.Parallel()
	got := BaseURLs([]string{"unix:/run/p.sock", "tcp:127.0.0.1:1", "tcp:0.0.0.0:2", "tcp:[::]:3", "tcp:[fd00::7]:4"}, "up")
	want := []string{"http://127.0.0.1:1/up", "http://127.0.0.1:2/up", "http://127.0.0.1:3/up", "http://[fd00::7]:4/up"}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestAddressesOfTheDataPlane(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"": nil, "127.0.0.1:1": {"127.0.0.1:1"}, "127.0.0.1:1, unix:/p.sock": {"127.0.0.1:1", "unix:/p.sock"}, "a:1 b:2": {"a:1", "b:2"},
	} {
		if got := (AuthSettings{Listen: text}).addresses(); !slices.Equal(got, want) {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestInstallWritesNothingOverSomebodysWork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	i := Installation{Files: []PlacedFile{{filepath.Join(dir, "a/one"), "1"}, {filepath.Join(dir, "a/two"), "2"}}, Dirs: []string{filepath.Join(dir, "etc/keys")}}
	if err := i.Install(false); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{"etc": 0o755, "etc/keys": 0o700, "a/one": 0o644} {
		fi, err := os.Stat(filepath.Join(dir, path))
		if err != nil || fi.Mode().Perm() != mode {
			t.Errorf("%s: %v %v, want %v", path, fi.Mode(), err, mode)
		}
	}
	if err := os.WriteFile(i.Files[1].Path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	i.Files[0].Text = "new"
	if err := i.Install(false); err == nil || !strings.Contains(err.Error(), i.Files[1].Path) || !strings.Contains(err.Error(), "--force") {
		t.Errorf("%v", err)
	}
	if b, err := os.ReadFile(i.Files[0].Path); err != nil || string(b) != "1" {
		t.Errorf("one of the two was written: %s %v", b, err)
	}
	if err := i.Install(true); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(i.Files[1].Path); err != nil || string(b) != "2" {
		t.Errorf("%s %v", b, err)
	}
}

func TestServiceFilesGoHome(t *testing.T) {
	t.Parallel()
	env := map[string]string{"HOME": "/home/u", "HARBOR_CONFIG": filepath.Join(t.TempDir(), "config.yaml")}
	if err := os.WriteFile(env["HARBOR_CONFIG"], []byte("version: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	for s, want := range map[configs.Supervisor]string{
		configs.SystemdUser: "/home/u/.config/systemd/user", configs.PM2: "/home/u/.config/harborgate", configs.SystemdSystem: "/etc/systemd/system",
	} {
		i, err := PlanAuthService(s, "/opt/harbor", "", lookup)
		if err != nil || len(i.Next) == 0 {
			t.Fatal(err)
		}
		if got := filepath.Dir(i.Files[0].Path); got != want {
			t.Errorf("%s: %s, want %s", s, got, want)
		}
	}
}
