package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"harborgate/trials"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string) *Log {
	t.Helper()
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func emit(l *Log, n int) {
	for range n {
		l.Emit(trials.NewEvent(trials.EventNote, "trial", 1, 1, map[string]string{"code": "x\ny"}))
	}
}

// lines reads the file; every line must be an event, numbered without gaps.
func lines(t *testing.T, path string) []trials.Event {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []trials.Event
	for line := range bytes.Lines(b) {
		var e trials.Event
		if err := json.Unmarshal(line, &e); err != nil || line[len(line)-1] != '\n' {
			t.Fatalf("line %d is %q: %v", len(out)+1, line, err)
		}
		out = append(out, e)
		if e.Seq != int64(len(out)) || e.V != trials.EventVersion || e.Time.IsZero() {
			t.Errorf("line %d: %+v", len(out), e)
		}
	}
	return out
}

func TestNumbersGoOnOverReopen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	for i := 1; i <= 3; i++ {
		l := open(t, path)
		emit(l, 2)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if got := lines(t, path); len(got) != 2*i {
			t.Errorf("%d lines, want %d", len(got), 2*i)
		}
	}
}

func TestTornLastLineIsCut(t *testing.T) {
	t.Parallel()
	for name, torn := range map[string]string{
		"half a line": `{"v":1,"seq":3,"ti`, "whole but for the newline": `{"v":1,"seq":3,"time":"2026-01-01T00:00:00Z","type":"end"}`, "zeros": "\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "events.jsonl")
			l := open(t, path)
			emit(l, 2)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(torn); err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
			l = open(t, path)
			emit(l, 1)
			if got := lines(t, path); len(got) != 3 {
				t.Errorf("%d lines", len(got))
			}
		})
	}
}

func TestOnlyATornLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(path, []byte(`{"v":1`), 0o600); err != nil {
		t.Fatal(err)
	}
	emit(open(t, path), 1)
	if got := lines(t, path); len(got) != 1 {
		t.Errorf("%d lines", len(got))
	}
}

func TestForeignFileIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	const content = "not ours\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != content {
		t.Errorf("it was changed to %q", b)
	}
	if _, err := Open(filepath.Join(path, "below")); err == nil {
		t.Error("a path that cannot be was opened")
	}
}

func TestSubscribersSeeWhatIsStored(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	l := open(t, path)
	emit(l, 1) // before anybody listens
	ch, stop := l.Subscribe(8)
	emit(l, 2)
	stop()
	stop() // twice is fine
	emit(l, 1)
	var seqs []int64
	for e := range ch {
		seqs = append(seqs, e.Seq)
	}
	if len(seqs) != 2 || seqs[0] != 2 || seqs[1] != 3 {
		t.Errorf("events %v, want 2 and 3", seqs)
	}
	if got := lines(t, path); len(got) != 4 {
		t.Errorf("%d lines", len(got))
	}
}

// One that does not keep up is dropped; nobody waits for it.
func TestSlowSubscriberIsDropped(t *testing.T) {
	t.Parallel()
	l := open(t, filepath.Join(t.TempDir(), "events.jsonl"))
	slow, _ := l.Subscribe(1)
	quick, stop := l.Subscribe(10)
	emit(l, 3)
	var n int
	for range slow {
		n++
	}
	if n != 1 {
		t.Errorf("the slow one got %d events before its end, want 1", n)
	}
	stop()
	for range quick {
		n++
	}
	if n != 4 {
		t.Errorf("the quick one got %d events, want 3", n-1)
	}
}

func TestCloseEndsSubscriptions(t *testing.T) {
	t.Parallel()
	l := open(t, filepath.Join(t.TempDir(), "events.jsonl"))
	before, stop := l.Subscribe(1)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, ok := <-before; ok {
		t.Error("an event of a closed log")
	}
	stop()
	after, stop := l.Subscribe(1)
	if _, ok := <-after; ok {
		t.Error("an event of a closed log")
	}
	stop()
	emit(l, 1)
	if err := l.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

func TestManyWriters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	l := open(t, path)
	ch, stop := l.Subscribe(1000)
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() { emit(l, 50) })
	}
	wg.Wait()
	stop()
	if got := lines(t, path); len(got) != 500 {
		t.Errorf("%d lines", len(got))
	}
	var want int64
	for e := range ch {
		if want++; e.Seq != want {
			t.Fatalf("event %d came in place %d", e.Seq, want)
		}
	}
}

// After a failed write nothing more is written: the file stays readable up to
// there. Listeners go on.
func TestBrokenDisk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	l := open(t, path)
	emit(l, 1)
	whole := l.f
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	l.f = f // cannot be written
	ch, stop := l.Subscribe(4)
	emit(l, 1)
	l.f = whole
	_ = f.Close()
	emit(l, 1)
	stop()
	if n := len(ch); n != 2 {
		t.Errorf("listeners got %d events, want 2", n)
	}
	if got := lines(t, path); len(got) != 1 {
		t.Errorf("%d lines", len(got))
	}
	var pe *os.PathError
	if err := l.Close(); !errors.As(err, &pe) {
		t.Errorf("the first error is %v", err)
	}
}
