package kernel

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Dialer finds who answers at an address beyond the machine. It returns an error
// when there is no way. The handler runs in its own goroutine and closes the
// connection.
type Dialer func(host string, port int) (handle func(net.Conn), err error)

// network is loopback and, with a Dialer, what lies beyond.
type network struct {
	outside Dialer

	mu       sync.Mutex // guards what follows
	ports    map[int]*Listener
	lastPort int
	closed   bool
}

// firstPort is where the ports that Listen chooses begin.
const firstPort = 40000

func newNetwork(outside Dialer) *network {
	return &network{outside: outside, ports: map[int]*Listener{}, lastPort: firstPort}
}

func (n *network) close() {
	n.mu.Lock()
	n.closed = true
	open := slices.Collect(maps.Values(n.ports))
	n.mu.Unlock()
	for _, l := range open {
		l.Close()
	}
}

// Listener is a port on the machine's loopback.
type Listener struct {
	Port   int
	net    *network
	handle func(net.Conn)

	mu    sync.Mutex // guards what follows
	conns map[*socket]struct{}
	over  bool
}

// Listen opens a port; port 0 chooses one. Each connection arrives at handle in
// its own goroutine. Any goroutine may call it.
func (m *Machine) Listen(port int, handle func(net.Conn)) (*Listener, error) {
	n := m.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, syscall.ENETDOWN
	}
	if port == 0 {
		n.lastPort++
		port = n.lastPort
	}
	if n.ports[port] != nil {
		return nil, syscall.EADDRINUSE
	}
	l := &Listener{Port: port, net: n, handle: handle, conns: map[*socket]struct{}{}}
	n.ports[port] = l
	return l, nil
}

// Close ends the port and its connections. Twice is fine.
func (l *Listener) Close() {
	l.net.mu.Lock()
	delete(l.net.ports, l.Port)
	l.net.mu.Unlock()
	l.mu.Lock()
	l.over = true
	open := slices.Collect(maps.Keys(l.conns))
	l.mu.Unlock()
	for _, c := range open {
		c.abort()
	}
}

func (l *Listener) connect() (*socket, error) {
	inner, outer := socketPair(l.Port)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil, syscall.ECONNREFUSED
	}
	l.conns[outer] = struct{}{}
	outer.onClose = func() {
		l.mu.Lock()
		delete(l.conns, outer)
		l.mu.Unlock()
	}
	go l.handle(outer)
	return inner, nil
}

// dial connects to a port of loopback or to somebody outside.
func (n *network) dial(host string, port int) (*socket, error) {
	if host == "localhost" || host == "::1" || strings.HasPrefix(host, "127.") {
		n.mu.Lock()
		l := n.ports[port]
		n.mu.Unlock()
		if l == nil {
			return nil, syscall.ECONNREFUSED
		}
		return l.connect()
	}
	if n.outside == nil {
		return nil, syscall.ENETUNREACH
	}
	handle, err := n.outside(host, port)
	if err != nil {
		return nil, err
	}
	inner, outer := socketPair(port)
	go handle(outer)
	return inner, nil
}

// Dial connects to a loopback port of the machine. Any goroutine may call it.
func (m *Machine) Dial(port int) (net.Conn, error) { return m.net.dial("localhost", port) }

// Dial connects to an address and returns the descriptor.
func (p *Proc) Dial(host string, port int) (int, error) {
	p.Check()
	s, err := p.m.net.dial(host, port)
	if err != nil {
		return 0, fmt.Errorf("connect to %s port %d: %w", host, port, err)
	}
	return p.install(newDesc(s)), nil
}

func tcpPath(abs string) (host string, port int, ok bool) {
	rest, ok := strings.CutPrefix(abs, "/dev/tcp/")
	i := strings.LastIndexByte(rest, '/')
	if !ok || i < 0 {
		return "", 0, false
	}
	port, err := strconv.Atoi(rest[i+1:])
	return rest[:i], port, err == nil
}
