package events

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"harborgate/trials"
)

func seqs(events []trials.Event) (out []int64) {
	for _, e := range events {
		out = append(out, e.Seq)
	}
	return out
}

// readAll reads until there is no more, and wants these numbers.
func readAll(t *testing.T, r *Reader, want ...int64) {
	t.Helper()
	var got []int64
	for {
		found, err := r.Read()
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 {
			break
		}
		got = append(got, seqs(found)...)
	}
	if len(got) != len(want) {
		t.Fatalf("events %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("events %v, want %v", got, want)
		}
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestReaderFollowsALog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	r := NewReader(path)
	readAll(t, r) // no file yet
	l := open(t, path)
	readAll(t, r)
	emit(l, 2)
	readAll(t, r, 1, 2)
	readAll(t, r)
	emit(l, 1)
	readAll(t, r, 3)
}

// A line that is being written comes when it is whole; one that a crash cut off
// never comes, and what the next process writes in its place does.
func TestReaderLeavesTornLines(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	l := open(t, path)
	emit(l, 1)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r := NewReader(path)
	appendTo(t, path, `{"v":1,"seq":2,"type":"note",`)
	readAll(t, r, 1)
	appendTo(t, path, `"time":"2026-01-01T00:00:00Z"}`+"\n")
	readAll(t, r, 2)
	appendTo(t, path, `{"v":1,"seq":3,"ty`)
	readAll(t, r)
	l = open(t, path) // cuts it off
	emit(l, 2)
	readAll(t, r, 3, 4)
}

func TestReaderPassesOverWhatIsNoEvent(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	appendTo(t, path, "\x00\x00\x00\n[1]\n{}\n\n"+`{"v":9,"seq":7,"time":"2026-01-01T00:00:00Z","type":"of-tomorrow","more":1}`+"\n")
	readAll(t, NewReader(path), 7)
}

func TestReaderStartsOver(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, path string){
		"replaced": func(t *testing.T, path string) {
			other := path + ".new"
			l := open(t, other)
			emit(l, 3)
			if err := os.Rename(other, path); err != nil {
				t.Fatal(err)
			}
		},
		"cut to nothing and written anew": func(t *testing.T, path string) {
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			l := open(t, path)
			emit(l, 3)
		},
		"removed and made anew": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			l := open(t, path)
			emit(l, 3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "events.jsonl")
			l := open(t, path)
			emit(l, 5)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			r := NewReader(path)
			readAll(t, r, 1, 2, 3, 4, 5)
			change(t, path)
			readAll(t, r, 1, 2, 3)
		})
	}
}

func TestReaderReadsLargeFilesInSteps(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	l := open(t, path)
	const n = 3 * followStep / 1000
	pad := strings.Repeat("x", 900)
	for range n {
		l.Emit(trials.NewEvent(trials.EventNote, "t", 1, 1, map[string]string{"message": pad}))
	}
	r, got := NewReader(path), int64(0)
	for {
		found, err := r.Read()
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 {
			break
		}
		for _, e := range found {
			if got++; e.Seq != got {
				t.Fatalf("event %d came in place %d", e.Seq, got)
			}
		}
	}
	if got != n {
		t.Errorf("%d events, want %d", got, n)
	}
	appendTo(t, path, strings.Repeat("y", followStep+1))
	if _, err := r.Read(); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a line without end: %v", err)
	}
}

// A pipe in the place of the file would keep its reader waiting for ever.
func TestReaderOpensRegularFilesOnly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	readAll(t, NewReader(path))
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"v":1,"seq":1,"time":"2026-01-01T00:00:00Z","type":"start","trial":"t"}`+"\n"), 10)
	f.Add([]byte("\n\n{}\nnull\n\x00\n{\"type\":\"x\"}\n{\"ty"), 3)
	f.Fuzz(func(t *testing.T, content []byte, cut int) {
		path := filepath.Join(t.TempDir(), "events.jsonl")
		read := func(r *Reader) (n int) {
			for {
				found, err := r.Read()
				if err != nil {
					t.Fatal(err)
				}
				if len(found) == 0 {
					return n
				}
				n += len(found)
			}
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		atOnce := read(NewReader(path))
		cut = max(0, min(cut, len(content)))
		if err := os.WriteFile(path, content[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		r := NewReader(path)
		inParts := read(r)
		appendTo(t, path, string(content[cut:]))
		if inParts += read(r); inParts != atOnce {
			t.Errorf("%d events in parts, %d at once", inParts, atOnce)
		}
	})
}
