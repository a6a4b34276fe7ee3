package insideproto

import (
	"net"
	"sync"
	"time"
)

// Conn is a relayed connection over one yamux stream. It can be closed in one
// direction, and its deadlines work. Read and Write may run concurrently.
type Conn struct {
	net.Conn // the stream: deadlines, addresses
	in       *BodyReader
	mu       sync.Mutex
	out      *BodyWriter
	ended    bool
}

// relayChunk is the largest frame of a connection; memory is taken for those that
// there are.
const relayChunk = 64 << 10

// NewConn speaks over stream, whose header was read or written.
func NewConn(stream net.Conn) *Conn {
	return &Conn{Conn: stream, in: NewBodyReader(stream), out: NewBodyWriter(stream, relayChunk, false)}
}

// Read returns io.EOF when the other side closed its direction, and an error
// when it vanished.
func (c *Conn) Read(p []byte) (int, error) { return c.in.Read(p) }

func (c *Conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return 0, net.ErrClosed
	}
	return c.out.Write(p)
}

// CloseWrite tells the other side that nothing more comes.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil
	}
	c.ended = true
	return c.out.Close()
}

// AwaitClose returns when the other side closed the stream, or vanished. It reads,
// so it is for whoever has read to the end.
func (c *Conn) AwaitClose() {
	var b [1]byte
	for {
		if n, err := c.Conn.Read(b[:]); n == 0 && err != nil {
			return
		}
	}
}

// closeWait bounds how long Close tries to say goodbye to a side that does not read.
const closeWait = time.Second

// Close ends both directions and interrupts Read and Write. What was written
// before still arrives. A Write in progress is cut off, and the other side
// notices.
func (c *Conn) Close() error {
	if c.mu.TryLock() {
		if !c.ended {
			c.ended = true
			_ = c.Conn.SetWriteDeadline(time.Now().Add(closeWait))
			_ = c.out.Close()
		}
		c.mu.Unlock()
	}
	return c.Conn.Close()
}
