package kernel

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// socket is one end of a connection in memory: buffered, with deadlines and half
// close, which net.Pipe has not. The inner end is a descriptor of a process, the
// outer end a net.Conn.
type socket struct {
	in, out       *buffer
	local, remote net.Addr
	rd, wr        deadline
	onClose       func() // may be nil

	closeWrite sync.Once
	closeAll   sync.Once
	closed     atomic.Bool
	aborted    atomic.Bool
}

func socketPair(port int) (inner, outer *socket) {
	there, back := newBuffer(PipeBytes), newBuffer(PipeBytes)
	there.readers, there.writers, back.readers, back.writers = 1, 1, 1, 1
	loopback := net.IPv4(127, 0, 0, 1)
	server, client := &net.TCPAddr{IP: loopback, Port: port}, &net.TCPAddr{IP: loopback, Port: firstPort - 1}
	inner = &socket{in: back, out: there, local: client, remote: server}
	outer = &socket{in: there, out: back, local: server, remote: client}
	return inner, outer
}

// read, write and close make the inner end a file.
func (s *socket) read(stop <-chan struct{}, b []byte) (int, error)  { return s.in.read(stop, b) }
func (s *socket) write(stop <-chan struct{}, b []byte) (int, error) { return s.out.write(stop, b) }
func (s *socket) close()                                            { _ = s.Close() }

func (s *socket) Read(b []byte) (int, error) {
	n, err := before(s.rd.passed(), b, s.in.read)
	return n, s.explain(err)
}

func (s *socket) Write(b []byte) (int, error) {
	n, err := before(s.wr.passed(), b, s.out.write)
	return n, s.explain(err)
}

// before does nothing once stop is closed, even if there would be no wait.
func before(stop <-chan struct{}, b []byte, do func(<-chan struct{}, []byte) (int, error)) (int, error) {
	select {
	case <-stop:
		return 0, errStopped
	default:
		return do(stop, b)
	}
}

func (s *socket) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case s.aborted.Load():
		return syscall.ECONNRESET
	case s.closed.Load():
		return net.ErrClosed
	case errors.Is(err, errStopped):
		return os.ErrDeadlineExceeded
	}
	return err
}

// CloseWrite ends this direction only.
func (s *socket) CloseWrite() error {
	s.closeWrite.Do(func() { s.out.closeEnd(false, true) })
	return nil
}

func (s *socket) Close() error {
	s.closeAll.Do(func() {
		s.closed.Store(true)
		_ = s.CloseWrite()
		s.in.closeEnd(true, false)
		_ = s.SetDeadline(time.Unix(1, 0)) // wakes whoever waits
		if s.onClose != nil {
			s.onClose()
		}
	})
	return nil
}

// abort ends the connection for both sides at once.
func (s *socket) abort() {
	s.aborted.Store(true)
	_ = s.Close()
}

func (s *socket) LocalAddr() net.Addr  { return s.local }
func (s *socket) RemoteAddr() net.Addr { return s.remote }

func (s *socket) SetDeadline(t time.Time) error {
	s.rd.set(t)
	s.wr.set(t)
	return nil
}

func (s *socket) SetReadDeadline(t time.Time) error {
	s.rd.set(t)
	return nil
}

func (s *socket) SetWriteDeadline(t time.Time) error {
	s.wr.set(t)
	return nil
}

// deadline is a channel that closes at a time that can be moved.
type deadline struct {
	mu    sync.Mutex // guards what follows
	timer *time.Timer
	done  chan struct{} // nil until a deadline is set
}

func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done == nil {
		d.done = make(chan struct{})
	}
	return d.done
}

func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.done // the timer has fired and is closing it
	}
	d.timer = nil
	select {
	case <-d.done:
		d.done = nil
	default:
	}
	if d.done == nil {
		d.done = make(chan struct{})
	}
	done, wait := d.done, time.Until(t)
	switch {
	case t.IsZero():
	case wait <= 0:
		close(done)
	default:
		d.timer = time.AfterFunc(wait, func() { close(done) })
	}
}
