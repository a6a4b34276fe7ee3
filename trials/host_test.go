package trials

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

func TestHostCause(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]Cause{
		syscall.ENOSPC: CauseHost,
		syscall.EMFILE: CauseHost,
		fmt.Errorf("write: %w", &fs.PathError{Op: "open", Path: "x", Err: syscall.EROFS}): CauseHost,
		syscall.EACCES:          CauseInternal,
		errors.New("a mistake"): CauseInternal,
	} {
		if got := HostCause(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
	f := NewFailure(PhaseTeardown, CauseHost, "", "disk full")
	if f.Blame != BlameInfrastructure || !PolicyOf(f.Exception, nil).ShouldRetry || PolicyOf(f.Exception, nil).HasValidReward {
		t.Errorf("%+v %+v", f, PolicyOf(f.Exception, nil))
	}
}
