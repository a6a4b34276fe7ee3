package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"harborgate/trials"
)

// followStep is how much of the file is read at once; no line is longer.
const followStep = 1 << 20

// FollowPause is how often to look for more: human speed, and a few calls.
const FollowPause = 200 * time.Millisecond

// Reader reads an events.jsonl that another process writes. It never writes, and
// holds the file open only within Read. For one goroutine.
type Reader struct {
	path   string
	offset int64 // behind the last whole line
	info   fs.FileInfo
}

// NewReader reads from the first event on. The file need not exist yet.
func NewReader(path string) *Reader { return &Reader{path: path} }

// Read returns the next events, some of those that there are: none means that
// there are no more now. A last line without its end is left for later: it is
// being written, or was torn by a crash and will be cut off. Lines that are no
// events are passed over. When the file was replaced or cut below what was read,
// reading starts over, which shows in Seq: it is 1 again. A file that is missing or
// is no regular file has no events.
func (r *Reader) Read() ([]trials.Event, error) {
	fi, err := os.Lstat(r.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !fi.Mode().IsRegular() {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("follow events: %w", err)
	}
	if r.info != nil && !os.SameFile(fi, r.info) || fi.Size() < r.offset {
		r.offset = 0
	}
	r.info = fi
	if fi.Size() == r.offset {
		return nil, nil
	}
	for {
		b, err := r.chunk()
		if err != nil || len(b) == 0 {
			return nil, err
		}
		r.offset += int64(len(b))
		if out := decode(b); len(out) > 0 {
			return out, nil
		}
	}
}

// chunk returns whole lines.
func (r *Reader) chunk() ([]byte, error) {
	f, err := os.Open(r.path)
	if err != nil {
		return nil, fmt.Errorf("follow events: %w", err)
	}
	defer f.Close()
	b := make([]byte, min(followStep, max(0, r.info.Size()-r.offset)))
	n, err := f.ReadAt(b, r.offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("follow events %s: %w", r.path, err)
	}
	end := bytes.LastIndexByte(b[:n], '\n') + 1
	if end == 0 && n == followStep {
		return nil, fmt.Errorf("follow events %s: line at byte %d is longer than %d bytes", r.path, r.offset, followStep)
	}
	return b[:end], nil
}

func decode(b []byte) []trials.Event {
	var out []trials.Event
	for line := range bytes.Lines(b) {
		var e trials.Event
		if json.Unmarshal(line, &e) == nil && e.Type != "" {
			out = append(out, e)
		}
	}
	return out
}
