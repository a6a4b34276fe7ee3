package tasks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// files are the files that make a small task complete, beside its task.toml.
const files = `
-- instruction.md --
Do it.
-- environment/Dockerfile --
FROM debian:bookworm-slim
-- tests/test.sh --
#!/bin/sh
echo 1 > /logs/verifier/reward.txt
`

// write makes a directory of an archive and returns its path.
func write(t testing.TB, archive string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "task")
	for _, f := range txtar.Parse([]byte(archive)).Files {
		p := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// load reads a task that has this task.toml.
func load(t *testing.T, toml string) (*Task, Problems) {
	t.Helper()
	return Load(write(t, "-- task.toml --\n"+toml+files), LoadOptions{})
}

// brief is a problem in one line, without its file.
func brief(ps Problems) string {
	var lines []string
	for _, p := range ps {
		lines = append(lines, fmt.Sprintf("%d:%d %s %s: %s", p.Line, p.Column, p.Severity, p.Code, p.Message))
	}
	return strings.Join(lines, "\n")
}

func TestLoadGoldenTasks(t *testing.T) {
	t.Parallel()
	found, problems := Find([]string{"testdata/golden"}, LoadOptions{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if len(found) != 10 {
		t.Fatalf("found %d tasks, want 10", len(found))
	}
	for _, f := range found {
		if f.Task == nil || len(f.Problems) > 0 {
			t.Errorf("%s: %v", f.Path, f.Problems)
		}
		if f.Dataset != "golden" {
			t.Errorf("%s: data set %q", f.Path, f.Dataset)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if task, ps := Load("testdata/golden/hello-ok", LoadOptions{}); task == nil {
			b.Fatal(ps)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
}
