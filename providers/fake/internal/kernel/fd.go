package kernel

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync/atomic"
	"syscall"

	"harborgate/providers/fake/internal/vfs"
)

// PipeBytes is how much a pipe holds before a writer waits.
const PipeBytes = 64 << 10

// file is what a descriptor stands for. stop ends a wait early.
type file interface {
	read(stop <-chan struct{}, b []byte) (int, error)
	write(stop <-chan struct{}, b []byte) (int, error)
	close()
}

// Desc is an open file, shared by the descriptors that were duplicated from it.
type Desc struct {
	refs atomic.Int32
	file file
	// Terminal makes the descriptor look like a terminal of that size: newlines
	// are written as carriage return and newline. Set it before use.
	Terminal *Size
}

// Size is a terminal's size in characters.
type Size struct{ Rows, Cols int }

func newDesc(f file) *Desc {
	d := &Desc{file: f}
	d.refs.Store(1)
	return d
}

func (d *Desc) dup() *Desc {
	d.refs.Add(1)
	return d
}

// Close gives up one reference. Any goroutine may call it.
func (d *Desc) Close() {
	if d != nil && d.refs.Add(-1) == 0 {
		d.file.close()
	}
}

var errStopped = errors.New("interrupted")

func isExist(err error) bool { return errors.Is(err, fs.ErrExist) }

// Read reads from a descriptor.
func (p *Proc) Read(fd int, b []byte) (int, error) {
	p.Check()
	d, ok := p.fds[fd]
	if !ok {
		return 0, syscall.EBADF
	}
	n, err := d.file.read(p.dead, b)
	if errors.Is(err, errStopped) {
		p.die()
	}
	return n, err
}

