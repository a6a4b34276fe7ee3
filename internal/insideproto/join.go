package insideproto

import (
	"encoding/binary"
	"io"
)

// Facts of the yamux protocol: 12 bytes of head (version, type, flags, stream,
// length), of which only type 0 is followed by length bytes.
const (
	muxHead = 12
	muxBody = 0
)

// joined writes the head of a yamux frame together with its body. yamux writes
// them one after the other, and every write costs a trip through the engine.
type joined struct {
	io.ReadWriteCloser
	buf []byte
}

// JoinWrites wraps the stream below a yamux session.
func JoinWrites(c io.ReadWriteCloser) io.ReadWriteCloser { return &joined{ReadWriteCloser: c} }

func (j *joined) Write(p []byte) (int, error) {
	if len(j.buf) == 0 && len(p) == muxHead && p[1] == muxBody && binary.BigEndian.Uint32(p[8:]) > 0 {
		j.buf = append(j.buf, p...)
		return len(p), nil
	}
	if len(j.buf) == 0 {
		return j.ReadWriteCloser.Write(p)
	}
	j.buf = append(j.buf, p...)
	_, err := j.ReadWriteCloser.Write(j.buf)
	j.buf = j.buf[:0]
	if err != nil {
		return 0, err
	}
	return len(p), nil
}
