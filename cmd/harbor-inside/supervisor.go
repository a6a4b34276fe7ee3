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

// supervisor is the daemon's side of one supervise process. It lives as long as
// any process of its command.
type supervisor struct {
	pid     int
	control *os.File

	whole    atomic.Bool  // the exit counts only once no process of the command is left
	buried   atomic.Int64 // processes of the command that the daemon killed
	enforced sync.Once
	overrule func() // kills the supervisor and all that it supervises

	mu     sync.Mutex // of writes to control
	exited chan struct{}
	ended  chan struct{} // closed when the supervisor is gone
	gone   chan struct{} // closed when the command's processes are gone too
	// Valid when exited is closed:
	exit insideproto.Exit
	err  error // why there is no exit record
}

// obedience is how long a supervisor may take to kill its command. One that takes
// longer was stopped by the command, or cannot cope with it.
const obedience = 3 * time.Second

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
	s := &supervisor{pid: pid, control: control,
		exited: make(chan struct{}), ended: make(chan struct{}), gone: make(chan struct{})}
	s.overrule = func() { d.overrule(s) }
	s.whole.Store(spec.KillLeftovers)
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

// follow reads what the supervisor reports until it is gone, and sees to it that
// its processes are gone too if they have to.
func (d *daemon) follow(s *supervisor) {
	frames := insideproto.NewFrameReader(s.control)
	var r report
	published := false
	for {
		t, p, err := frames.Next()
		if err != nil {
			break
		}
		r.hear(t, p)
		switch {
		case !r.complete || published:
		case s.whole.Load():
			s.enforce(obedience)
		default:
			s.exit, s.err = r.exit, r.err
			published = true
			close(s.exited)
		}
	}
	close(s.ended)
	d.forget(s.pid)
	dead := true
	if !r.exit.Gone || s.whole.Load() {
		var killed int
		killed, dead = d.bury(s.pid, false)
		s.buried.Add(int64(killed))
	}
	if !published {
		s.exit, s.err = r.conclude(int(s.buried.Load()), dead)
		close(s.exited)
	}
	if dead {
		close(s.gone)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.control.Close()
}

// report is what a supervisor said so far.
type report struct {
	ready    bool // the command was about to be started
	complete bool // exit or err is known
	exit     insideproto.Exit
	err      error
}

// hear takes one frame. The first exit record is the command's, a second one tells
// of its leftovers.
func (r *report) hear(t insideproto.FrameType, p []byte) {
	if t == insideproto.FrameAccepted {
		r.ready = true
		return
	}
	exit, err := parseReport(t, p)
	if !r.complete {
		r.complete, r.exit, r.err = true, exit, err
		return
	}
	r.exit.Leftovers, r.exit.Gone = exit.Leftovers, exit.Gone
}

// conclude is the record of a command whose supervisor is gone: what was reported,
// or that it was killed, since that is what the death of its supervisor means for
// it. buried processes were killed in the supervisor's place; dead says that none
// is left.
func (r *report) conclude(buried int, dead bool) (insideproto.Exit, error) {
	switch {
	case !dead:
		return insideproto.Exit{}, insideproto.Refuse(insideproto.Unavailable,
			"the command's supervisor died, and it is not known whether the command is dead")
	case !r.complete && !r.ready:
		return insideproto.Exit{}, insideproto.Refuse(insideproto.Unavailable,
			"the command's supervisor died before it started the command; perhaps the sandbox has no room for its threads")
	case !r.complete:
		r.exit = insideproto.Exit{Code: 128 + int(syscall.SIGKILL), Signal: int(syscall.SIGKILL)}
	}
	r.exit.Leftovers += buried
	r.exit.Gone = true
	return r.exit, r.err
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
	s.whole.Store(true)
	s.enforce(time.Duration(k.GraceMillis)*time.Millisecond + obedience)
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = insideproto.WriteRecord(s.control, insideproto.FrameKill, k)
}

// enforce has the supervisor overruled when it lives on after the given time. The
// first call counts.
func (s *supervisor) enforce(after time.Duration) {
	s.enforced.Do(func() {
		go func() {
			select {
			case <-s.ended:
			case <-time.After(after):
				s.overrule()
			}
		}()
	})
}

// wait returns the status of the command's own process.
func (s *supervisor) wait() (insideproto.Exit, error) {
	<-s.exited
	return s.exit, s.err
}
