package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"harborgate/internal/insideproto"
)

// controlFile is where a supervisor speaks with the daemon.
const controlFile = 3

// runSupervise runs one command. All of the command's processes stay below this
// one, however they fork, because orphans come here; it ends when none is left.
// When the daemon goes away, so does everything here.
func runSupervise([]string) (int, error) {
	unix.CloseOnExec(controlFile)
	control := pollable(controlFile, "control")
	frames := insideproto.NewFrameReader(control)
	t, p, err := frames.Next()
	if err != nil || t != insideproto.FrameSpec {
		return 2, errors.New("supervise is started by the daemon only")
	}
	var spec insideproto.Supervised
	if err := insideproto.ParseRecord(p, &spec); err != nil {
		return 2, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		refuse(control, err)
		return 0, nil
	}
	startThreads(3)
	// Before the command starts, which might kill us at once.
	_ = insideproto.WriteRecord(control, insideproto.FrameAccepted, insideproto.Accepted{})
	s := &supervision{control: control, killLeftovers: spec.KillLeftovers}
	if s.main, err = startCommand(spec); err != nil {
		s.failed(err)
		return 0, nil
	}
	// Whoever reads the command's output waits for the last holder of its pipes.
	for fd := range controlFile {
		_ = unix.Close(fd)
	}
	s.obeying = make(chan struct{})
	go s.obey(frames)
	time.AfterFunc(longRunning, s.slim)
	s.reap()
	return 0, nil
}

// supervision is the state of a supervisor.
type supervision struct {
	control       *os.File
	main          int // pid of the command's own process
	killLeftovers bool
	killing       atomic.Bool
	leftovers     atomic.Int64  // that were killed
	obeying       chan struct{} // closed when obey returns

	mu sync.Mutex // held while a child is taken, and while the process is replaced
}

// reap collects children until there are none. It reports the main one's end, and
// then its own.
func (s *supervision) reap() {
	for {
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil: // ECHILD: no process of the command is left
			s.send(insideproto.Exit{Leftovers: int(s.leftovers.Load()), Gone: true})
			return
		}
		s.take()
	}
}

// take takes one child that has ended.
func (s *supervision) take() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var status unix.WaitStatus
	pid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOHANG, nil)
	if err != nil || pid != s.main {
		return
	}
	s.send(exitOf(status))
	if s.killLeftovers && s.killing.CompareAndSwap(false, true) {
		go killTrees(s.below, func(process) { s.leftovers.Add(1) }, nil)
	}
}

func (s *supervision) send(exit insideproto.Exit) {
	_ = insideproto.WriteRecord(s.control, insideproto.FrameExit, exit)
}

func exitOf(status unix.WaitStatus) insideproto.Exit {
	if status.Signaled() {
		sig := int(status.Signal())
		return insideproto.Exit{Code: 128 + sig, Signal: sig}
	}
	return insideproto.Exit{Code: status.ExitStatus()}
}

// obey kills the command when the daemon says so, or is gone.
func (s *supervision) obey(frames *insideproto.FrameReader) {
	defer close(s.obeying)
	for {
		var k insideproto.Kill
		t, p, err := frames.Next()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return // see slim
		}
		if err == nil && (t != insideproto.FrameKill || insideproto.ParseRecord(p, &k) != nil) {
			continue
		}
		if s.killing.CompareAndSwap(false, true) {
			go s.terminate(time.Duration(k.GraceMillis) * time.Millisecond)
		}
		if err != nil {
			return
		}
	}
}

// terminate gives the command a grace before it kills it. The process ends
// meanwhile when nobody is left.
func (s *supervision) terminate(grace time.Duration) {
	if grace > 0 {
		s.ask(time.After(grace))
	}
	killTrees(s.below, func(process) {}, nil)
}

// ask sends SIGTERM once to every process, those too that were just being started,
// until the grace is over.
func (s *supervision) ask(over <-chan time.Time) {
	asked := map[process]bool{}
	for wait := time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		for _, p := range s.below(processes()) {
			p.ppid = 0 // changes when a parent dies
			if !asked[p] {
				asked[p] = true
				p.signal(syscall.SIGTERM)
			}
		}
		select {
		case <-over:
			return
		case <-time.After(wait):
		}
	}
}

func (s *supervision) below(all []process) []process { return descendants(all, os.Getpid(), nil) }

// failed reports a command that did not start. A program that is missing or
// cannot be executed is an exit code, by the shell's convention.
func (s *supervision) failed(err error) {
	var code exitCode
	if !errors.As(err, &code) {
		refuse(s.control, err)
		return
	}
	fmt.Fprintf(os.Stderr, "harbor-inside: %v\n", err)
	s.send(insideproto.Exit{Code: int(code), Gone: true})
}
