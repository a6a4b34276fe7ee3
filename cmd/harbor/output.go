package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/spf13/pflag"

	"harborgate/internal/atomicfile"
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

// printed prints into a file, as a whole, or on standard output when there is none.
func (e *env) printed(file string, f func(to *env) error) error {
	if file == "" {
		return f(e)
	}
	var text bytes.Buffer
	to := *e
	to.out = &text
	if err := f(&to); err != nil {
		return err
	}
	if err := atomicfile.Write(file, text.Bytes(), 0o644); err != nil {
		return nothingRan("the output could not be written: %w", err)
	}
	return nil
}

// addOutputFlag is for what printed takes.
func addOutputFlag(s *pflag.FlagSet, file *string) {
	s.StringVarP(file, "output", "o", "", "file to write instead of standard output")
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
