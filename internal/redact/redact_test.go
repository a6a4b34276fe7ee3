package redact

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const key = `sk-ant-"quoted"/1+2=3`

func TestBytesHidesAllForms(t *testing.T) {
	t.Parallel()
	r := New(key, "short", "true", "12345678", "")
	for _, form := range encodings(key) {
		if got := string(r.Bytes([]byte("a " + form + " b"))); got != "a "+Mark+" b" {
			t.Errorf("%s: got %q", form, got)
		}
	}
	for _, kept := range []string{"short", "true", "12345678", "nothing here", ""} {
		if got := string(r.Bytes([]byte(kept))); got != kept {
			t.Errorf("%q became %q", kept, got)
		}
	}
}

func TestEscapesOfAllSigns(t *testing.T) {
	t.Parallel()
	r := New("s3cr-t/+")
	for _, form := range []string{
		"733363722d742f2b", "733363722D742F2B", "%73%33%63%72%2d%74%2f%2b", "%73%33%63%72%2D%74%2F%2B", "s3cr%2Dt%2F%2B", "s3cr-t%2f%2b", "s3cr-t%2F+",
		`\u0073\u0033\u0063\u0072\u002d\u0074\u002f\u002b`, `s3cr\u002Dt\u002F\u002B`, `s3cr-t/\u002B`, `s3cr-t/\u002b`, `s3cr-t\/+`,
	} {
		if got := string(r.Bytes([]byte("a " + form + " b"))); got != "a "+Mark+" b" {
			t.Errorf("%s: got %q", form, got)
		}
	}
}

func TestNilKnowsNothing(t *testing.T) {
	t.Parallel()
	r := New("", "abc", "false")
	if r != nil || string(r.Bytes([]byte("abc"))) != "abc" {
		t.Error("something is hidden")
	}
}

type buffer struct {
	bytes.Buffer
	closed bool
}

func (b *buffer) Close() error {
	b.closed = true
	return nil
}

func TestWriterFindsSecretsAcrossWrites(t *testing.T) {
	t.Parallel()
	text := "before " + key + " between " + key + key + " after sk-ant-"
	want := strings.ReplaceAll(text, key, Mark)
	for size := 1; size <= len(text); size++ {
		var out buffer
		w := New(key).Writer(&out)
		for i := 0; i < len(text); i += size {
			if _, err := w.Write([]byte(text[i:min(i+size, len(text))])); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil || !out.closed || out.String() != want {
			t.Fatalf("size %d: %v, closed %t, %q", size, err, out.closed, out.String())
		}
	}
}

func TestWriterHoldsBackNoMoreThanItMust(t *testing.T) {
	t.Parallel()
	var out buffer
	w := New(key).Writer(&out)
	if _, err := w.Write([]byte("a line\n")); err != nil || out.String() != "a line\n" {
		t.Errorf("%v, %q", err, out.String())
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	big := strings.Repeat("x", chunk-5) + key + "tail"
	for name, c := range map[string][2]string{
		"clean": {"nothing", "nothing"},
		"cut":   {big, strings.ReplaceAll(big, key, Mark)},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c[0]), 0o640); err != nil {
			t.Fatal(err)
		}
		if err := New(key).File(root, name); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil || string(b) != c[1] {
			t.Errorf("%s: %v, %d bytes", name, err, len(b))
		}
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o640 {
			t.Errorf("%s: mode %v, %v", name, fi.Mode(), err)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 2 {
		t.Errorf("left %v, %v", names, err)
	}
}

func FuzzWriter(f *testing.F) {
	f.Add([]byte("before "+key+" after"), 3)
	f.Add([]byte(key+key), 1)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		if size <= 0 {
			return
		}
		r := New(key)
		var out buffer
		w := r.Writer(&out)
		for i := 0; i < len(text); i += size {
			if _, err := w.Write(text[i:min(i+size, len(text))]); err != nil {
				t.Fatal(err)
			}
			if i > len(text)-size { // the last
				break
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(out.Bytes(), []byte(key)) {
			t.Errorf("%q holds the secret", out.Bytes())
		}
	})
}
