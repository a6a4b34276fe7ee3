package inside

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"harborgate/internal/insideproto"
)

// port is one exposed port: a name that the companion may use for connections to
// one handler, and nothing else.
type port struct {
	id     string
	handle func(net.Conn)

	mu     sync.Mutex
	number int
	stream net.Conn // holds the port open on the current link
	conns  map[*relayed]struct{}
	closed bool
}

// Expose opens a port, see [providers.Sandbox]. At most insideproto.MaxRelays
// connections are carried at a time; further ones wait. A connection that was cut
// off reads an error, one that was closed reads io.EOF, and both can be closed in
// one direction (CloseWrite).
func (s *Session) Expose(ctx context.Context, handle func(net.Conn)) (string, func() error, error) {
	p := &port{id: newID(), handle: handle, conns: map[*relayed]struct{}{}}
	if err := s.expose(ctx, p); err != nil {
		return "", nil, s.fail(ctx, "expose", err)
	}
	closer := func() error {
		s.unexpose(p)
		return nil
	}
	return fmt.Sprintf("http://127.0.0.1:%d", p.number), closer, nil
}

// expose registers the port first, so that a link that breaks meanwhile takes it
// along.
func (s *Session) expose(ctx context.Context, p *port) error {
	s.mu.Lock()
	s.ports[p.id] = p
	s.mu.Unlock()
	for {
		l, err := s.connected(ctx)
		if err == nil {
			err = p.open(ctx, l)
		}
		if err == nil {
			return nil
		}
		if !errors.Is(err, errBroken) || ctx.Err() != nil || l == nil || !l.broken() {
			s.unexpose(p)
			return err
		}
	}
}

func (s *Session) unexpose(p *port) {
	s.mu.Lock()
	delete(s.ports, p.id)
	s.mu.Unlock()
	p.close()
}

// reopenPorts moves all open ports to a new link.
func (s *Session) reopenPorts(ctx context.Context, l *link) error {
	s.mu.Lock()
	var open []*port
	for _, p := range s.ports {
		open = append(open, p)
	}
	s.mu.Unlock()
	for _, p := range open {
		if err := p.open(ctx, l); err != nil {
			return fmt.Errorf("reopen a port: %w", err)
		}
	}
	return nil
}

// open asks the companion to listen, or to go on on this link.
func (p *port) open(ctx context.Context, l *link) error {
	stream, err := l.open()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { stream.Close() })()
	if err := insideproto.WriteHeader(stream, insideproto.Header{Op: insideproto.OpExpose, ID: p.id}); err != nil {
		stream.Close()
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	var a insideproto.Accepted
	if err := accept(stream, &a); err != nil {
		stream.Close()
		return err
	}
	return p.opened(stream, a.Port)
}

func (p *port) opened(stream net.Conn, number int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return stream.Close()
	case number < 1 || number > 65535 || p.number != 0 && p.number != number:
		stream.Close()
		return fmt.Errorf("%w: port %d", insideproto.ErrFrame, number)
	}
	if p.stream != nil {
		p.stream.Close()
	}
	p.number, p.stream = number, stream
	return nil
}

// close ends the port and its connections.
func (p *port) close() {
	p.mu.Lock()
	p.closed = true
	stream := p.stream
	p.mu.Unlock()
	if stream != nil {
		stream.Close()
	}
	p.closeConns()
}

func (p *port) closeConns() {
	p.mu.Lock()
	p.closed = true
	conns := p.conns
	p.conns = map[*relayed]struct{}{}
	p.mu.Unlock()
	for c := range conns {
		_ = c.cut()
	}
}

func (p *port) add(c *relayed) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.conns) >= insideproto.MaxRelays {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *port) remove(c *relayed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// headerWait is how long a sandbox may take to name the port of a connection.
const headerWait = 10 * time.Second

// receive hands a stream that the sandbox opened to the port that it names, or
// closes it.
func (s *Session) receive(stream *yamux.Stream) {
	_ = stream.SetReadDeadline(time.Now().Add(headerWait))
	h, err := insideproto.ReadHeader(stream, insideproto.MaxRelayHeader)
	_ = stream.SetReadDeadline(time.Time{})
	s.mu.Lock()
	p := s.ports[h.ID]
	s.mu.Unlock()
	if err != nil || h.Op != insideproto.OpRelay || p == nil {
		stream.Close()
		return
	}
	conn := &relayed{ahead: &ahead{Conn: insideproto.NewConn(stream)}, port: p}
	if !p.add(conn) {
		conn.Close()
		return
	}
	p.handle(conn)
}

// relayed is a connection that its port knows until it is closed.
type relayed struct {
	*ahead
	port *port
}

func (r *relayed) Close() error {
	r.port.remove(r)
	return r.ahead.Close()
}
