package main

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The C library keeps two signals for itself, and ignores them in what it starts.
const (
	sigCancel = 32
	sigSetXID = 33
)

// catchSignals takes the effect from the signals that end or stop a process. They
// are not ignored, because children inherit that. For the same reason nothing is
// left ignored that whoever started the engine ignored: a shell does that with
// SIGTSTP and its like, which Go's runtime leaves as it finds them, and make with
// the C library's own.
func catchSignals() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGCONT)
	for _, sig := range []uintptr{sigCancel, sigSetXID} {
		resetSignal(sig)
	}
}

// resetSignal gives a signal its default effect, past Go's runtime, which does not
// know it. It cannot fail for a signal that exists.
func resetSignal(sig uintptr) {
	var action [4]uint64 // the kernel's struct: no handler, no flags, an empty mask
	const maskBytes = 8
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, maskBytes, 0, 0)
}
