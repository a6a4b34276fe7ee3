package tasks

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestInitMakesGoodTasks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opt  InitOptions
		mode VerifierMode
		name string
		made string
	}{
		"default": {InitOptions{}, VerifierSeparate, "new", ".gitignore README.md environment/Dockerfile instruction.md solution/solve.sh task.toml tests/Dockerfile tests/test.sh"},
		"shared": {
			InitOptions{VerifierMode: VerifierShared, Name: "org/name", Description: "a \"quoted\" \\ text\nwith a line", Authors: []Author{{Name: "A", Email: "a@b"}, {Name: "B"}}},
			VerifierShared, "org/name", ".gitignore README.md environment/Dockerfile instruction.md solution/solve.sh task.toml tests/test.sh",
		},
	} {
		dir := filepath.Join(t.TempDir(), "new")
		made, err := Init(dir, c.opt)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(made, " "); got != c.made {
			t.Errorf("%s: made %s, want %s", name, got, c.made)
		}
		if ps := Check(t.Context(), dir); len(ps) > 0 {
			t.Errorf("%s: %s", name, brief(ps))
		}
		task, problems := Load(dir, LoadOptions{})
		if task == nil {
			t.Fatal(problems)
		}
		if task.Name != c.name || task.VerifierMode(nil) != c.mode || task.Config.SchemaVersion != SchemaVersion {
			t.Errorf("%s: %+v", name, task)
		}
		if c.opt.Name != "" && (task.Config.Package.Description != c.opt.Description || !slices.Equal(task.Config.Package.Authors, c.opt.Authors)) {
			t.Errorf("%s: package %+v", name, task.Config.Package)
		}
		if s := task.VerifierSource(nil); s.Bundled != (c.mode == VerifierSeparate) {
			t.Errorf("%s: verifier %+v", name, s)
		}
		for _, script := range []string{"tests/test.sh", "solution/solve.sh"} {
			info, err := os.Stat(filepath.Join(dir, script))
			if err != nil || info.Mode()&0o111 == 0 {
				t.Errorf("%s: %s cannot be executed: %v", name, script, err)
			}
		}
	}
}

func TestInitOptions(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	if _, err := Init(dir, InitOptions{Image: "alpine:3", NoSolution: true}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "environment", "Dockerfile"))
	if err != nil || !strings.HasPrefix(string(b), "FROM alpine:3\n") {
		t.Errorf("%s, %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "solution")); err == nil {
		t.Error("there is a solution")
	}
	if _, err := Init(dir, InitOptions{}); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("over another task: %v", err)
	}
	for _, opt := range []InitOptions{{Name: "no-org"}, {Name: "a/b/c"}, {VerifierMode: "both"}} {
		fresh := filepath.Join(t.TempDir(), "new")
		if _, err := Init(fresh, opt); err == nil {
			t.Errorf("%+v was accepted", opt)
		}
		if _, err := os.Stat(fresh); err == nil {
			t.Errorf("%+v left files", opt)
		}
	}
}
