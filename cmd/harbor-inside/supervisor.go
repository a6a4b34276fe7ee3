package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"harborgate/internal/insideproto"
)

// supervisor is the daemon's side of one supervise process. It lives as long as
// any process of its command.
type supervisor struct {
	pid     int
	control *os.File

	mu     sync.Mutex // of writes to control
	exited chan struct{}
	gone   chan struct{}
	// Valid when exited is closed:
	exit insideproto.Exit
	err  error // why there is no exit record
}

// startSupervisor runs spec on the three open files, which stay the caller's.
func (d *daemon) startSupervisor(spec insideproto.Supervised, stdio [3]int) (*supervisor, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, startError(err)
	}
	control := pollable(pair[0], "control")
	defer unix.Close(pair[1])
	files := []uintptr{uintptr(stdio[0]), uintptr(stdio[1]), uintptr(stdio[2]), uintptr(pair[1])}
	pid, err := d.fork(files)
	if err != nil {
		control.Close()
		return nil, startError(err)
	}
	if err := insideproto.WriteRecord(control, insideproto.FrameSpec, spec); err != nil {
		control.Close() // which ends it
		d.forget(pid)
		return nil, fmt.Errorf("hand the command to its supervisor: %w", err)
	}
	s := &supervisor{pid: pid, control: control, exited: make(chan struct{}), gone: make(chan struct{})}
	go d.follow(s)
	d.trim.Reset(trimAfter)
	return s, nil
}

// fork starts a supervise process and remembers its pid before anybody can
// mistake it for an orphan.
func (d *daemon) fork(files []uintptr) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	pid, err := syscall.ForkExec(selfExe, []string{"harbor-inside", "supervise"}, &syscall.ProcAttr{
		// One processor's worth of heap and no garbage collection: half a MiB.
		Env:   []string{"GOGC=off", "GOMAXPROCS=1"},
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err == nil {
		d.supervisors[pid] = true
	}
	return pid, err
}

func (d *daemon) forget(pid int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.supervisors, pid)
}

// startError explains the failures that a sandbox's own limits cause.
func startError(err error) error {
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return insideproto.Refuse(insideproto.Exhausted,
			"cannot start a process: %v; the sandbox is at its process or memory limit", err)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return insideproto.Refuse(insideproto.Exhausted, "too many commands at a time: %v", err)
	default:
		return err
	}
}

// follow reads what the supervisor reports until it is gone.
func (d *daemon) follow(s *supervisor) {
	frames := insideproto.NewFrameReader(s.control)
	reported := false
	for {
		t, p, err := frames.Next()
		if err != nil {
			break
		}
		if reported {
			continue
		}
		s.exit, s.err = parseReport(t, p)
		reported = true
		close(s.exited)
	}
	d.forget(s.pid)
	if !reported {
		// Something inside killed it, so its command is killed too: from now on
		// nobody could tell its processes from others.
		d.buryOrphans()
		s.err = insideproto.Refuse(insideproto.Unavailable,
			"the command's supervisor died, killed inside the sandbox or without room for its threads; its command was killed and has no status")
		close(s.exited)
	}
	close(s.gone)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.control.Close()
}

func parseReport(t insideproto.FrameType, p []byte) (insideproto.Exit, error) {
	var exit insideproto.Exit
	switch t {
	case insideproto.FrameExit:
		return exit, insideproto.ParseRecord(p, &exit)
	case insideproto.FrameRefused:
		return exit, insideproto.ParseRefusal(p)
	default:
		return exit, fmt.Errorf("unexpected report of type %d", t)
	}
}

// kill asks for the end of all processes of the command. It may be called at any
// time and again.
func (s *supervisor) kill(k insideproto.Kill) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = insideproto.WriteRecord(s.control, insideproto.FrameKill, k)
}

// wait returns the status of the command's own process.
func (s *supervisor) wait() (insideproto.Exit, error) {
	<-s.exited
	return s.exit, s.err
}

// buryOrphans kills our children that are no supervisors, with all theirs: they
// were a command's whose supervisor is dead.
func (d *daemon) buryOrphans() {
	killTrees(func(all []process) []process {
		d.mu.Lock()
		defer d.mu.Unlock()
		return descendants(all, os.Getpid(), func(p process) bool { return d.supervisors[p.pid] })
	}, func() {})
}
