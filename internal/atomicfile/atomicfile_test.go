package atomicfile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestWriteReplaces(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"first, and longer", "second", ""} {
		if err := Write(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil || string(b) != content {
			t.Errorf("%q %v", b, err)
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode() != 0o640 {
			t.Errorf("mode %v %v", fi.Mode(), err)
		}
	}
	if got := names(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("there are %q", got)
	}
}

func TestFailureLeavesEverythingAsItWas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(taken, []byte("new"), 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	if got := names(t, dir); len(got) != 1 || got[0] != "taken" {
		t.Errorf("there are %q", got)
	}
	if err := Write(filepath.Join(dir, "none", "file"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
}

// A link is replaced, not written through.
func TestLinksAreReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(target, []byte("old"), 0o600), os.Symlink(target, link), Write(link, []byte("new"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(target); err != nil || string(b) != "old" {
		t.Errorf("the target is %q %v", b, err)
	}
}

// A reader sees one content or the other, whole.
func TestReadersSeeWholeFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	a, b := bytes.Repeat([]byte("a"), 100_000), bytes.Repeat([]byte("b"), 100_000)
	if err := Write(path, a, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		for i := range 20 {
			if err := Write(path, [][]byte{b, a}[i%2], 0o600); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Go(func() {
		for {
			got, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(got, a) && !bytes.Equal(got, b) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	wg.Wait()
}

func TestClean(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	left := []string{"result.json", ".result.json", ".result.jsonx.1", ".other.json.1"}
	for _, name := range append([]string{".result.json.1", ".result.json.23"}, left...) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Clean(dir, "config.json", "result.json"); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(left) {
		t.Errorf("left %v %v, want %v", entries, err, left)
	}
	if err := Clean(filepath.Join(dir, "none"), "result.json"); err == nil {
		t.Error("a directory that is not there was cleaned")
	}
}

// The name of a temporary file says nothing to who reads the error.
func TestErrorsNameTheFileAndNoOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		taken:                              "write " + taken + ": file exists",
		filepath.Join(dir, "none", "file"): "write " + filepath.Join(dir, "none", "file") + ": no such file or directory",
	} {
		if err := Write(path, []byte("new"), 0o600); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	foreign := &fs.PathError{Op: "read", Path: filepath.Join(dir, "other"), Err: fs.ErrPermission}
	err := WriteFrom(filepath.Join(dir, "file"), 0o600, func(io.Writer) error { return foreign })
	if !errors.As(err, new(*fs.PathError)) || !strings.Contains(err.Error(), foreign.Path) {
		t.Errorf("another file's error lost its name: %v", err)
	}
}
