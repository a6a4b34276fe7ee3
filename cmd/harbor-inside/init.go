package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"harborgate/internal/insideproto"
)

// runInit is PID 1: the daemon, and the parent of the image's own program.
func runInit(args []string) (int, error) {
	flags := newFlags("init")
	user := flags.String("user", "", "user of the entrypoint")
	dir := flags.String("dir", "", "directory of the entrypoint")
	if err := flags.Parse(args); err != nil {
		return 2, err
	}
	d, err := newDaemon(socketName(""))
	if err != nil {
		return 1, err
	}
	end := make(chan int, 1)
	if argv := flags.Args(); len(argv) > 0 {
		spec := insideproto.Supervised{Command: insideproto.Command{
			Args: toBytes(argv), User: *user, Dir: []byte(*dir),
		}}
		if err := startEntrypoint(d, spec, end); err != nil {
			return 1, err
		}
	}
	return d.serve(end)
}

// startEntrypoint runs the image's program on our own standard streams, so that
// its output is the container's. Its exit code goes to end.
func startEntrypoint(d *daemon, spec insideproto.Supervised, end chan<- int) error {
	spec.Environ = toBytes(os.Environ())
	sup, err := d.startSupervisor(spec, [3]int{0, 1, 2})
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
	return d.serve(nil)
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
