package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harborgate/trials/results"
)

// The list of jobs is only a hint: lines may be torn, and jobs gone.
func TestKnownJobs(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	if got, err := KnownJobs(state); err != nil || len(got) != 0 {
		t.Errorf("without a list: %v %v", got, err)
	}
	a, b := t.TempDir(), t.TempDir()
	for _, dir := range []string{a, b} {
		put(t, filepath.Join(dir, results.ConfigFile), "{}")
	}
	lines := []string{
		`{"dir": "` + a + `", "id": "1"}`, `not json`, `{"dir": "` + b + `"}`, `{"dir": "/nowhere/at/all"}`, `{"id": "3"}`,
		`{"dir": "` + a + `", "id": "1"}`, `{"dir": "` + b[:3],
	}
	put(t, filepath.Join(state, knownFile), strings.Join(lines, "\n"))
	got, err := KnownJobs(state)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{a, b}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := os.Remove(filepath.Join(state, knownFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(state, knownFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := KnownJobs(state); err == nil {
		t.Error("a list that cannot be read is empty")
	}
}