// Write writes all of b to a descriptor. A pipe that nobody reads ends the
// process by SIGPIPE, unless that is ignored.
func (p *Proc) Write(fd int, b []byte) (int, error) {
	p.Check()
	d, ok := p.fds[fd]
	if !ok {
		return 0, syscall.EBADF
	}
	out := b
	if d.Terminal != nil {
		out = terminalBytes(b)
	}
	_, err := d.file.write(p.dead, out)
	switch {
	case errors.Is(err, errStopped):
		p.die()
	case errors.Is(err, syscall.EPIPE):
		p.m.mu.Lock()
		p.deliver(syscall.SIGPIPE)
		p.m.mu.Unlock()
		p.Check()
	}
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

func terminalBytes(b []byte) []byte {
	out := make([]byte, 0, len(b)+8)
	for _, c := range b {
		if c == '\n' {
			out = append(out, '\r')
		}
		out = append(out, c)
	}
	return out
}

// Terminal returns the size of the terminal behind a descriptor; ok is false
// when it is something else.
func (p *Proc) Terminal(fd int) (size Size, ok bool) {
	d := p.fds[fd]
	if d == nil || d.Terminal == nil {
		return Size{}, false
	}
	return *d.Terminal, true
}

// HasFD reports whether a descriptor is open.
func (p *Proc) HasFD(fd int) bool { return p.fds[fd] != nil }

// Dup makes to stand for what from stands for.
func (p *Proc) Dup(from, to int) error {
	d, ok := p.fds[from]
	if !ok {
		return syscall.EBADF
	}
	if from == to {
		return nil
	}
	d.dup()
	p.Close(to)
	p.fds[to] = d
	return nil
}

// Close closes a descriptor; one that is not open is left alone.
func (p *Proc) Close(fd int) {
	if d, ok := p.fds[fd]; ok {
		delete(p.fds, fd)
		d.Close()
	}
}

// firstPrivateFD is where the descriptors begin that Open and its like return.
// They are closed in programs that the process starts; Dup gives them a number
// below that, which is inherited.
const firstPrivateFD = 100

func (p *Proc) freeFD() int {
	fd := firstPrivateFD
	for p.fds[fd] != nil {
		fd++
	}
	return fd
}

// ClosePrivate closes the descriptors that a program would not inherit. A child
// made by Fork calls it once it has what it needs.
func (p *Proc) ClosePrivate() {
	for fd := range p.fds {
		if fd >= firstPrivateFD {
			p.Close(fd)
		}
	}
}

func (p *Proc) install(d *Desc) int {
	fd := p.freeFD()
	p.fds[fd] = d
	return fd
}

// Pipe makes a pipe and returns its two ends.
func (p *Proc) Pipe() (r, w int) {
	b := newBuffer(PipeBytes)
	b.readers, b.writers = 1, 1
	return p.install(newDesc(pipeEnd{b, true, false})), p.install(newDesc(pipeEnd{b, false, true}))
}

// Memory opens a descriptor that reads content to its end.
func (p *Proc) Memory(content string) int {
	return p.install(newDesc(memory{strings.NewReader(content)}))
}

// memory is what a here-document is read from.
type memory struct{ *strings.Reader }

func (m memory) read(_ <-chan struct{}, b []byte) (int, error) { return m.Reader.Read(b) }
func (memory) write(<-chan struct{}, []byte) (int, error)      { return 0, syscall.EBADF }
func (memory) close()                                          {}

// NewPipe makes a pipe between the world outside and a process: one end is a
// descriptor for Spawn.Stdio, the other is used with its Write and CloseWrite.
func NewPipe() (*Desc, *Feed) {
	b := newBuffer(PipeBytes)
	b.readers, b.writers = 1, 1
	return newDesc(pipeEnd{b, true, false}), &Feed{b}
}

// Feed is the outer end of a pipe into a process.
type Feed struct{ b *buffer }

// Write blocks while the pipe is full; nobody left to read is EPIPE.
func (f *Feed) Write(b []byte) (int, error) { return f.b.write(nil, b) }

// Close is the end of the process's input.
func (f *Feed) Close() { f.b.closeEnd(false, true) }

// Empty is a descriptor that is at its end.
func Empty() *Desc { return newDesc(device{"null"}) }

// Open opens a file, a FIFO, a device or, as bash does, /dev/tcp/HOST/PORT.
// flags are those of open(2).
func (p *Proc) Open(name string, flags int, perm fs.FileMode) (int, error) {
	p.Check()
	abs := p.Abs(name)
	if host, port, ok := tcpPath(abs); ok {
		return p.Dial(host, port)
	}
	if fd, ok := ownFD(p, abs); ok {
		if p.fds[fd] == nil {
			return 0, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
		}
		return p.install(p.fds[fd].dup()), nil
	}
	h, err := p.m.FS.Open(p.Cred, abs, flags, perm&^fs.FileMode(p.Umask))
	if err != nil {
		return 0, err
	}
	f, err := p.special(h, flags)
	if err != nil {
		return 0, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return p.install(newDesc(f)), nil
}

func (p *Proc) special(h *vfs.File, flags int) (file, error) {
	info := h.Info()
	switch {
	case info.Bits&fs.ModeNamedPipe != 0:
		return p.openFIFO(h, flags)
	case info.Device == "tty":
		return nil, syscall.ENXIO
	case info.Device != "":
		return device{info.Device}, nil
	}
	return regular{h}, nil
}

// openFIFO waits for the other side, as open(2) does.
func (p *Proc) openFIFO(h *vfs.File, flags int) (file, error) {
	b, ok := p.m.FS.Aux(h, func() any { return newBuffer(PipeBytes) }).(*buffer)
	if !ok {
		return nil, syscall.ENXIO
	}
	access := flags & syscall.O_ACCMODE
	end := pipeEnd{b, access != syscall.O_WRONLY, access != syscall.O_RDONLY}
	b.openEnd(end.r, end.w)
	for {
		ready, changed := b.hasPeer(end.r, end.w)
		if ready {
			return end, nil
		}
		select {
		case <-changed:
		case <-p.dead:
			end.close()
			p.die()
		}
	}
}

// regular is a file of the tree.
type regular struct{ *vfs.File }

func (f regular) read(_ <-chan struct{}, b []byte) (int, error)  { return f.File.Read(b) }
func (f regular) write(_ <-chan struct{}, b []byte) (int, error) { return f.File.Write(b) }
func (f regular) close()                                         {}

// device is one of the devices in /dev, by name.
type device struct{ name string }

func (d device) read(_ <-chan struct{}, b []byte) (int, error) {
	switch d.name {
	case "null":
		return 0, io.EOF
	case "urandom", "random":
		// Not random at all: a fake that gives the same bytes every time makes
		// runs repeatable.
		for i := range b {
			b[i] = byte(i*167 + 13)
		}
	default:
		clear(b)
	}
	return len(b), nil
}

func (d device) write(_ <-chan struct{}, b []byte) (int, error) {
	if d.name == "full" {
		return 0, syscall.ENOSPC
	}
	return len(b), nil
}

func (d device) close() {}

// Save keeps a descriptor aside and returns the copy, or -1 when it is not open.
func (p *Proc) Save(fd int) int {
	d, ok := p.fds[fd]
	if !ok {
		return -1
	}
	return p.install(d.dup())
}
