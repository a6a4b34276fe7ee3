package tasks

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// openRegular opens a file that is one: a pipe or a device in a task directory
// would block its reader for ever.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("it is no regular file (%s)", fi.Mode().Type())}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func readRegular(path string) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
