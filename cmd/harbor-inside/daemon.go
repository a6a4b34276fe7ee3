package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/sys/unix"

	"harborgate/internal/insideproto"
)

// Limits of the daemon.
const (
	maxCommands  = 1024 // that run or whose record waits
	maxUnclaimed = 16   // ended commands whose host has not come back
	maxTransfers = 16   // at a time: each may hold a thread
	maxPending   = 16   // connections that have not shown a session yet
)

// acceptPause is for listeners that fail for a lack of files.
const acceptPause = 10 * time.Millisecond

// daemon owns everything that outlives a session: commands, ports.
type daemon struct {
	boot      string
	patience  time.Duration // for greetings
	lease     *lease        // nil is for ever
	listener  *net.UnixListener
	oom       oomCounter
	transfers chan struct{}
	relays    chan struct{} // one per connection to the host
	pending   chan struct{}
	trim      *time.Timer // returns memory when nothing was started for a while

	mu          sync.Mutex
	commands    map[string]*command
	unclaimed   []string // ids of ended commands, oldest first
	ports       map[string]*port
	supervisors map[int]bool // pids of live supervisors

	burial sync.Mutex // held while orphans are killed
}

func newDaemon(socket string) (*daemon, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// Orphans of a supervisor that was killed come to us, see bury.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become a reaper: %w", err)
	}
	catchSignals() // which takes a thread for itself
	tuneDaemon()
	return &daemon{
		boot:        rand.Text(),
		patience:    insideproto.HandshakeTimeout,
		listener:    l,
		oom:         findOOMCounter(),
		transfers:   make(chan struct{}, maxTransfers),
		relays:      make(chan struct{}, insideproto.MaxRelays),
		pending:     make(chan struct{}, maxPending),
		trim:        time.AfterFunc(trimAfter, trimMemory),
		commands:    map[string]*command{},
		ports:       map[string]*port{},
		supervisors: map[int]bool{},
	}, nil
}

// trimAfter is how long after the last start what starting took is returned.
const trimAfter = 2 * time.Second

// trimMemory gives back what starting commands took. Each collection halves the
// stacks that are mostly empty.
func trimMemory() {
	for range 4 {
		runtime.GC()
	}
	debug.FreeOSMemory()
}

// tuneDaemon trades speed for memory: the sandbox's memory is the task's.
func tuneDaemon() {
	unix.Umask(0o022)
	runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), 2))
	debug.SetGCPercent(25)
	startThreads(spareThreads)
}

// spareThreads are for system calls that block and for the garbage collector, each
// of which may want one of its own.
const spareThreads = 12

// startThreads makes the runtime start n threads and keep them. A sandbox at its
// process limit cannot start any, and a Go program that needs one then dies.
func startThreads(n int) {
	var started, done sync.WaitGroup
	release := make(chan struct{})
	started.Add(n)
	for range n {
		done.Go(func() {
			runtime.LockOSThread()
			started.Done()
			<-release
			runtime.UnlockOSThread()
		})
	}
	started.Wait()
	close(release)
	done.Wait()
}

// serve runs until a code arrives at end, or SIGTERM.
func (d *daemon) serve(end <-chan int) (int, error) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	go d.accept()
	for {
		reap()
		select {
		case code := <-end:
			return code, nil
		case <-stop:
			return 128 + int(syscall.SIGTERM), nil
		case <-children:
		}
	}
}

// reap collects every child that has ended. Nobody needs their status: commands
// report through their supervisor.
func reap() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err != unix.EINTR && pid <= 0 {
			return
		}
	}
}

// accept takes connections of "harbor-inside connect".
func (d *daemon) accept() {
	for {
		conn, err := d.listener.AcceptUnix()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			<-time.After(acceptPause)
			continue
		}
		select {
		case d.pending <- struct{}{}:
			go d.session(conn)
		default:
			conn.Close()
		}
	}
}

