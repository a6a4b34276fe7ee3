package results

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// cappedLog writes content in pieces of a size through a log of a limit.
func cappedLog(t testing.TB, limit int64, content []byte, piece int) []byte {
	t.Helper()
	tr := newTrial(t, Limits{LogBytes: limit})
	w, err := tr.Stream("log.txt")
	if err != nil {
		t.Fatal(err)
	}
	for rest := content; len(rest) > 0; {
		part := rest[:min(piece, len(rest))]
		n, err := w.Write(part)
		if err != nil || n != len(part) {
			t.Fatalf("wrote %d of %d: %v", n, len(part), err)
		}
		rest = rest[len(part):]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(tr.Path("log.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func pattern(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%d,", i)
	}
	return b.Bytes()[:n]
}

func TestLogKeepsHeadAndTail(t *testing.T) {
	t.Parallel()
	const limit = 100
	for _, n := range []int{0, 1, 49, 50, 51, 99, 100, 101, 102, 149, 150, 151, 199, 200, 201, 250, 251, 999, 1000, 12345} {
		for _, piece := range []int{1, 7, 50, 64, 100, 1 << 20} {
			content := pattern(n)
			want := string(content)
			if n > limit {
				want = string(content[:50]) + fmt.Sprintf("\n[harbor: %d bytes left out here, the log is limited to 100 bytes]\n", n-limit) + string(content[n-50:])
			}
			if got := string(cappedLog(t, limit, content, piece)); got != want {
				t.Errorf("%d bytes in pieces of %d:\n%q\nwant\n%q", n, piece, got, want)
			}
		}
	}
}

// No limit is so small that a log hangs.
func TestTinyLimits(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{0, 1, 2, 3} {
		got := string(cappedLog(t, limit, []byte("abcdef"), 4))
		if !strings.HasPrefix(got, "a\n[harbor: 4 bytes left out") || !strings.HasSuffix(got, "\nf") {
			t.Errorf("limit %d: %q", limit, got)
		}
	}
}

// A log that never ends needs no memory.
func TestLogMemoryIsFlat(t *testing.T) {
	tr := newTrial(t, Limits{LogBytes: 1 << 20})
	w, err := tr.Stream("log.txt")
	if err != nil {
		t.Fatal(err)
	}
	piece := make([]byte, 64<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 512 { // 32 MB
		if _, err := w.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
		t.Errorf("%d bytes were allocated for 32 MB of log", used)
	}
	if fi, err := os.Stat(tr.Path("log.txt")); err != nil || fi.Size() > 1<<20+200 {
		t.Errorf("%v %v", fi.Size(), err)
	}
}

func TestLogOfABrokenDisk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path) // cannot be written
	if err != nil {
		t.Fatal(err)
	}
	w := newCapped(f, 100)
	for range 2 {
		if _, err := w.Write([]byte("x")); err == nil {
			t.Error("nothing is said of a failed write")
		}
	}
	if err := w.Close(); err == nil {
		t.Error("nothing is said of a log that is not whole")
	}
}

func FuzzCapped(f *testing.F) {
	f.Add([]byte("hello"), int64(4), 1)
	f.Add(pattern(300), int64(101), 64)
	f.Fuzz(func(t *testing.T, content []byte, limit int64, piece int) {
		if limit < 0 || limit > 1<<16 || piece < 1 {
			return
		}
		got := cappedLog(t, limit, content, piece)
		half := int(max(1, limit/2))
		if len(content) <= 2*half {
			if !bytes.Equal(got, content) {
				t.Errorf("a log that fits was changed: %q", got)
			}
			return
		}
		if !bytes.HasPrefix(got, content[:half]) || !bytes.HasSuffix(got, content[len(content)-half:]) {
			t.Errorf("limit %d, %d bytes: %q", limit, len(content), got)
		}
	})
}
