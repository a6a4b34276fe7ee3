package events

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"harborgate/trials"
)

// fullDisk writes a part of each line while it is full.
type fullDisk struct {
	*os.File
	full bool
}

func (d *fullDisk) Write(b []byte) (int, error) {
	if !d.full {
		return d.File.Write(b)
	}
	n, err := d.File.Write(b[:len(b)/2])
	if err == nil {
		err = syscall.ENOSPC
	}
	return n, err
}

func TestFullDiskLosesEventsAndSaysHowMany(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	disk := &fullDisk{File: l.f.(*os.File)}
	l.f = disk
	seen, _ := l.Subscribe(10)
	emit := func(trial string) { l.Emit(trials.NewEvent(trials.EventStart, trial, 1, 1, nil)) }
	emit("a")
	disk.full = true
	emit("b")
	emit("c")
	disk.full = false
	emit("d")
	if err := l.Close(); err != nil {
		t.Errorf("the file tells of it, and so does the end: %v", err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(b)) {
		var e trials.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Seq != int64(len(got)+1) {
			t.Errorf("line %d: %v in %s", len(got)+1, err, line)
		}
		got = append(got, e.Trial+string(e.Data))
	}
	if len(got) != 3 || got[0] != "a" || !strings.Contains(got[1], "2 events") || got[2] != "d" {
		t.Errorf("lines %q", got)
	}
	n := 0
	for range seen {
		n++
	}
	if n != 4 {
		t.Errorf("listeners got %d events, want 4", n)
	}
}
