// Package events keeps a job's events.jsonl and tells whoever listens.
//
// The file is the truth: one line per event, numbered without gaps, written only
// by the process that holds the job. Listeners in the process get the same
// events; one that does not keep up loses its subscription and must read the
// file instead.
package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"harborgate/trials"
)

// file is what is needed of one.
type file interface {
	io.WriteCloser
	io.Seeker
	Truncate(size int64) error
}

// Log is an open events.jsonl. Safe for concurrent use.
type Log struct {
	mu   sync.Mutex // guards all below
	f    file
	seq  int64 // of the last line
	end  int64 // where it ends
	lost int   // events since then that could not be written
	err  error // the first that nobody was told of; the log goes on for listeners
	torn bool  // the file ends with a part of a line, so nothing more goes into it
	subs map[chan trials.Event]bool
}

// Open opens or makes the file and goes on where it ended. A last line that was
// cut off in a crash is removed.
func Open(path string) (*Log, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open events: %w", err)
	}
	seq, end, err := scan(f)
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open events %s: %w", path, err), f.Close())
	}
	return &Log{f: f, seq: seq, end: end, subs: map[chan trials.Event]bool{}}, nil
}

// scan returns the number of the last whole line and where it ends.
func scan(f *os.File) (seq, end int64, err error) {
	b, err := io.ReadAll(f)
	if err != nil {
		return 0, 0, err
	}
	end = int64(bytes.LastIndexByte(b, '\n') + 1)
	lines := bytes.Split(bytes.TrimSuffix(b[:end], []byte("\n")), []byte("\n"))
	var last struct{ Seq int64 }
	if line := lines[len(lines)-1]; len(line) > 0 {
		if err := json.Unmarshal(line, &last); err != nil {
			return 0, 0, fmt.Errorf("last line: %w", err)
		}
	}
	return last.Seq, end, nil
}

// Emit numbers, stores and distributes an event. One that cannot be written is lost
// to the file; when there is room again, a note says how many were.
func (l *Log) Emit(e trials.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost > 0 && l.store(trials.NewEvent(trials.EventNote, "", 0, 0, map[string]string{
		"code": "events_lost", "message": fmt.Sprintf("%d events before this one could not be written", l.lost),
	})).V != 0 {
		l.lost, l.err = 0, nil // the file says it
	}
	stored := l.store(e)
	if stored.V == 0 {
		l.lost++
		stored = e
		stored.V, stored.Seq, stored.Time = trials.EventVersion, l.seq+1, time.Now().UTC()
	}
	l.tell(stored)
}

// store writes an event as the next line, and returns it as it was written; without
// a version it was not. mu is held.
func (l *Log) store(e trials.Event) trials.Event {
	if l.f == nil || l.torn {
		return trials.Event{}
	}
	e.V, e.Seq, e.Time = trials.EventVersion, l.seq+1, time.Now().UTC()
	b, err := json.Marshal(e)
	if err == nil {
		_, err = l.f.Write(append(b, '\n'))
	}
	if err == nil {
		l.seq, l.end = e.Seq, l.end+int64(len(b))+1
		return e
	}
	if l.err == nil {
		l.err = fmt.Errorf("write events: %w", err)
	}
	// Behind a line that was cut off, none could be read.
	if err := l.f.Truncate(l.end); err != nil {
		l.torn = true
	} else if _, err := l.f.Seek(l.end, io.SeekStart); err != nil {
		l.torn = true
	}
	return trials.Event{}
}

// Tell distributes an event that is not worth a line in the file.
func (l *Log) Tell(e trials.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.V, e.Time = trials.EventVersion, time.Now().UTC()
	l.tell(e)
}

// tell is called with mu held.
func (l *Log) tell(e trials.Event) {
	for ch := range l.subs {
		select {
		case ch <- e:
		default:
			delete(l.subs, ch)
			close(ch)
		}
	}
}

// Subscribe returns a channel of the events to come. It is closed by Close, by
// stop, and when its buffer is full; of a closed log it is closed already.
func (l *Log) Subscribe(buffer int) (events <-chan trials.Event, stop func()) {
	ch := make(chan trials.Event, buffer)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		close(ch)
		return ch, func() {}
	}
	l.subs[ch] = true
	return ch, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.subs[ch] {
			delete(l.subs, ch)
			close(ch)
		}
	}
}

// Close ends the file and all subscriptions. It returns the first error that
// writing met.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ch := range l.subs {
		delete(l.subs, ch)
		close(ch)
	}
	err := l.err
	if l.f != nil {
		err = errors.Join(err, l.f.Close())
		l.f = nil
	}
	return err
}
