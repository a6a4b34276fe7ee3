package tasks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

func TestDigestsAreHarbors(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/golden-hashes.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]struct {
		Checksum    string `json:"task_checksum"`
		Content     string `json:"package_content_hash"`
		Environment string `json:"environment_content_hash"`
	}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	if len(want) != 10 {
		t.Fatalf("%d golden tasks, want 10", len(want))
	}
	for name, w := range want {
		dir := filepath.Join("testdata", "golden", name)
		if got, err := Checksum(dir); err != nil || got != w.Checksum {
			t.Errorf("checksum of %s: %s, %v; want %s", name, got, err, w.Checksum)
		}
		if got, err := ContentHash(dir); err != nil || got != w.Content {
			t.Errorf("content hash of %s: %s, %v; want %s", name, got, err, w.Content)
		}
		got, err := EnvironmentHash(filepath.Join(dir, EnvironmentDir), "", name)
		if err != nil || got != w.Environment {
			t.Errorf("environment hash of %s: %s, %v; want %s", name, got, err, w.Environment)
		}
	}
}
