// Package insidetest gives tests a real harbor-inside.
package insidetest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"harborgate/providers/inside"
)

// Package is the companion's import path.
const Package = "harborgate/cmd/harbor-inside"

// Build returns the path of a static harbor-inside, as releases have it. It is
// built once per process and stays for later ones, under a name that changes with
// its content.
func Build(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var built = sync.OnceValues(build)

func build() (string, error) {
	dir, err := os.MkdirTemp("", "harbor-inside-build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "harbor-inside")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", file, Package)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", Package, err, out)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	final := filepath.Join(os.TempDir(), fmt.Sprintf("harbor-inside-test-%d-%s", os.Getuid(), hex.EncodeToString(sum[:8])))
	if err := os.MkdirAll(final, 0o755); err != nil {
		return "", err
	}
	final = filepath.Join(final, "harbor-inside")
	return final, os.Rename(file, final)
}

// Companion is a daemon of this host, for one test.
type Companion struct {
	Binary string
	// Under is put before the command that connects, as in "env -i"; for [Companion.Dial].
	Under []string
	name  string
}

// Start prepares a companion under a name of its own. Its first connection starts
// the daemon; the end of the test ends it, with all commands. If the test process
// dies, it ends by itself.
func Start(t testing.TB) *Companion {
	t.Helper()
	c := &Companion{Binary: Build(t), name: "test." + rand.Text()}
	t.Cleanup(func() {
		if err := c.Kill(); err != nil {
			t.Errorf("kill the companion: %v", err)
		}
	})
	return c
}

// Kill ends the daemon, if it runs, and returns when it is gone.
func (c *Companion) Kill() error {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: "@harbor-inside." + c.name, Net: "unix"})
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	pid, err := peer(conn)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, conn) // until the kernel closes its end
	return nil
}

func peer(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if credErr != nil {
		return 0, credErr
	}
	return int(cred.Pid), nil
}

// Dial opens a session's stream. It is an [inside.Dial].
func (c *Companion) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	args := slices.Concat(c.Under, []string{c.Binary, "connect", "--socket", c.name, "--lease", "1m"})
	return Command(exec.CommandContext(context.WithoutCancel(ctx), args[0], args[1:]...))
}

// Command starts cmd and returns its standard input and output as one stream.
// Closing it ends the process.
func Command(cmd *exec.Cmd) (io.ReadWriteCloser, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &stream{ReadCloser: out, in: in, cmd: cmd}, nil
}

type stream struct {
	io.ReadCloser
	in   io.WriteCloser
	cmd  *exec.Cmd
	once sync.Once
}

func (s *stream) Write(p []byte) (int, error) { return s.in.Write(p) }

func (s *stream) Close() error {
	s.once.Do(func() {
		s.in.Close()
		s.ReadCloser.Close()
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	})
	return nil
}

// Open opens a session to the companion, closed at the end of the test. Dial is
// set if it is nil.
func (c *Companion) Open(t testing.TB, o inside.Options) *inside.Session {
	t.Helper()
	if o.Dial == nil {
		o.Dial = c.Dial
	}
	s, err := inside.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the session: %v", err)
		}
	})
	return s
}
