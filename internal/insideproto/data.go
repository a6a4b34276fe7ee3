package insideproto

import (
	"encoding/binary"
	"fmt"
	"io"
)

// DataReader reads the payload of FrameData frames until FrameEnd, then io.EOF.
// A stream that ends before is ErrTruncated, a FrameRefused is a *Refusal. An
// error of the stream that is not final (a deadline) leaves it usable.
type DataReader struct {
	r     io.Reader
	head  [headLen]byte
	have  int // bytes of head
	left  int // bytes of the current frame
	total int64
	err   error // final
}

// NewDataReader reads from r.
func NewDataReader(r io.Reader) *DataReader { return &DataReader{r: r} }

func (d *DataReader) Read(p []byte) (int, error) {
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
func (d *DataReader) next() error {
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
	case t == FrameData:
		d.left = n
	case t == FrameEnd || t == FrameRefused:
		d.err = d.last(t, n)
	default:
		d.err = fmt.Errorf("%w: type %d among data", ErrFrame, t)
	}
	return d.err
}

func (d *DataReader) last(t FrameType, n int) error {
	p := make([]byte, n)
	if _, err := io.ReadFull(d.r, p); err != nil {
		return fmt.Errorf("%w: %w", ErrTruncated, err)
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
func (d *DataReader) cut(err error) error {
	if err == io.EOF {
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

// DataWriter writes FrameData frames, and FrameEnd when it is closed. Small
// writes are gathered only when buffered. It is not for concurrent use.
type DataWriter struct {
	w     io.Writer
	buf   []byte // head and payload
	size  int
	flush bool // after every Write
	total int64
}

// NewDataWriter writes to w in frames of up to size bytes (at most MaxChunk).
// Unless it is buffered, every Write is sent at once.
func NewDataWriter(w io.Writer, size int, buffered bool) *DataWriter {
	return &DataWriter{w: w, size: min(size, MaxChunk), flush: !buffered}
}

func (d *DataWriter) Write(p []byte) (int, error) {
	if d.buf == nil {
		d.buf = make([]byte, headLen, headLen+d.size)
	}
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

func (d *DataWriter) send() error {
	n := len(d.buf) - headLen
	if n <= 0 {
		return nil
	}
	d.buf[0] = byte(FrameData)
	binary.BigEndian.PutUint32(d.buf[1:], uint32(n))
	_, err := d.w.Write(d.buf)
	d.buf = d.buf[:headLen]
	if err == nil {
		d.total += int64(n)
	}
	return err
}

// ReadFrom sends what r delivers without another copy.
func (d *DataWriter) ReadFrom(r io.Reader) (int64, error) {
	if d.buf == nil {
		d.buf = make([]byte, headLen, headLen+d.size)
	}
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
		if err == io.EOF {
			return copied, nil
		}
		if err != nil {
			return copied, err
		}
	}
}

// Close sends what is gathered and FrameEnd. It does not close w.
func (d *DataWriter) Close() error {
	if err := d.send(); err != nil {
		return err
	}
	return WriteFrame(d.w, FrameEnd, Count(d.total))
}
