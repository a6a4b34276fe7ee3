package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"harborgate/internal/insideproto"
)

// testDaemon listens under a name of its own, without becoming a reaper.
func testDaemon(t *testing.T) (*daemon, string) {
	t.Helper()
	name := "@harbor-inside.unit." + rand.Text()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	d := &daemon{boot: "b", patience: 50 * time.Millisecond, listener: l, pending: make(chan struct{}, maxPending),
		transfers: make(chan struct{}, maxTransfers), commands: map[string]*command{}, ports: map[string]*port{}, supervisors: map[int]bool{}}
	go d.accept()
	return d, name
}

// handOver does what connect does, with pipes; it returns the host's ends.
func handOver(t *testing.T, name string) (conn *net.UnixConn, in, out *os.File) {
	t.Helper()
	conn, err := dialOwn(name)
	if err != nil {
		t.Fatal(err)
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(int(theirIn.Fd()), int(theirOut.Fd())), nil); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	t.Cleanup(func() {
		for _, c := range []io.Closer{conn, in, out} {
			c.Close()
		}
	})
	return conn, in, out
}

// ends reports whether the daemon lets go of conn, by itself, in a while.
func ends(conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	_, err := conn.Read(make([]byte, 1))
	return errors.Is(err, io.EOF)
}

func TestSessionOutlivesThePatienceForGreetings(t *testing.T) {
	t.Parallel()
	_, name := testDaemon(t)
	conn, in, out := handOver(t, name)
	if err := insideproto.WriteHello(in, insideproto.Hello{Version: insideproto.Version}); err != nil {
		t.Fatal(err)
	}
	if h, err := insideproto.ReadHello(out); err != nil || h.Boot != "b" {
		t.Fatalf("%+v, %v", h, err)
	}
	if ends(conn) {
		t.Error("the session ended by itself")
	}
}

func TestDaemonEndsWhoeverDoesNotGreet(t *testing.T) {
	t.Parallel()
	_, name := testDaemon(t)
	silent, _, _ := handOver(t, name)
	if !ends(silent) {
		t.Error("a host that says nothing is kept")
	}
	stranger, in, _ := handOver(t, name)
	if err := insideproto.WriteHello(in, insideproto.Hello{Version: 99}); err != nil {
		t.Fatal(err)
	}
	if !ends(stranger) {
		t.Error("another version is kept")
	}
	without, err := dialOwn(name)
	if err != nil {
		t.Fatal(err)
	}
	defer without.Close()
	if _, err := without.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	if !ends(without) {
		t.Error("a connection without a stream is kept")
	}
}

func TestLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLease(time.Minute)
		over := func(after time.Duration) bool {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			select {
			case <-l.over:
				return true
			case <-ctx.Done():
				return false
			}
		}
		l.hold()
		l.hold()
		l.drop()
		if over(time.Hour) {
			t.Error("over while it is held")
		}
		l.drop()
		if over(50*time.Second) || !over(20*time.Second) {
			t.Error("not over a minute after its last holder")
		}
		var none *lease
		none.hold()
		none.drop()
	})
}
