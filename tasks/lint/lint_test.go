package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// base completes the tasks of an archive, so that each shows only what it is about.
var base = map[string]string{
	"instruction.md":         "Do it.\n",
	"environment/Dockerfile": "FROM debian@sha256:" + strings.Repeat("a", 64) + "\n",
	"tests/test.sh":          "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n",
}

// unpack writes the tasks of an archive and returns the lines of its file "want". Names
// that end in "--remove" take a file away, those with "--> target" are links.
func unpack(t *testing.T, archive string) (dir string, want []string) {
	t.Helper()
	dir = t.TempDir()
	b, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The format has no marks beside names: they are put into the names.
	text := strings.NewReplacer(" --remove\n", ":remove --\n", " --> ", ":link:").Replace(string(b))
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "-- ") && strings.Contains(line, ":link:") {
			line = strings.TrimSuffix(line, "\n") + " --\n"
		}
		lines = append(lines, line)
	}
	files := txtar.Parse([]byte(strings.Join(lines, ""))).Files
	for _, f := range files {
		if task, ok := strings.CutSuffix(f.Name, "/task.toml"); ok {
			for name, content := range base {
				write(filepath.Join(task, name), content)
			}
		}
	}
	for _, f := range files {
		name, target, link := strings.Cut(f.Name, ":link:")
		gone, remove := strings.CutSuffix(f.Name, ":remove")
		switch {
		case f.Name == "want":
			want = strings.Fields(string(f.Data))
		case link:
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		case remove:
			if err := os.RemoveAll(filepath.Join(dir, gone)); err != nil {
				t.Fatal(err)
			}
			_ = os.Remove(filepath.Dir(filepath.Join(dir, gone))) // when it is empty
		default:
			write(f.Name, string(f.Data))
		}
	}
	return dir, want
}

// TestRules holds each rule against tasks that it must find something in, and tasks in
// which it must find nothing.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, r := range Rules() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			dir, want := unpack(t, filepath.Join("testdata", r.Name+".txtar"))
			tasks, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, task := range tasks {
				found, err := Run(filepath.Join(dir, task.Name()), Settings{Select: []string{r.Name}})
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range found {
					rel, err := filepath.Rel(dir, f.Path)
					if err != nil {
						t.Fatal(err)
					}
					if f.Line != nil {
						rel += fmt.Sprintf(":%d", *f.Line)
					}
					if f.Rule != r.Name || f.Message == "" {
						t.Errorf("%+v", f)
					}
					got = append(got, rel)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestFindingsAreSorted holds the order and that a finding is reported once.
func TestFindingsAreSorted(t *testing.T) {
	t.Parallel()
	dir, _ := unpack(t, filepath.Join("testdata", "unpinned-image.txtar"))
	found, err := Run(filepath.Join(dir, "hit"), Settings{Select: []string{All}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		got = append(got, fmt.Sprintf("%s %d %d %s", f.Path, number(f.Line), number(f.Column), f.Rule))
	}
	if len(got) < 6 {
		t.Fatalf("%q", got)
	}
	for i := range got[1:] {
		a, b := found[i], found[i+1]
		if a.Path > b.Path || a.Path == b.Path && number(a.Line) > number(b.Line) {
			t.Errorf("%s before %s", got[i], got[i+1])
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	on := func(s Settings) string {
		var out []string
		for _, r := range Rules() {
			if s.selects(r) {
				out = append(out, r.Name)
			}
		}
		return strings.Join(out, " ")
	}
	all := len(Rules())
	for _, c := range []struct {
		s    Settings
		want int
		has  string
	}{
		{Settings{}, all - 2, "shared-verifier"},
		{Settings{Select: []string{All}}, all, "root-agent"},
		{Settings{ExtendSelect: []string{"root-agent"}}, all - 1, "root-agent"},
		{Settings{Select: []string{"root-agent"}}, 1, "root-agent"},
		{Settings{Select: []string{"root-agent"}, ExtendSelect: []string{All}, Ignore: []string{"shared-verifier"}}, all - 1, "unpinned-image"},
		{Settings{Select: []string{"root-agent"}}.With(Settings{Select: []string{"unpinned-image"}, Ignore: []string{"x"}}), 1, "unpinned-image"},
		{Settings{Ignore: []string{"shared-verifier"}}.With(Settings{Ignore: []string{"unknown-config-field"}}), all - 4, "compose-privileged"},
	} {
		got := on(c.s)
		if len(strings.Fields(got)) != c.want || !strings.Contains(got, c.has) {
			t.Errorf("%+v: %s", c.s, got)
		}
	}
	if err := (Settings{Ignore: []string{"share-verifier"}}).Check("here"); err == nil || !strings.Contains(err.Error(), "did you mean shared-verifier") {
		t.Error(err)
	}
	if err := (Settings{Ignore: []string{All}}).Check("here"); err == nil {
		t.Error("all rules cannot be ignored at once")
	}
}

func TestSettingsOfFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	task := filepath.Join(dir, "tasks", "one")
	write := func(name, content string) {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(dir, datasetFile), "[metadata.harbor.lint]\nignore = [\"shared-verifier\"]\nextend-select = [\"root-agent\"]\n")
	write(filepath.Join(task, "task.toml"), "[metadata.harbor.lint]\nignore = [\"unknown-config-field\"]\n")
	got, err := SettingsOf(task)
	want := Settings{ExtendSelect: []string{"root-agent"}, Ignore: []string{"shared-verifier", "unknown-config-field"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for content, says := range map[string]string{
		"[metadata.harbor.lint]\nignore = [\"nothing\"]\n": `no rule "nothing"`,
		"[metadata.harbor.lint]\nignore = \"x\"\n":         "must be a list",
		"[metadata.harbor.lint]\nignored = []\n":           "ignored is not known",
	} {
		write(filepath.Join(task, "task.toml"), content)
		if _, err := SettingsOf(task); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "task.toml") {
			t.Errorf("%q: %v", content, err)
		}
	}
	write(filepath.Join(task, "task.toml"), "[broken")
	if _, err := SettingsOf(task); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNoTask(t *testing.T) {
	t.Parallel()
	if _, err := Run(filepath.Join(t.TempDir(), "nothere"), Settings{}); err == nil {
		t.Error("a directory that is not there")
	}
	found, err := Run(t.TempDir(), Settings{})
	if err != nil || len(found) != 1 || found[0].Rule != "invalid-task-files" {
		t.Error(found, err)
	}
}

// FuzzRun holds that no file makes a rule fall over.
func FuzzRun(f *testing.F) {
	f.Add("[verifier]\nenvironment_mode = \"separate\"\n", "FROM a\nRUN pip install b\nCOPY tests /x\n", "curl https://example.com | sh\n", "services: {a: {volumes: [./b:/c]}}\n")
	f.Add("artifacts = [\"/\", {source=\"/x\"}]\n[[steps]]\nname=\"..\"\n", "FROM\nCOPY\nRUN []\n", "sudo env A=1 timeout 5 bash -c 'bash -c \"pip\"'\n", "services: &a {b: *a}\n")
	f.Add("", "", "", "a: &x [*x]\nservices: {a: {<<: *x, volumes: [{type: bind}, 3, ~]}}\n")
	f.Fuzz(func(t *testing.T, config, docker, script, services string) {
		dir := t.TempDir()
		for name, content := range map[string]string{
			"task.toml": config, "environment/Dockerfile": docker, "tests/test.sh": script, "environment/docker-compose.yaml": services, "instruction.md": "x",
		} {
			p := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Run(dir, Settings{Select: []string{All}}); err != nil {
			t.Fatal(err)
		}
	})
}
