package app

import (
	"os"
	"path/filepath"
	"testing"
)

// A directory of a task that is a link counts with what is in it, as it is built and used.
func TestB120EditBehindALinkIsAnEdit(t *testing.T) {
	t.Parallel()
	dir := putTask(t, t.TempDir(), "a", "echo 1 > /logs/verifier/reward.txt", "")
	for _, name := range verdictDirs[:2] {
		target := filepath.Join(dir, name+"-real")
		if err := os.Rename(filepath.Join(dir, name), target); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Base(target), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	digest := func() string {
		t.Helper()
		d, err := verdictDigest(dir, verdictDirs)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	before := digest()
	put(t, filepath.Join(dir, "tests", "test.sh"), "echo 0 > /logs/verifier/reward.txt\n")
	edited := digest()
	put(t, filepath.Join(dir, "environment", "Dockerfile"), "FROM other\n")
	if before == edited || edited == digest() {
		t.Error("an edit is not seen")
	}
}
