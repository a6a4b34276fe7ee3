package results

import (
	"errors"
	"syscall"
)

// diskFailed reports whether an error is a full or broken disk's, which ends a
// trial, and not about one name.
func diskFailed(err error) bool {
	for _, e := range []syscall.Errno{syscall.ENOSPC, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.EDQUOT, syscall.EIO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
