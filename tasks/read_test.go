package tasks

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A pipe in the place of a file blocked task check for ever.
func TestPipesBlockNothing(t *testing.T) {
	t.Parallel()
	for _, name := range []string{ConfigFile, InstructionFile, "tests/.harborignore", "tests/test.sh", "environment/Dockerfile"} {
		t.Run(strings.ReplaceAll(name, "/", "-"), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "task")
			if _, err := Init(dir, InitOptions{}); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, name)
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(path, 0o644); err != nil {
				t.Fatal(err)
			}
			Check(t.Context(), dir) // ends
			if _, err := Checksum(dir); err == nil {
				t.Error("a pipe has a digest")
			}
		})
	}
}
