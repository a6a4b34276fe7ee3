package results

import (
	"fmt"
	"io"
	"os"
)

// capped writes a log of bounded size: the first half of the limit as it comes,
// then it keeps the newest half in a ring of two segments and puts that behind a
// marker when it is closed. Memory stays flat: the ring is on disk too.
type capped struct {
	f       *os.File
	head    int64 // limit of the head
	written int64 // all that came
	ring    *ring
	err     error
}

// ring keeps the last size bytes of a stream in a file of twice that size, by
// turning between its two halves.
type ring struct {
	f     *os.File
	size  int64
	at    int64 // next byte in the current half
	half  int64 // 0 or 1
	total int64
}

func newCapped(f *os.File, limit int64) *capped { return &capped{f: f, head: max(1, limit/2)} }

// Write never fails for the limit's sake: the command must not notice.
func (c *capped) Write(b []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n := len(b)
	if room := c.head - c.written; room > 0 {
		part := b[:min(int64(len(b)), room)]
		if _, c.err = c.f.Write(part); c.err != nil {
			return 0, c.err
		}
		b = b[len(part):]
	}
	c.written += int64(n)
	if len(b) == 0 {
		return n, nil
	}
	if c.ring == nil {
		if c.ring, c.err = newRing(c.f.Name(), c.head); c.err != nil {
			return 0, c.err
		}
	}
	c.err = c.ring.write(b)
	return n, c.err
}

// Close puts the tail behind the head, with a marker that says what is missing.
func (c *capped) Close() error {
	err := c.err
	if c.ring != nil {
		dropped := c.ring.total - min(c.ring.total, c.ring.kept())
		if dropped > 0 {
			_, werr := fmt.Fprintf(c.f, "\n[harbor: %d bytes left out here, the log is limited to %d bytes]\n", dropped, 2*c.head)
			err = firstOf(err, werr)
		}
		err = firstOf(err, c.ring.drain(c.f))
	}
	return firstOf(err, c.f.Close())
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func newRing(beside string, size int64) (*ring, error) {
	f, err := os.CreateTemp("", "harbor-log-*")
	if err != nil {
		return nil, fmt.Errorf("keep the tail of %s: %w", beside, err)
	}
	// Without a name it goes with the file descriptor, also after a crash.
	return &ring{f: f, size: size}, os.Remove(f.Name())
}

func (r *ring) write(b []byte) error {
	r.total += int64(len(b))
	for len(b) > 0 {
		part := b[:min(int64(len(b)), r.size-r.at)]
		if _, err := r.f.WriteAt(part, r.half*r.size+r.at); err != nil {
			return err
		}
		r.at += int64(len(part))
		b = b[len(part):]
		if r.at == r.size {
			r.half, r.at = 1-r.half, 0
		}
	}
	return nil
}

// kept is how many bytes drain will write.
func (r *ring) kept() int64 { return min(r.total, r.size) }

// drain writes the last size bytes in order: the end of the older half, then the
// current one.
func (r *ring) drain(w io.Writer) error {
	defer r.f.Close()
	if older := r.kept() - r.at; older > 0 {
		from := (1-r.half)*r.size + r.size - older
		if _, err := io.Copy(w, io.NewSectionReader(r.f, from, older)); err != nil {
			return err
		}
	}
	_, err := io.Copy(w, io.NewSectionReader(r.f, r.half*r.size, min(r.at, r.kept())))
	return err
}
