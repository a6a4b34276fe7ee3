package stats

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update rewrites the golden files; `make golden` sets it.
const update = "HARBOR_UPDATE_GOLDEN"

func compareGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if os.Getenv(update) != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is no longer what comes out (run `make golden`):\n%s", path, diff)
	}
}
