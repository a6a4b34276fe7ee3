package main

import (
	"os"

	"golang.org/x/sys/unix"

	"harborgate/internal/insideproto"
)

// stdio are the files of one command.
type stdio struct {
	inner   [3]int // for the command
	close   []int  // those of inner that are ours
	stdin   *os.File
	outputs []output
}

type output struct {
	file  *os.File
	frame insideproto.FrameType
}

func (s *stdio) closeInner() {
	for _, fd := range s.close {
		_ = unix.Close(fd)
	}
}

func (s *stdio) closeOuter() {
	if s.stdin != nil {
		s.stdin.Close()
	}
	for _, o := range s.outputs {
		o.file.Close()
	}
}

// openStdio opens what a request asks for. Our ends do not block, the command's do.
func openStdio(req insideproto.Command) (*stdio, error) {
	s := &stdio{}
	err := s.open(req)
	if err != nil {
		s.closeInner()
		s.closeOuter()
		return nil, err
	}
	return s, nil
}

func (s *stdio) open(req insideproto.Command) error {
	if req.TTY != nil {
		return s.openTTY(*req.TTY)
	}
	if err := s.openStdin(req.Stdin); err != nil {
		return err
	}
	if err := s.openOutput(1, insideproto.FrameStdout); err != nil {
		return err
	}
	if req.Combined {
		s.inner[2] = s.inner[1]
		return nil
	}
	return s.openOutput(2, insideproto.FrameStderr)
}

// openStdin makes a pipe, or an input at its end: not an empty pipe if possible,
// since programs like ripgrep read a pipe and ignore a device.
func (s *stdio) openStdin(piped bool) error {
	if !piped {
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			s.inner[0] = fd
			s.close = append(s.close, fd)
			return nil
		}
	}
	r, w, err := pipe()
	if err != nil {
		return err
	}
	s.inner[0] = r
	s.close = append(s.close, r)
	if piped {
		s.stdin = pollable(w, "stdin")
		return nil
	}
	return unix.Close(w)
}

func (s *stdio) openOutput(n int, t insideproto.FrameType) error {
	r, w, err := pipe()
	if err != nil {
		return err
	}
	s.inner[n] = w
	s.close = append(s.close, w)
	s.outputs = append(s.outputs, output{pollable(r, "output"), t})
	return nil
}

func pipe() (r, w int, err error) {
	var p [2]int
	err = unix.Pipe2(p[:], unix.O_CLOEXEC)
	return p[0], p[1], err
}

// openTTY makes a pseudo terminal. Both directions share its outer end.
func (s *stdio) openTTY(size insideproto.Size) error {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return insideproto.Refuse(insideproto.Unsupported, "no terminal: open /dev/ptmx: %v", err)
	}
	f := pollable(master, "tty")
	s.outputs = append(s.outputs, output{f, insideproto.FrameStdout})
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	slave, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER,
		unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return insideproto.Refuse(insideproto.Unsupported, "no terminal: %v", errno)
	}
	s.inner = [3]int{int(slave), int(slave), int(slave)}
	s.close = append(s.close, int(slave))
	s.stdin = f
	return unix.IoctlSetWinsize(int(slave), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
}
