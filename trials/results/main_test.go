package results

import (
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if holdJob() {
		return
	}
	goleak.VerifyTestMain(m)
}

func makePipe(path string) error { return syscall.Mkfifo(path, 0o600) }