// session speaks with one host until either side ends it.
func (d *daemon) session(conn *net.UnixConn) {
	defer conn.Close()
	host, err := d.receiveHost(conn)
	if err != nil {
		<-d.pending
		return
	}
	mux, err := d.greet(host)
	<-d.pending
	if err != nil {
		return
	}
	go func() { // connect can be killed while its streams stay open
		_, _ = io.Copy(io.Discard, conn)
		mux.Close()
	}()
	d.serveHost(mux)
}

// ownSession is the session over our own standard input and output, which spares
// the host a connect.
func (d *daemon) ownSession(host duplex) {
	if mux, err := d.greet(host); err == nil {
		d.serveHost(mux)
	}
}

func (d *daemon) serveHost(mux *yamux.Session) {
	defer mux.Close()
	d.lease.hold()
	defer d.lease.drop()
	for {
		stream, err := mux.AcceptStream()
		if err != nil {
			return
		}
		go d.stream(mux, stream)
	}
}

// receiveHost takes the host's byte stream from a connect of our own user.
func (d *daemon) receiveHost(conn *net.UnixConn) (duplex, error) {
	if err := checkPeer(conn); err != nil {
		return duplex{}, err
	}
	_ = conn.SetReadDeadline(time.Now().Add(d.patience))
	defer func() { _ = conn.SetReadDeadline(time.Time{}) }()
	return receiveStream(conn)
}

// greet agrees with the host on a protocol.
func (d *daemon) greet(host duplex) (*yamux.Session, error) {
	watch := time.AfterFunc(d.patience, func() { host.Close() })
	err := insideproto.WriteHello(host, insideproto.Hello{Version: insideproto.Version, Boot: d.boot})
	if err == nil {
		var hello insideproto.Hello
		if hello, err = insideproto.ReadHello(host); err == nil {
			err = insideproto.CheckVersion(hello)
		}
	}
	if !watch.Stop() || err != nil {
		host.Close()
		return nil, fmt.Errorf("greet the host: %w", err)
	}
	return yamux.Server(insideproto.JoinWrites(host), insideproto.MuxConfig())
}

// duplex is a session's byte stream: connect's standard input and output.
type duplex struct {
	io.ReadCloser
	out io.WriteCloser
}

func (d duplex) Write(p []byte) (int, error) { return d.out.Write(p) }

func (d duplex) Close() error { return errors.Join(d.ReadCloser.Close(), d.out.Close()) }

// receiveStream takes the two files that connect sends.
func receiveStream(conn *net.UnixConn) (duplex, error) {
	oob := make([]byte, unix.CmsgSpace(2*4))
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		return duplex{}, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) != 1 {
		return duplex{}, fmt.Errorf("no files received: %w", err)
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil {
		return duplex{}, err
	}
	if len(fds) != 2 {
		for _, fd := range fds {
			unix.Close(fd)
		}
		return duplex{}, fmt.Errorf("%d files received, want 2", len(fds))
	}
	return duplex{ReadCloser: pollable(fds[0], "in"), out: pollable(fds[1], "out")}, nil
}

// pollable makes a file whose blocked calls end when it is closed and need no thread.
func pollable(fd int, name string) *os.File {
	_ = unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}

// stream serves one stream of a session. Returning closes it.
func (d *daemon) stream(mux *yamux.Session, s *yamux.Stream) {
	defer s.Close()
	_ = s.SetReadDeadline(time.Now().Add(time.Minute))
	h, err := insideproto.ReadHeader(s, insideproto.MaxHeader)
	if err != nil {
		return
	}
	_ = s.SetReadDeadline(time.Time{})
	switch h.Op {
	case insideproto.OpExec:
		d.serveExec(s, h)
	case insideproto.OpPut:
		d.servePut(s, h)
	case insideproto.OpGet:
		d.serveGet(s, h)
	case insideproto.OpExpose:
		d.serveExpose(mux, s, h)
	default:
		refuse(s, insideproto.Refuse(insideproto.Unsupported, "unknown operation %q", h.Op))
	}
}

// refuse tells the host why not.
func refuse(w io.Writer, err error) {
	var r *insideproto.Refusal
	if !errors.As(err, &r) {
		r = insideproto.Refuse(insideproto.Internal, "%v", err)
	}
	_ = insideproto.WriteRecord(w, insideproto.FrameRefused, r)
}
