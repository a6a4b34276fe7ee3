package app

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"harborgate/authproxy"
	"harborgate/configs"
)

func TestBaseURLsAreThoseThatClientsCanUse(t *testing.T) {
	t.Parallel()
	got := BaseURLs([]string{"unix:/run/p.sock", "tcp:127.0.0.1:1", "tcp:0.0.0.0:2", "tcp:[::]:3", "tcp:[fd00::7]:4"}, "up")
	want := []string{"http://127.0.0.1:1/up", "http://127.0.0.1:2/up", "http://127.0.0.1:3/up", "http://[fd00::7]:4/up"}
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	for dialect, want := range map[string]string{"anthropic": "http://h:1/up", "openai": "http://h:1/up/v1", "openrouter": "http://h:1/up/v1", "gemini": "http://h:1/up"} {
		if got := ClientURLs([]string{"tcp:h:1"}, authproxy.UpstreamStatus{Name: "up", Dialect: dialect}); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %v", dialect, got)
		}
	}
}

// What jobs with proxies of their own have spent today counts against the service's
// budget of the day.
func TestDayBudgetOfTheServiceKnowsWhatJobsSpent(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "config.yaml")
	put(t, config, "upstreams: {a: {dialect: anthropic, keys: [env:K]}}\nbudgets: {day: 5}\n")
	a := newApp(t, hostOf(t, map[string]string{"HARBOR_CONFIG": config}))
	now := time.Now().UTC()
	for job, lines := range map[string]string{
		"one": `{"a":"day/TODAY","n":{"usd":0.3}}` + "\n" + `{"r":1,"as":["job/j","day/TODAY"],"n":{"usd":0.25}}` + "\n",
		"two": `{"a":"day/TODAY","n":{"usd":0.2}}` + "\n" + `{"a":"day/2020-01-01","n":{"usd":4}}` + "\n",
	} {
		dir := filepath.Join(a.authDir(), "jobs", job)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, "ledger.jsonl"), strings.ReplaceAll(lines, "TODAY", now.Format(time.DateOnly)))
	}
	c, err := a.serviceConfig()
	if err != nil || c.Budgets.Day.String() != "5" || c.Budgets.SpentElsewhere(now).String() != "0.75" || c.Budgets.SpentElsewhere(now.Add(24*time.Hour)) != 0 {
		t.Errorf("%+v %v", c.Budgets, err)
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
		i, err := PlanAuthService(s, "/usr/bin/env", "", lookup)
		if err != nil || len(i.Next) == 0 || len(i.First) == 0 {
			t.Fatal(err)
		}
		if got := filepath.Dir(i.Files[0].Path); got != want {
			t.Errorf("%s: %s, want %s", s, got, want)
		}
	}
}

func TestUnitsCannotStartWhatTheyDoNotSee(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	place := func(path string, mode os.FileMode) {
		t.Helper()
		at := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, nil, mode), os.Chmod(at, mode)); err != nil {
			t.Fatal(err)
		}
	}
	for path, mode := range map[string]os.FileMode{"/opt/harbor": 0o755, "/opt/text": 0o644, "/opt/private": 0o700, "/home/u/harbor": 0o755, "/tmpfiles/harbor": 0o755} {
		place(path, mode)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/usr/bin/env", link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		s             configs.Supervisor
		program, root string
		want          string // of the error; none when empty
	}{
		{configs.SystemdSystem, "/opt/harbor", root, ""},
		{configs.SystemdSystem, "/tmpfiles/harbor", root, ""},
		{configs.SystemdSystem, "/home/u/harbor", root, "sees nothing of /home"},
		{configs.SystemdUser, "/home/u/harbor", root, ""},
		{configs.SystemdSystem, "/tmp/x/harbor", "", "copy it to /usr/local/bin/harbor first"},
		{configs.SystemdSystem, "/opt/../root/harbor", "", "sees nothing of /root"},
		{configs.SystemdSystem, "/opt/none", root, "there is no program " + root + "/opt/none"},
		{configs.SystemdSystem, "/opt", root, "no executable file"},
		{configs.PM2, "/opt/text", root, "no executable file"},
		{configs.SystemdSystem, "/opt/private", root, "chmod 755"},
		{configs.SystemdUser, "/opt/private", root, ""},
		{configs.SystemdUser, link, "", ""},
	} {
		err := checkProgram(c.s, c.program, c.root)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %q", c.s, c.program, err, c.want)
		}
	}
}

func TestWhatCannotBeWrittenIsSaidOnce(t *testing.T) {
	t.Parallel()
	i := Installation{Dirs: []string{"/proc/1/x/keys"}, Files: []PlacedFile{{Path: "/proc/1/a/1"}, {Path: "/proc/1/b/2"}}}
	if err := i.Install(false); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "run it as root") {
		t.Errorf("%v", err)
	}
}
