package trials

import (
	"errors"
	"slices"
	"syscall"
)

// hostTrouble are the errors that say what this host is short of. Whoever meets
// one has done nothing wrong.
func hostTrouble() []error {
	return []error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO,
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM,
	}
}

// HostCause is the cause that an error of this host's own files and processes
// stands for: the host when it is full, read-only or short of something, else
// something that we did not expect.
func HostCause(err error) Cause {
	if slices.ContainsFunc(hostTrouble(), func(e error) bool { return errors.Is(err, e) }) {
		return CauseHost
	}
	return CauseInternal
}
