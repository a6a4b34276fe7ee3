package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Exit codes, in one place.
const (
	exitOK        = 0
	exitBug       = 1 // of ours, or standard output cannot be written
	exitUsage     = 2
	exitUngraded  = 3 // some trial has no verdict, or something was not cleaned up
	exitNothing   = 4 // nothing ran: configuration, preflight, no match
	exitSignalled = 128
)

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// codedError ends the program with a code; a nil error prints nothing.
type codedError struct {
	code int
	error
}

func (e codedError) Unwrap() error { return e.error }

// nothingRan is for everything that is wrong before a trial starts.
func nothingRan(format string, args ...any) error {
	return codedError{exitNothing, fmt.Errorf(format, args...)}
}

// refusal is for a configuration that cannot be run, whoever is to blame.
func refusal(err error) error {
	if errors.As(err, new(usageError)) {
		return codedError{exitUsage, err}
	}
	return codedError{exitNothing, err}
}

// blamed is err, which is all that is wrong with a configuration. The command line is to
// blame when its agents are wrong, and were not in the files that it lies on.
func blamed(inFiles, agents, err error) error {
	if inFiles != nil || agents == nil {
		return err
	}
	return usageError{err}
}

// signalError is the cause of a context that a signal ended.
type signalError struct{ syscall.Signal }

func (e signalError) Error() string { return signalNames[e.Signal] }

var signalNames = map[syscall.Signal]string{syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP"}

// exitCode prints an error and turns it into the code of the process.
func exitCode(e *env, err error) int {
	var coded codedError
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &coded):
		if coded.error != nil {
			say(e.err, coded.error)
		}
		return coded.code
	case errors.As(err, &usage):
		say(e.err, usage.error)
		return exitUsage
	default:
		say(e.err, err)
		return exitBug
	}
}

// say prints an error: of joined ones each by itself. What wraps them has words of its own.
func say(w io.Writer, err error) {
	if usage, ok := err.(usageError); ok { //nolint:errorlint // what wraps it has words of its own
		err = usage.error
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range all.Unwrap() {
			say(w, e)
		}
		return
	}
	fmt.Fprintln(w, "harbor:", visible(err.Error()))
}

// withOutput is the error of a command whose standard output could not be written:
// what it would have said is not known to anybody, unless a signal ended it anyway.
func withOutput(err, failed error) error {
	var sig signalError
	if failed == nil || errors.As(err, &sig) {
		return err
	}
	return codedError{exitBug, failed}
}

// echo is how soon a second signal is the first one again: timeout(1) and shells
// signal the process and its group.
const echo = 300 * time.Millisecond

// lastWords are what a second signal leaves to be said.
const lastWords = "harbor: stopped at once; sandboxes that are left are removed by the next start, or by `harbor cleanup`"

// signals end the program's context.
type signals struct{ ch chan os.Signal }

// withSignals ends the context at the first signal, with the signal as the
// cause, and the process at the second, with a word on w.
func withSignals(ctx context.Context, w io.Writer) (context.Context, signals, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := signals{make(chan os.Signal, 2)}
	signal.Notify(s.ch, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		var first time.Time
		for {
			select {
			case s := <-s.ch:
				switch {
				case first.IsZero():
					first = time.Now()
					cancel(signalError{s.(syscall.Signal)})
				case time.Since(first) > echo:
					fmt.Fprintln(w, "\n"+lastWords)
					os.Exit(exitSignalled + int(s.(syscall.Signal)))
				}
			case <-done:
				return
			}
		}
	}()
	return ctx, s, func() {
		signal.Stop(s.ch)
		close(done)
		cancel(nil)
	}
}

// stopped is the end by a signal; nil where there was none.
func stopped(ctx context.Context) error {
	var sig signalError
	if errors.As(context.Cause(ctx), &sig) {
		return codedError{exitSignalled + int(sig.Signal), fmt.Errorf("stopped by %w", sig)}
	}
	return nil
}

// hangups gives a service SIGHUP for a request of its own: it ends nothing any more.
func (s signals) hangups() (<-chan struct{}, func()) {
	hup, out, done := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{})
	signal.Notify(hup, syscall.SIGHUP)
	signal.Stop(s.ch)
	signal.Notify(s.ch, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		for {
			select {
			case <-hup:
				select {
				case out <- struct{}{}:
				case <-done:
					return
				}
			case <-done:
				return
			}
		}
	}()
	return out, func() {
		signal.Stop(hup)
		close(done)
	}
}

// outlivePipes lets a process that has work to finish live on when whoever reads
// its output is gone, as at the end of `| head`: writes fail instead.
func outlivePipes() (stop func()) {
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, syscall.SIGPIPE)
	return func() { signal.Stop(ch) }
}
