package insideproto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// BodyReader reads the payload of FrameBody frames until FrameEnd, then io.EOF.
// A stream that ends before is ErrTruncated, a FrameRefused is a *Refusal. An
// error of the stream that is not final (a deadline) leaves it usable.
type BodyReader struct {
	r     io.Reader
	head  [headLen]byte
	have  int // bytes of head
	left  int // bytes of the current frame
	total int64
	err   error // final
}

// NewBodyReader reads from r.
func NewBodyReader(r io.Reader) *BodyReader { return &BodyReader{r: r} }

func (d *BodyReader) Read(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	for d.left == 0 {
		if err := d.next(); err != nil {
			return 0, err
		}
	}
	n, err := d.r.Read(p[:min(len(p), d.left)])
	d.left -= n
	d.total += int64(n)
	if n > 0 {
		return n, nil
	}
	return 0, d.cut(err)
}

// next reads the head of a frame, possibly in several calls.
func (d *BodyReader) next() error {
	for d.have < headLen {
		n, err := d.r.Read(d.head[d.have:])
		d.have += n
		if n == 0 && err != nil {
			return d.cut(err)
		}
	}
	d.have = 0
	t, n, err := parseHead(d.head[:])
	switch {
	case err != nil:
		d.err = err
	case t == FrameBody:
		d.left = n
	case t == FrameEnd || t == FrameRefused:
		d.err = d.last(t, n)
	default:
		d.err = fmt.Errorf("%w: type %d among data", ErrFrame, t)
	}
	return d.err
}

func (d *BodyReader) last(t FrameType, n int) error {
	p := make([]byte, n)
	if err := readFull(d.r, p); err != nil {
		return err
	}
	if t == FrameRefused {
		return ParseRefusal(p)
	}
	total, err := ParseCount(p)
	switch {
	case err != nil:
		return err
	case total != d.total:
		return fmt.Errorf("%w: %d bytes arrived, %d were sent", ErrTruncated, d.total, total)
	}
	return io.EOF
}

// cut makes the end of the stream an error, for good.
func (d *BodyReader) cut(err error) error {
	if errors.Is(err, io.EOF) {
		d.err = fmt.Errorf("%w after %d bytes", ErrTruncated, d.total)
		return d.err
	}
	return err
}

// ParseRefusal returns the refusal that p holds, or why it holds none.
func ParseRefusal(p []byte) error {
	var r Refusal
	if err := ParseRecord(p, &r); err != nil {
		return err
	}
	r.Message = Printable(r.Message, MaxRecord)
	return &r
}

// BodyWriter writes FrameBody frames, and FrameEnd when it is closed. Small
// writes are gathered only when buffered. It is not for concurrent use.
type BodyWriter struct {
	w     io.Writer
	buf   []byte // head and payload
	size  int
	flush bool // after every Write
	total int64
}

// NewBodyWriter writes to w in frames of up to size bytes (at most MaxChunk).
// Unless it is buffered, every Write is sent at once.
func NewBodyWriter(w io.Writer, size int, buffered bool) *BodyWriter {
	return &BodyWriter{w: w, size: min(size, MaxChunk), flush: !buffered}
}

// grow makes room for n bytes, or for a whole frame of what is gathered.
func (d *BodyWriter) grow(n int) {
	if !d.flush {
		n = d.size
	}
	if n = min(n, d.size); cap(d.buf) < headLen+n {
		was := max(len(d.buf), headLen)
		d.buf = append(make([]byte, 0, headLen+n), d.buf...)[:was]
	}
}

func (d *BodyWriter) Write(p []byte) (int, error) {
	d.grow(len(p))
	written := 0
	for len(p) > 0 {
		n := min(len(p), cap(d.buf)-len(d.buf))
		d.buf = append(d.buf, p[:n]...)
		p = p[n:]
		if len(d.buf) == cap(d.buf) || d.flush {
			if err := d.send(); err != nil {
				return written, err
			}
		}
		written += n
	}
	return written, nil
}

func (d *BodyWriter) send() error {
	n := len(d.buf) - headLen
	if n <= 0 {
		return nil
	}
	d.buf[0] = byte(FrameBody)
	binary.BigEndian.PutUint32(d.buf[1:], uint32(n))
	_, err := d.w.Write(d.buf)
	d.buf = d.buf[:headLen]
	if err == nil {
		d.total += int64(n)
	}
	return err
}

// ReadFrom sends what r delivers without another copy.
func (d *BodyWriter) ReadFrom(r io.Reader) (int64, error) {
	const piece = 16 << 10 // many connections may wait for something to read
	d.grow(piece)
	var copied int64
	for {
		n, err := r.Read(d.buf[len(d.buf):cap(d.buf)])
		d.buf = d.buf[:len(d.buf)+n]
		copied += int64(n)
		if len(d.buf) == cap(d.buf) || d.flush {
			if werr := d.send(); werr != nil {
				return copied, werr
			}
		}
		if errors.Is(err, io.EOF) {
			return copied, nil
		}
		if err != nil {
			return copied, err
		}
	}
}

// Close sends what is gathered and FrameEnd. It does not close w.
func (d *BodyWriter) Close() error {
	if err := d.send(); err != nil {
		return err
	}
	return WriteFrame(d.w, FrameEnd, Count(d.total))
}
