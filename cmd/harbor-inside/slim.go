package main

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"harborgate/internal/insideproto"
)

// longRunning is when a command is worth a smaller supervisor.
const longRunning = time.Second

// slim replaces this process by a fresh one of the same program, which knows only
// what it still needs: reading the command's specification and starting it took
// most of the memory. The pid, the children and the reaper's role stay. Children
// that end meanwhile wait to be taken.
func (s *supervision) slim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.killing.Load() || !roomForThreads() {
		return
	}
	// What the daemon says from here on stays in the socket, for the successor.
	_ = s.control.SetReadDeadline(time.Unix(1, 0))
	<-s.obeying
	if !s.killing.Load() {
		_ = s.become()
	}
	// Still here: a kill came in between, or the program cannot be started.
	_ = s.control.SetReadDeadline(time.Time{})
	s.obeying = make(chan struct{})
	go s.obey(insideproto.NewFrameReader(s.control))
}

func (s *supervision) become() error {
	if _, err := unix.FcntlInt(controlFile, unix.F_SETFD, 0); err != nil {
		return err
	}
	defer unix.CloseOnExec(controlFile)
	argv := []string{"harbor-inside", "watch", strconv.Itoa(s.main), strconv.FormatBool(s.killLeftovers)}
	return syscall.Exec(selfExe, argv, os.Environ())
}

// runWatch goes on where a supervisor became small.
func runWatch(args []string) (int, error) {
	unix.CloseOnExec(controlFile)
	if len(args) != 2 {
		return 2, errors.New("watch is started by supervise only")
	}
	main, err := strconv.Atoi(args[0])
	if err != nil {
		return 2, err
	}

	s := &supervision{
		control: pollable(controlFile, "control"), main: main, killLeftovers: args[1] == "true",
		obeying: make(chan struct{}),
	}
	go s.obey(insideproto.NewFrameReader(s.control))
	s.reap()
	return 0, nil
}
