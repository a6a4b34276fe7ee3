package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socketName is the daemon's abstract socket. Containers can share a network
// namespace, and with it these names, so it holds the pid namespace's inode.
func socketName(name string) string {
	if name != "" {
		return "@harbor-inside." + name
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		return "@harbor-inside"
	}
	return fmt.Sprintf("@harbor-inside.%d", st.Ino)
}

// runConnect hands its standard input and output to the daemon and waits until
// the daemon is done with them, so no byte is copied here.
func runConnect(args []string) (int, error) {
	flags := newFlags("connect")
	var o daemonOptions
	flags.StringVar(&o.socket, "socket", "", "name of the daemon's socket")
	flags.DurationVar(&o.lease, "lease", 0, "a daemon started now ends after so long without a host; 0 is never")
	if err := flags.Parse(args); err != nil {
		return 2, err
	}
	conn, err := dialDaemon(o)
	if err != nil {
		return 1, err
	}
	defer conn.Close()
	rights := unix.UnixRights(0, 1)
	if _, _, err := conn.WriteMsgUnix([]byte{0}, rights, nil); err != nil {
		return 1, fmt.Errorf("hand the session to the daemon: %w", err)
	}
	_, err = io.Copy(io.Discard, conn)
	return 0, err
}

// daemonOptions are those of a daemon that connect may have to start.
type daemonOptions struct {
	socket string
	lease  time.Duration
}

// dialDaemon finds the daemon, or starts it where PID 1 is not ours.
func dialDaemon(o daemonOptions) (*net.UnixConn, error) {
	socket := socketName(o.socket)
	conn, err := dialOwn(socket)
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return conn, err
	}
	if o.socket == "" && initIsOurs() {
		return awaitInit(socket)
	}
	if err := spawnDaemon(o); err != nil {
		return nil, fmt.Errorf("start the daemon: %w", err)
	}
	return dialOwn(socket)
}

// dialOwn connects to a socket that belongs to our own user. Abstract names are
// free for all, so another user may have taken this one.
func dialOwn(socket string) (*net.UnixConn, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := checkPeer(conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// checkPeer accepts only processes of our own user, which is root.
func checkPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if credErr != nil {
		return credErr
	}
	if int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("the other side of the socket is user %d, not %d", cred.Uid, os.Geteuid())
	}
	return nil
}

// initIsOurs reports whether PID 1 is harbor-inside, perhaps not listening yet.
func initIsOurs() bool {
	cmdline, err := os.ReadFile("/proc/1/cmdline")
	if err != nil {
		return false
	}
	argv := strings.Split(string(cmdline), "\x00")
	return len(argv) > 1 && path.Base(argv[0]) == "harbor-inside" && argv[1] == "init"
}

// awaitInit waits for PID 1, which listens a few milliseconds after its start.
func awaitInit(socket string) (*net.UnixConn, error) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case <-tick.C:
			conn, err := dialOwn(socket)
			if !errors.Is(err, syscall.ECONNREFUSED) {
				return conn, err
			}
		case <-deadline:
			return nil, errors.New("PID 1 is harbor-inside, but does not listen")
		}
	}
}

// spawnDaemon starts a daemon that outlives us, and returns when it listens.
func spawnDaemon(o daemonOptions) error {
	ready, started, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		started.Close()
		return err
	}
	defer null.Close()
	n := null.Fd()
	argv := []string{"harbor-inside", "serve", "--socket", o.socket, "--lease", o.lease.String()}
	_, err = syscall.ForkExec(selfExe, argv, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{n, n, n, started.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	started.Close()
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, ready)
	return err
}

// selfExe is this program, whatever became of the file that it was started from.
const selfExe = "/proc/self/exe"
