package insideproto

import (
	"fmt"
	"sort"
	"sync"
	"time"
)

// State is what a reader of a Spool found.
type State uint8

// States.
const (
	More     State = iota // a frame
	Finished              // everything was read and Finish was called
	Stale                 // another reader took over, or nobody reads any more
)

// chunkCost is what a kept frame costs beyond its bytes, so that many small
// writes cannot exceed the limit either.
const chunkCost = 64

// Spool keeps encoded frames until the other side acknowledged them, so that a
// broken session can go on where it was. One goroutine or more append; one reads
// at a time. Offsets count payload bytes since the beginning.
type Spool struct {
	limit    int
	patience time.Duration

	mu       sync.Mutex
	changed  sync.Cond
	chunks   []chunk
	size     int   // cost of chunks
	start    int64 // offset of the first kept byte
	end      int64 // offset behind the last one
	reader   int   // number of the current reader, 0 is none
	readers  int   // number of readers so far
	finished bool
	unread   time.Time // since when nobody reads
}

type chunk struct {
	off   int64
	typ   FrameType
	frame []byte
}

func (c chunk) len() int64 { return int64(len(c.frame) - headLen) }

// Forever is the patience of a spool that loses nothing.
const Forever time.Duration = -1

// NewSpool returns a spool that keeps at most limit bytes. A full spool makes
// Append wait. When nobody has read for longer than patience, it forgets its
// oldest frames instead.
func NewSpool(limit int, patience time.Duration) *Spool {
	s := &Spool{limit: limit, patience: patience, unread: time.Now()}
	s.changed.L = &s.mu
	return s
}

// Append adds p, at most MaxChunk bytes, as one frame. It copies p. After Finish
// it does nothing.
func (s *Spool) Append(t FrameType, p []byte) {
	frame := AppendFrame(make([]byte, 0, headLen+len(p)), t, p)
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.size > 0 && s.size+len(p)+chunkCost > s.limit && !s.finished {
		s.makeRoom()
	}
	if s.finished {
		return
	}
	c := chunk{off: s.end, typ: t, frame: frame}
	s.chunks = append(s.chunks, c)
	s.end += c.len()
	s.size += len(p) + chunkCost
	s.changed.Broadcast()
}

// makeRoom waits for a change, or forgets what nobody came for.
func (s *Spool) makeRoom() {
	if s.patience == Forever || s.reader != 0 {
		s.changed.Wait()
		return
	}
	left := s.patience - time.Since(s.unread)
	if left <= 0 {
		s.drop()
		return
	}
	timer := time.AfterFunc(left, s.changed.Broadcast)
	defer timer.Stop()
	s.changed.Wait()
}

// drop forgets the oldest chunk.
func (s *Spool) drop() {
	c := s.chunks[0]
	s.chunks[0] = chunk{}
	s.chunks = s.chunks[1:]
	if len(s.chunks) == 0 {
		s.chunks = nil
	}
	s.size -= int(c.len()) + chunkCost
	s.start = c.off + c.len()
}

// Finish says that nothing follows. It wakes everybody.
func (s *Spool) Finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
	s.changed.Broadcast()
}

// Size is how many bytes are kept.
func (s *Spool) Size() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end - s.start
}

// End is the offset behind everything appended so far.
func (s *Spool) End() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

// Attach makes the caller the only reader, as of now. It has everything before
// offset from. What follows is read with Next, starting at the returned offset,
// which is beyond from when frames were forgotten.
func (s *Spool) Attach(from int64) (reader int, offset int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ack(from); err != nil {
		return 0, 0, err
	}
	s.readers++
	s.reader = s.readers
	s.changed.Broadcast()
	return s.reader, max(from, s.start), nil
}

// Detach ends a reader; if it is no longer the current one, nothing happens.
func (s *Spool) Detach(reader int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader == reader {
		s.reader, s.unread = 0, time.Now()
		s.changed.Broadcast()
	}
}

// Current reports whether reader is the one that attached last.
func (s *Spool) Current(reader int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reader == reader
}

// Unread reports whether nobody reads.
func (s *Spool) Unread() bool { return s.Current(0) }

// Ack forgets everything before offset. An offset that was never sent is an error.
func (s *Spool) Ack(offset int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ack(offset)
}

func (s *Spool) ack(offset int64) error {
	if offset < 0 || offset > s.end {
		return fmt.Errorf("%w: offset %d of %d acknowledged", ErrFrame, offset, s.end)
	}
	for len(s.chunks) > 0 && s.chunks[0].off+s.chunks[0].len() <= offset {
		s.drop()
	}
	s.changed.Broadcast()
	return nil
}

// Next waits for what is kept at offset at and returns it as an encoded frame,
// with the offset behind it.
func (s *Spool) Next(reader int, at int64) (frame []byte, next int64, st State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if s.reader != reader {
			return nil, at, Stale
		}
		if i := s.find(at); i < len(s.chunks) {
			c := s.chunks[i]
			if at > c.off {
				payload := c.frame[headLen+int(at-c.off):]
				return AppendFrame(nil, c.typ, payload), c.off + c.len(), More
			}
			return c.frame, c.off + c.len(), More
		}
		if s.finished {
			return nil, at, Finished
		}
		s.changed.Wait()
	}
}

// find returns the index of the chunk that holds offset at.
func (s *Spool) find(at int64) int {
	return sort.Search(len(s.chunks), func(i int) bool {
		return s.chunks[i].off+s.chunks[i].len() > at
	})
}
