package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// output is standard output. It remembers that it could not be written, whoever
// wrote. For one goroutine.
type output struct {
	to     io.Writer
	failed error
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.to.Write(b)
	if err != nil && o.failed == nil && !errors.Is(err, syscall.EPIPE) { // nobody reads it
		o.failed = outputError{err}
	}
	if err != nil && o.failed != nil {
		err = o.failed
	}
	return n, err
}

// outputError is standard output that cannot be written.
type outputError struct{ error }

func (e outputError) Error() string {
	return fmt.Sprintf("standard output cannot be written: %v: what a job found is in its directory", e.error)
}

func (e outputError) Unwrap() error { return e.error }

// file is what is behind standard output, if that is a file.
func (s streams) file() (*os.File, bool) {
	w := s.out
	if o, ok := w.(*output); ok {
		w = o.to
	}
	if t, ok := w.(*screen); ok {
		return t.file, true
	}
	f, ok := w.(*os.File)
	return f, ok
}
