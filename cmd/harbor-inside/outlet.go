package main

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"harborgate/internal/insideproto"
)

// outlet reads one output of a command.
type outlet struct {
	file    *os.File
	frame   insideproto.FrameType
	spool   *insideproto.Spool
	drained chan struct{} // everything that was written before drain is in spool
}

const (
	smallRead = 2 << 10
	largeRead = 32 << 10
)

func newOutlet(f *os.File, t insideproto.FrameType, s *insideproto.Spool) *outlet {
	return &outlet{file: f, frame: t, spool: s, drained: make(chan struct{})}
}

// run reads to the end. After drain, what comes is dropped, but still read: those
// who write it live on, and a closed pipe would kill them.
func (o *outlet) run() {
	defer o.file.Close()
	err := o.read()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		o.rest()
	}
	close(o.drained)
	if err := o.file.SetReadDeadline(time.Time{}); err != nil {
		return
	}
	buf := make([]byte, smallRead)
	for {
		if _, err := o.file.Read(buf); err != nil {
			return
		}
	}
}

func (o *outlet) read() error {
	buf := make([]byte, smallRead)
	for {
		n, err := o.file.Read(buf)
		if n > 0 {
			o.spool.Append(o.frame, buf[:n])
		}
		if err != nil {
			return err
		}
		if n == len(buf) && n < largeRead {
			buf = make([]byte, min(4*n, largeRead))
		}
	}
}

// rest takes what is in the pipe now, and no more, in case somebody never stops
// writing.
func (o *outlet) rest() {
	raw, err := o.file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		left, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		buf := make([]byte, min(max(left, 0), largeRead))
		for err == nil && left > 0 {
			var n int
			n, err = unix.Read(int(fd), buf[:min(left, len(buf))])
			if n <= 0 {
				return
			}
			o.spool.Append(o.frame, buf[:n])
			left -= n
		}
	})
}

// drain waits until everything written so far was taken.
func (o *outlet) drain() {
	_ = o.file.SetReadDeadline(time.Unix(1, 0))
	<-o.drained
}
