package inside

import (
	"encoding/binary"
	"errors"
	"io"
	"time"

	"golang.org/x/time/rate"
)

// guard watches the yamux frames of a hostile peer. yamux answers every ping in a
// goroutine of its own, which waits while the peer does not read: without a limit
// a sandbox could fill the host's memory with them.
type guard struct {
	io.ReadWriteCloser
	pings *rate.Limiter
	head  [yamuxHead]byte
	have  int   // bytes of head
	body  int64 // bytes to come that are no head
}

// Facts of the yamux protocol: 12 bytes of head (version, type, flags, stream,
// length), of which only type 0 is followed by length bytes.
const (
	yamuxHead = 12
	yamuxBody = 0
	yamuxPing = 2
)

// A companion pings every 15 seconds.
const (
	pingRate  = rate.Limit(1)
	pingBurst = 16
)

var errPings = errors.New("the sandbox floods the session with pings")

func newGuard(c io.ReadWriteCloser) *guard {
	return &guard{ReadWriteCloser: c, pings: rate.NewLimiter(pingRate, pingBurst)}
}

func (g *guard) Read(p []byte) (int, error) {
	n, err := g.ReadWriteCloser.Read(p)
	if werr := g.watch(p[:n]); werr != nil {
		return 0, werr
	}
	return n, err
}

func (g *guard) watch(p []byte) error {
	for len(p) > 0 {
		if g.body > 0 {
			n := min(g.body, int64(len(p)))
			g.body -= n
			p = p[n:]
			continue
		}
		n := copy(g.head[g.have:], p)
		g.have += n
		p = p[n:]
		if g.have < yamuxHead {
			return nil
		}
		g.have = 0
		switch g.head[1] {
		case yamuxBody:
			g.body = int64(binary.BigEndian.Uint32(g.head[8:]))
		case yamuxPing:
			if !g.pings.AllowN(time.Now(), 1) {
				return errPings
			}
		}
	}
	return nil
}
