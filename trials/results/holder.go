package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"harborgate/trials"
)

// jobLockFile is held by the one process that writes a job.
const jobLockFile = ".lock"

// Holder says who holds a job.
type Holder struct {
	PID    int    `json:"pid"`
	Start  string `json:"start"` // of the process, in the kernel's clock ticks
	BootID string `json:"boot_id"`
}

// Self describes this process.
func Self() Holder {
	return Holder{PID: os.Getpid(), Start: processStart(os.Getpid()), BootID: bootID()}
}

// bootID is "" where the kernel does not say.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// processStart is "" where the kernel does not say.
func processStart(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The name in parentheses may hold anything; what follows it does not.
	_, rest, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')')+1:]), " ")
	if f := strings.Fields(rest); len(f) > 19 {
		return f[19]
	}
	return ""
}

// LockedError says that another process writes a job.
type LockedError struct {
	Dir    string
	Holder Holder
}

func (e *LockedError) Error() string {
	if e.Holder.PID == 0 { // it is about to write its name
		return fmt.Sprintf("job %s is being run by another process: wait for it", e.Dir)
	}
	return fmt.Sprintf("job %s is being run by process %d: wait for it, or stop it with `harbor job cancel`", e.Dir, e.Holder.PID)
}

// Running returns the process that works on a job, as far as this host can tell:
// the lock names it, and it lives. It takes no lock, so it disturbs nobody.
func Running(dir string) (h Holder, ok bool) {
	h = holderOf(dir)
	return h, h.Alive()
}

// Alive reports whether the process that a lock names runs on this host. A number
// that the kernel gave to another process does not count.
func (h Holder) Alive() bool {
	return h.PID > 0 && h.Start != "" && h.BootID == bootID() && processStart(h.PID) == h.Start
}

func holderOf(dir string) (h Holder) {
	b, err := os.ReadFile(filepath.Join(dir, jobLockFile))
	if err == nil {
		_ = json.Unmarshal(b, &h) // a half-written lock has no known holder
	}
	return h
}

// State is what becomes of a job.
type State string

// States of a job.
const (
	StateRunning     State = "running"
	StateFinished    State = "finished"
	StateInterrupted State = "interrupted" // neither: it can go on
)

// StateOf tells the state of a job with this result. holder is of a running one.
func StateOf(dir string, r trials.JobResult) (s State, holder Holder) {
	if h, ok := Running(dir); ok {
		return StateRunning, h
	}
	if r.FinishedAt != nil {
		return StateFinished, Holder{}
	}
	return StateInterrupted, Holder{}
}

// errGone is a process that ended before it was signalled.
var errGone = errors.New("the process is gone")

// Signal signals the process that a lock names, and no other: the kernel's handle
// is taken before the process is compared with the lock. wait returns when it has
// ended, or ctx has; it is to be called once.
func (h Holder) Signal(sig syscall.Signal) (wait func(ctx context.Context) error, err error) {
	fd, err := unix.PidfdOpen(h.PID, 0)
	if err != nil {
		return nil, fmt.Errorf("find process %d: %w", h.PID, err)
	}
	err = errGone
	if h.Alive() {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("signal process %d: %w", h.PID, err), unix.Close(fd))
	}
	return func(ctx context.Context) error { return errors.Join(waitFor(ctx, fd), unix.Close(fd)) }, nil
}

// glance is how often waiting for a process looks at its context.
const glance = 100 * time.Millisecond

func waitFor(ctx context.Context, fd int) error {
	for ctx.Err() == nil {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(glance.Milliseconds()))
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return context.Cause(ctx)
}
