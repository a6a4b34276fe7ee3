package kernel

import (
	"io"
	"sync"
	"syscall"
)

// buffer is a bounded queue of bytes with counted ends.
type buffer struct {
	limit int

	mu      sync.Mutex // guards what follows
	bytes   []byte
	readers int
	writers int
	changed chan struct{} // closed and replaced at every change
}

func newBuffer(limit int) *buffer {
	return &buffer{limit: limit, changed: make(chan struct{})}
}

// wake needs mu.
func (b *buffer) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *buffer) read(stop <-chan struct{}, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, wait, err := b.take(p)
		if n > 0 || err != nil {
			return n, err
		}
		select {
		case <-wait:
		case <-stop:
			return 0, errStopped
		}
	}
}

func (b *buffer) take(p []byte) (int, <-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case len(b.bytes) > 0:
		n := copy(p, b.bytes)
		b.bytes = b.bytes[n:]
		b.wake()
		return n, nil, nil
	case b.writers == 0:
		return 0, nil, io.EOF
	}
	return 0, b.changed, nil
}

func (b *buffer) write(stop <-chan struct{}, p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, wait, err := b.put(p[done:])
		done += n
		if err != nil {
			return done, err
		}
		if n > 0 {
			continue
		}
		select {
		case <-wait:
		case <-stop:
			return done, errStopped
		}
	}
	return done, nil
}

func (b *buffer) put(p []byte) (int, <-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.readers == 0 {
		return 0, nil, syscall.EPIPE
	}
	n := min(len(p), b.limit-len(b.bytes))
	if n == 0 {
		return 0, b.changed, nil
	}
	b.bytes = append(b.bytes, p[:n]...)
	b.wake()
	return n, nil, nil
}

func (b *buffer) openEnd(r, w bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r {
		b.readers++
	}
	if w {
		b.writers++
	}
	b.wake()
}

func (b *buffer) closeEnd(r, w bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r {
		b.readers--
	}
	if w {
		b.writers--
	}
	b.wake()
}

// hasPeer reports whether an end that was opened for r or w has its other side.
func (b *buffer) hasPeer(r, w bool) (bool, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ready := r && w || r && (b.writers > 0 || len(b.bytes) > 0) || w && b.readers > 0
	return ready, b.changed
}

// pipeEnd is one end of a pipe, or both of a FIFO opened for both.
type pipeEnd struct {
	b    *buffer
	r, w bool
}

func (e pipeEnd) read(stop <-chan struct{}, p []byte) (int, error) {
	if !e.r {
		return 0, syscall.EBADF
	}
	return e.b.read(stop, p)
}

func (e pipeEnd) write(stop <-chan struct{}, p []byte) (int, error) {
	if !e.w {
		return 0, syscall.EBADF
	}
	return e.b.write(stop, p)
}

func (e pipeEnd) close() { e.b.closeEnd(e.r, e.w) }

// Outlet carries the output of one command to the world outside, in the order of
// its writes. It holds PipeBytes; then writers wait.
type Outlet struct {
	mu       sync.Mutex // guards what follows
	chunks   []Chunk
	held     int
	detached bool
	changed  chan struct{}
}

// Chunk is a piece of output. Stream is 1 or 2.
type Chunk struct {
	Stream int
	Bytes  []byte
}

// NewOutlet returns an empty outlet.
func NewOutlet() *Outlet { return &Outlet{changed: make(chan struct{})} }

// Desc returns a descriptor that writes to a stream of the outlet.
func (o *Outlet) Desc(stream int) *Desc { return newDesc(outletEnd{o, stream}) }

// Next returns the next chunk, or a channel that is closed when there may be one.
func (o *Outlet) Next() (Chunk, bool, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.chunks) == 0 {
		return Chunk{}, false, o.changed
	}
	c := o.chunks[0]
	o.chunks = o.chunks[1:]
	o.held -= len(c.Bytes)
	o.wake()
	return c, true, nil
}

// Detach returns what is left and drops what is written from now on: the command
// has ended, and what it left running must neither wait nor die.
func (o *Outlet) Detach() []Chunk {
	o.mu.Lock()
	defer o.mu.Unlock()
	rest := o.chunks
	o.detached = true
	o.chunks, o.held = nil, 0
	o.wake()
	return rest
}

func (o *Outlet) wake() {
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *Outlet) put(stream int, b []byte) (int, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.detached {
		return len(b), nil
	}
	n := min(len(b), PipeBytes-o.held)
	if n == 0 {
		return 0, o.changed
	}
	o.chunks = append(o.chunks, Chunk{stream, append([]byte(nil), b[:n]...)})
	o.held += n
	o.wake()
	return n, nil
}

type outletEnd struct {
	o      *Outlet
	stream int
}

func (e outletEnd) read(<-chan struct{}, []byte) (int, error) { return 0, syscall.EBADF }

func (e outletEnd) write(stop <-chan struct{}, b []byte) (int, error) {
	for done := 0; done < len(b); {
		n, wait := e.o.put(e.stream, b[done:])
		done += n
		if n > 0 {
			continue
		}
		select {
		case <-wait:
		case <-stop:
			return done, errStopped
		}
	}
	return len(b), nil
}

func (e outletEnd) close() {}
