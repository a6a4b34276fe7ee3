package insideproto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// FrameType says what a frame carries.
type FrameType byte

// Frame types.
const (
	FrameStdout   FrameType = 1 + iota // output of a command
	FrameStderr                        // output of a command
	FrameStdin                         // input of a command
	FrameBody                          // bytes of a transfer or a connection
	FrameEnd                           // no more input or data; a Count of all bytes before it
	FrameAck                           // a Count of bytes consumed so far
	FrameAccepted                      // an Accepted record
	FrameExit                          // an Exit record
	FrameRefused                       // a Refusal record
	FrameKill                          // a Kill record
	FrameDone                          // the host has the exit record: forget the command
	FrameSpec                          // a Supervised record, between daemon and supervisor only
	frameTypes                         // number of types, plus one
)

const headLen = 5

// Errors of decoders. They mean a broken or hostile peer.
var (
	ErrFrame     = errors.New("malformed frame")
	ErrTruncated = errors.New("stream was cut off")
)

// maxPayload is the cap of a frame type, or -1 for types that do not exist.
func maxPayload(t FrameType) int {
	switch {
	case t < FrameStdout || t >= frameTypes:
		return -1
	case t <= FrameBody:
		return MaxChunk
	case t == FrameSpec:
		return MaxHeader
	default:
		return MaxRecord
	}
}

func parseHead(head []byte) (FrameType, int, error) {
	t := FrameType(head[0])
	n := binary.BigEndian.Uint32(head[1:headLen])
	if limit := maxPayload(t); limit < 0 || n > uint32(limit) {
		return 0, 0, fmt.Errorf("%w: type %d with %d bytes", ErrFrame, t, n)
	}
	return t, int(n), nil
}

// AppendFrame appends an encoded frame to b. The payload must fit its type.
func AppendFrame(b []byte, t FrameType, payload []byte) []byte {
	b = append(b, byte(t))
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}

// WriteFrame writes one frame with one Write.
func WriteFrame(w io.Writer, t FrameType, payload []byte) error {
	if limit := maxPayload(t); len(payload) > limit {
		return fmt.Errorf("%w: type %d with %d bytes", ErrFrame, t, len(payload))
	}
	_, err := w.Write(AppendFrame(make([]byte, 0, headLen+len(payload)), t, payload))
	return err
}

// FrameReader reads frames from r. It is not for concurrent use.
type FrameReader struct {
	r    io.Reader
	head [headLen]byte
	buf  []byte
}

// NewFrameReader returns a reader that takes memory only as frames need it.
func NewFrameReader(r io.Reader) *FrameReader { return &FrameReader{r: r} }

// Next returns the next frame. The payload is valid until the next call. At the
// end of the stream the error is io.EOF between frames, ErrTruncated within one.
func (f *FrameReader) Next() (FrameType, []byte, error) {
	if err := readHead(f.r, f.head[:]); err != nil {
		return 0, nil, err
	}
	t, n, err := parseHead(f.head[:])
	if err != nil {
		return 0, nil, err
	}
	payload, err := f.payload(n)
	if err != nil {
		return 0, nil, err
	}
	return t, payload, nil
}

// payload reads n bytes into the reader's buffer, which grows with what arrives,
// not with what the head promises.
func (f *FrameReader) payload(n int) ([]byte, error) {
	f.buf = f.buf[:0]
	for len(f.buf) < n {
		step := min(n-len(f.buf), MaxChunk)
		at := len(f.buf)
		f.buf = append(f.buf, make([]byte, step)...)
		if err := readFull(f.r, f.buf[at:]); err != nil {
			return nil, err
		}
	}
	return f.buf, nil
}

// readFull fills p from the middle of something: every end is a cut. The error
// does not wrap io.EOF, so that nobody takes it for an end.
func readFull(r io.Reader, p []byte) error {
	_, err := io.ReadFull(r, p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	return err
}

// readHead fills p from the beginning of something: io.EOF says that there is none.
func readHead(r io.Reader, p []byte) error {
	_, err := io.ReadFull(r, p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	return err
}

// Count encodes a number of bytes, the payload of FrameAck and FrameEnd.
func Count(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

// ParseCount reads what Count wrote.
func ParseCount(p []byte) (int64, error) {
	if len(p) != 8 || p[0] > 0x7f {
		return 0, fmt.Errorf("%w: bad count", ErrFrame)
	}
	return int64(binary.BigEndian.Uint64(p)), nil
}

// Payload returns the payload of a frame that AppendFrame made.
func Payload(frame []byte) []byte { return frame[headLen:] }
