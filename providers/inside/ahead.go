package inside

import (
	"net"
	"sync"
	"time"

	"harborgate/internal/insideproto"
)

// ahead lets whoever writes to a relayed connection go on while what he wrote is
// under way, up to a limit: every frame of the session waits for its turn, and an
// answer is written in many small pieces. What gathers meanwhile goes as one.
//
// An error of a write is that of a later one. Write is for one goroutine at a time.
type ahead struct {
	*insideproto.Conn

	mu      sync.Mutex
	buf     []byte // what waits
	spare   []byte
	err     error
	sending chan struct{} // closed when the sender has nothing left; nil while there is none
	room    chan struct{} // closed when buf was taken; nil unless somebody waits
}

const (
	// mostAhead is what may wait: enough to hide the way to the sandbox.
	mostAhead = 64 << 10
	// keptAhead is what an idle connection keeps for the next write.
	keptAhead = 4 << 10
)

// Write returns when p is on its way, or waits.
func (a *ahead) Write(p []byte) (n int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(p) > 0 {
		if a.err != nil {
			return n, a.err
		}
		k := min(len(p), mostAhead-len(a.buf))
		if k == 0 {
			a.await()
			continue
		}
		a.buf = append(a.buf, p[:k]...)
		n, p = n+k, p[k:]
		if a.sending == nil {
			a.sending = make(chan struct{})
			go a.send()
		}
	}
	return n, nil
}

// await returns when there is room, or an error.
func (a *ahead) await() {
	if a.room == nil {
		a.room = make(chan struct{})
	}
	room := a.room
	a.mu.Unlock()
	<-room
	a.mu.Lock()
}

// send writes until nothing waits.
func (a *ahead) send() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.buf) > 0 && a.err == nil {
		out := a.buf
		a.buf = a.spare[:0]
		a.free()
		a.mu.Unlock()
		_, err := a.Conn.Write(out)
		a.mu.Lock()
		a.spare = out
		if err != nil {
			a.err = err
		}
	}
	a.free() // of a connection that was cut, too
	if cap(a.buf)+cap(a.spare) > keptAhead {
		a.buf, a.spare = nil, nil
	}
	close(a.sending)
	a.sending = nil
}

// free wakes whoever waits for room.
func (a *ahead) free() {
	if a.room != nil {
		close(a.room)
		a.room = nil
	}
}

// drain waits for what is under way; false after the limit.
func (a *ahead) drain(limit time.Duration) bool {
	a.mu.Lock()
	sending := a.sending
	a.mu.Unlock()
	if sending == nil {
		return true
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-sending:
		return true
	case <-late.C:
		return false
	}
}

// drainWait bounds how long the end of a connection waits for a side that does not
// read.
const drainWait = time.Second

// CloseWrite sends what waits first.
func (a *ahead) CloseWrite() error {
	a.drain(drainWait)
	return a.Conn.CloseWrite()
}

// Close sends what waits first.
func (a *ahead) Close() error {
	a.drain(drainWait)
	return a.cut()
}

// cut ends the connection at once.
func (a *ahead) cut() error {
	a.mu.Lock()
	if a.err == nil {
		a.err = net.ErrClosed
	}
	a.mu.Unlock()
	return a.Conn.Close()
}
