package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"harborgate/trials"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hostOf is the environment of a host with a home of its own.
func hostOf(t *testing.T, more map[string]string) func(string) (string, bool) {
	t.Helper()
	home := t.TempDir()
	env := map[string]string{"HOME": home, "HARBOR_AUTH_SOCKET": filepath.Join(home, "auth.sock")}
	for k, v := range more {
		env[k] = v
	}
	return func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
}

func newApp(t *testing.T, lookup func(string) (string, bool)) *App {
	t.Helper()
	a, err := New(Options{Lookup: lookup, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

const taskToml = "schema_version = \"1.4\"\n[agent]\ntimeout_sec = 60.0\n[verifier]\ntimeout_sec = 60.0\n"

// putTask makes a task whose test script is given; toml replaces task.toml.
func putTask(t *testing.T, set, name, test, toml string) string {
	t.Helper()
	if toml == "" {
		toml = taskToml
	}
	dir := filepath.Join(set, name)
	for file, content := range map[string]string{
		"task.toml": toml, "instruction.md": "Do " + name + ".\n", "environment/Dockerfile": "FROM debian\nWORKDIR /app\n",
		"solution/solve.sh": "#!/bin/sh\ntrue\n", "tests/test.sh": "#!/bin/sh\n" + test + "\n",
	} {
		p := filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// jobOf is a job of one data set, with oracle agents.
func jobOf(t *testing.T, set string) trials.JobConfig {
	t.Helper()
	c := trials.NewJobConfig()
	c.JobName, c.JobsDir = "job", t.TempDir()
	c.Datasets = trials.List[trials.DatasetConfig]{{Path: &set}}
	return c
}

func names(p *Plan) []string {
	out := []string{}
	for _, t := range p.Trials {
		out = append(out, t.Task.Name)
	}
	return out
}

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
