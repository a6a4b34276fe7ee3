package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"harborgate/internal/insideproto"
)

// runInit is PID 1: the daemon, and the parent of the image's own program.
func runInit(args []string) (int, error) {
	flags := newFlags("init")
	user := flags.String("user", "", "user of the entrypoint")
	dir := flags.String("dir", "", "directory of the entrypoint")
	stdio := flags.Bool("stdio", false, "the first session is on our standard input and output")
	if err := flags.Parse(args); err != nil {
		return 2, err
	}
	d, err := newDaemon(socketName(""))
	if err != nil {
		return 1, err
	}
	files := [3]int{0, 1, 2}
	if *stdio {
		host, null, err := takeStdio()
		if err != nil {
			return 1, err
		}
		files = [3]int{null, 2, 2}
		go d.ownSession(host)
	}
	end := make(chan int, 1)
	if argv := flags.Args(); len(argv) > 0 {
		spec := insideproto.Supervised{Command: insideproto.Command{
			Args: toBytes(argv), User: *user, Dir: []byte(*dir),
		}}
		if err := startEntrypoint(d, spec, files, end); err != nil {
			return 1, err
		}
	}
	return d.serve(end)
}

// takeStdio makes our standard input and output a session's stream, and puts the
// null device in their place.
func takeStdio() (host duplex, null int, err error) {
	in, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return duplex{}, 0, fmt.Errorf("take standard input: %w", err)
	}
	out, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return duplex{}, 0, fmt.Errorf("take standard output: %w", err)
	}
	null, err = unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return duplex{}, 0, err
	}
	for fd := range 2 {
		if err := unix.Dup3(null, fd, 0); err != nil {
			return duplex{}, 0, err
		}
	}
	return duplex{ReadCloser: pollable(in, "in"), out: pollable(out, "out")}, null, nil
}

// startEntrypoint runs the image's program on the given files. Its exit code goes
// to end.
func startEntrypoint(d *daemon, spec insideproto.Supervised, files [3]int, end chan<- int) error {
	spec.Environ = toBytes(os.Environ())
	sup, err := d.startSupervisor(spec, files)
	if err != nil {
		return fmt.Errorf("start the image's entrypoint: %w", err)
	}
	go func() {
		exit, err := sup.wait()
		if err != nil {
			// Killed from inside, or the program never started.
			fmt.Fprintln(os.Stderr, "harbor-inside: entrypoint:", err)
			exit.Code = 128 + int(syscall.SIGKILL)
		}
		end <- exit.Code
	}()
	return nil
}

// runServe is the daemon where PID 1 is somebody else's. Whoever started it
// waits for file 3 to close.
func runServe(args []string) (int, error) {
	flags := newFlags("serve")
	socket := flags.String("socket", "", "name of the socket")
	length := flags.Duration("lease", 0, "end after so long without a host; 0 is never")
	if err := flags.Parse(args); err != nil {
		return 2, err
	}
	d, err := newDaemon(socketName(*socket))
	if errors.Is(err, syscall.EADDRINUSE) {
		return 0, nil // another one was faster
	}
	if err != nil {
		return 1, err
	}
	if err := os.NewFile(3, "ready").Close(); err != nil {
		return 1, fmt.Errorf("serve is started by connect: %w", err)
	}
	if *length == 0 {
		return d.serve(nil)
	}
	d.lease = newLease(*length)
	return d.serve(d.lease.over)
}

// runKeepalive is what an entrypoint that ends in exec "$@" becomes.
func runKeepalive([]string) (int, error) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
	return 0, nil
}

func newFlags(name string) *flag.FlagSet {
	f := flag.NewFlagSet("harbor-inside "+name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	return f
}

func toBytes(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}
