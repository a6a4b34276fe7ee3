package authproxy

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// GCPercent is for debug.SetGCPercent in a process that does nothing but serve the
// proxy: what it keeps is little, so the usual 100 would collect garbage all the time.
const GCPercent = 150

// sourceKey is the key of a connection's source within its context.
type sourceKey struct{}

// newServer returns the server of the data plane: HTTP/1.1 in clear, patient with
// streams and impatient with headers. What it has to say about clients nobody
// needs.
func newServer(p *Proxy) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:                      p,
		Protocols:                    &protocols,
		ReadHeaderTimeout:            10 * time.Second,
		IdleTimeout:                  5 * time.Minute,
		MaxHeaderBytes:               64 << 10,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, sourceKey{}, sourceOfConn(c))
		},
	}
}

// sourceOfConn is where a connection comes from.
func sourceOfConn(c net.Conn) string {
	if in, ok := c.(*counted); ok {
		return in.source
	}
	return addressOf(c)
}

// Serve answers connections of l until Close or an error of l. Meanwhile its address
// is in Status.
func (p *Proxy) Serve(l net.Listener) error {
	address := l.Addr().Network() + ":" + l.Addr().String()
	p.mu.Lock()
	p.listen = append(p.listen, address)
	p.mu.Unlock()
	err := p.server.Serve(&guarded{Listener: l, guard: p.guard})
	p.mu.Lock()
	p.listen = slices.DeleteFunc(p.listen, func(a string) bool { return a == address })
	p.mu.Unlock()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Handle returns a function that answers connections from source, one goroutine
// for each, and returns when its connection has ended. It is what a sandbox's
// Expose wants.
func (p *Proxy) Handle(source string) func(net.Conn) {
	return func(c net.Conn) {
		in := p.guard.admit(c, source)
		if in == nil {
			return
		}
		if !p.conns.hand(in) {
			_ = in.Close()
			return
		}
		<-in.closed
	}
}

// conns is a listener whose connections are handed to it.
type conns struct {
	ready chan net.Conn
	once  sync.Once
	ended chan struct{}
}

func newConns() *conns { return &conns{ready: make(chan net.Conn), ended: make(chan struct{})} }

func (c *conns) hand(conn net.Conn) bool {
	select {
	case c.ready <- conn:
		return true
	case <-c.ended:
		return false
	}
}

// Accept waits for a connection.
func (c *conns) Accept() (net.Conn, error) {
	select {
	case conn := <-c.ready:
		return conn, nil
	case <-c.ended:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (c *conns) Close() error {
	c.once.Do(func() { close(c.ended) })
	return nil
}

// Addr is the address of no network.
func (c *conns) Addr() net.Addr { return handedAddr{} }

type handedAddr struct{}

// Network names none.
func (handedAddr) Network() string { return "handed" }

// String names none.
func (handedAddr) String() string { return "handed" }
