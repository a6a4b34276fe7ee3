package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/sys/unix"

	"harborgate/internal/insideproto"
)

// port is a listener on the loopback whose connections go to the host. It outlives
// the session that opened it for a while, so that a broken one can come back.
type port struct {
	id       string
	listener net.Listener
	relays   chan struct{} // the daemon's

	mu      sync.Mutex
	mux     *yamux.Session
	current *yamux.Stream // whose end is the port's
	changed chan struct{} // closed when mux changes
}

// hostWait is how long ports and their connections wait for a broken session.
const hostWait = 60 * time.Second

// serveExpose opens a port, or moves it to this session, and holds it until the
// host closes the stream.
func (d *daemon) serveExpose(mux *yamux.Session, s *yamux.Stream, h insideproto.Header) {
	if h.ID == "" || len(h.ID) > maxID {
		refuse(s, insideproto.Refuse(insideproto.Invalid, "malformed request"))
		return
	}
	p, err := d.port(h.ID)
	if err != nil {
		refuse(s, err)
		return
	}
	p.use(mux, s)
	accepted := insideproto.Accepted{Port: p.listener.Addr().(*net.TCPAddr).Port}
	if err := insideproto.WriteRecord(s, insideproto.FrameAccepted, accepted); err != nil {
		return
	}
	awaitClose(s)
	release := func() {
		if p.heldBy(s) {
			d.closePort(p)
		}
	}
	if mux.IsClosed() {
		time.AfterFunc(hostWait, release)
		return
	}
	release() // by the host's will
}

// port finds or opens the port of an id.
func (d *daemon) port(id string) (*port, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.ports[id]; p != nil {
		return p, nil
	}
	l, err := listenLoopback()
	if err != nil {
		return nil, insideproto.Refuse(insideproto.Unavailable, "open a port on the sandbox's loopback: %v", err)
	}
	p := &port{
		id:       id,
		listener: l,
		relays:   d.relays,
		changed:  make(chan struct{}),
	}
	d.ports[id] = p
	go p.accept()
	return p, nil
}

func (d *daemon) closePort(p *port) {
	d.mu.Lock()
	delete(d.ports, p.id)
	d.mu.Unlock()
	p.listener.Close()
}

// listenLoopback brings the loopback up when nobody did: one can listen on it even
// when it is down, but not connect.
func listenLoopback() (net.Listener, error) {
	if err := loopbackUp(); err != nil {
		return nil, fmt.Errorf("bring up lo: %w", err)
	}
	return net.Listen("tcp4", "127.0.0.1:0")
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, req); err != nil {
		return err
	}
	flags := req.Uint16()
	if flags&unix.IFF_UP != 0 {
		return nil
	}
	req.SetUint16(flags | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

// use moves the port to a session.
func (p *port) use(mux *yamux.Session, s *yamux.Stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mux, p.current = mux, s
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *port) heldBy(s *yamux.Stream) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current == s
}

// accept takes as many connections as the host does, over all ports; the rest wait
// in the kernel.
func (p *port) accept() {
	for {
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			<-time.After(acceptPause)
			continue
		}
		p.relays <- struct{}{}
		go func() {
			defer func() { <-p.relays }()
			defer conn.Close()
			p.relay(conn.(*net.TCPConn))
		}()
	}
}

// relay carries one connection to the host until both directions have ended, or
// either side is gone.
func (p *port) relay(conn *net.TCPConn) {
	stream, err := p.dialHost()
	if err != nil {
		return
	}
	host := insideproto.NewConn(stream)
	defer host.Close()
	up := make(chan struct{})
	go func() {
		defer close(up)
		if _, err := io.Copy(host, conn); err != nil {
			host.Conn.Close() // without the end of data: it was cut off
			return
		}
		_ = host.CloseWrite()
	}()
	if _, err := io.Copy(conn, host); err == nil {
		_ = conn.CloseWrite()
		host.AwaitClose()
	}
	conn.Close()
	<-up
}

// dialHost opens a stream to the host, over the next session if need be.
func (p *port) dialHost() (*yamux.Stream, error) {
	deadline := time.After(hostWait)
	for {
		p.mu.Lock()
		mux, changed := p.mux, p.changed
		p.mu.Unlock()
		if mux != nil {
			stream, err := mux.OpenStream()
			if err == nil {
				err = insideproto.WriteHeader(stream, insideproto.Header{Op: insideproto.OpRelay, ID: p.id})
			}
			if err == nil {
				return stream, nil
			}
		}
		select {
		case <-changed:
		case <-deadline:
			return nil, errors.New("no session to the host")
		}
	}
}
