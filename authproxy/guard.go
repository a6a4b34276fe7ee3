package authproxy

import (
	"fmt"
	"net"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// Connections are how many may be open at once. A source is what Proxy.Handle was
// given, or the address of a TCP peer.
type Connections struct {
	All    int // 8192 unless given
	Source int // of one source; 2048 unless given
}

// Who asks without a valid token is answered, and written down, as long as he does
// not do so all the time: what is beyond that costs him a connection each, and us
// no line of the audit.
const (
	strangersAtOnce = 30
	strangersRate   = rate.Limit(1) // a second
	knownSources    = 4096
)

// guard keeps account of sources: how many connections each has open, and how often
// it asked without a valid token. Requests with one are never held up by it. It is
// safe for concurrent use.
type guard struct {
	most Connections

	mu        sync.Mutex
	open      int
	by        map[string]int
	strangers *lru.Cache[string, *stranger]
}

// stranger is a source that asked without a valid token.
type stranger struct {
	limit   *rate.Limiter
	skipped int // requests without a record, since the last that had one
}

func newGuard(most Connections) (*guard, error) {
	strangers, err := lru.New[string, *stranger](knownSources)
	if err != nil {
		return nil, fmt.Errorf("auth proxy: %w", err)
	}
	return &guard{most: most, by: map[string]int{}, strangers: strangers}, nil
}

// enter counts a connection in, unless there are as many as there may be.
func (g *guard) enter(source string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open >= g.most.All || g.by[source] >= g.most.Source {
		return false
	}
	g.open++
	g.by[source]++
	return true
}

func (g *guard) leave(source string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
	if g.by[source]--; g.by[source] == 0 {
		delete(g.by, source)
	}
}

// refused counts a request without a valid token. It reports whether there were
// too many, and if not, how many since the last call that said so.
func (g *guard) refused(source string, now time.Time) (tooMany bool, skipped int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, ok := g.strangers.Get(source)
	if !ok {
		s = &stranger{limit: rate.NewLimiter(strangersRate, strangersAtOnce)}
		g.strangers.Add(source, s)
	}
	if !s.limit.AllowN(now, 1) {
		s.skipped++
		return true, 0
	}
	skipped, s.skipped = s.skipped, 0
	return false, skipped
}

// counted is a connection that the guard has let in.
type counted struct {
	net.Conn
	source string
	once   sync.Once
	guard  *guard
	closed chan struct{}
}

// admit lets a connection in, or closes it and returns nil.
func (g *guard) admit(c net.Conn, source string) *counted {
	if !g.enter(source) {
		_ = c.Close()
		return nil
	}
	return &counted{Conn: c, source: source, guard: g, closed: make(chan struct{})}
}

// Close closes the connection and counts it out.
func (c *counted) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.guard.leave(c.source)
		close(c.closed)
	})
	return err
}

// guarded is a listener whose connections the guard lets in.
type guarded struct {
	net.Listener
	guard *guard
}

// Accept waits for a connection that is let in.
func (l *guarded) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if in := l.guard.admit(c, addressOf(c)); in != nil {
			return in, nil
		}
	}
}

// addressOf is the address of a connection's peer, without the port.
func addressOf(c net.Conn) string {
	host, _, err := net.SplitHostPort(c.RemoteAddr().String())
	if err != nil {
		return c.RemoteAddr().Network()
	}
	return host
}
