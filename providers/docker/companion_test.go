package docker

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestCacheThatTakesNoCompanionNamesItsVariable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "harbor-inside-linux-"+runtime.GOARCH), []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := &helper{dir: dir, cache: file}
	if _, err := h.find(runtime.GOARCH); err == nil || !strings.Contains(err.Error(), "XDG_CACHE_HOME") {
		t.Error(err)
	}
}
