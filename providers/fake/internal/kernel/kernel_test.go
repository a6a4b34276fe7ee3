package kernel_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/nettest"

	"harborgate/providers/fake/internal/kernel"
	"harborgate/providers/fake/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// boot starts a machine with one program, "main", installed as /main.
func boot(t *testing.T, limits kernel.Limits, main kernel.Program) *kernel.Machine {
	t.Helper()
	f := vfs.New(time.Now)
	if err := f.WriteFile("/main", kernel.Binary("main"), 0o755); err != nil {
		t.Fatal(err)
	}
	m, err := kernel.New(kernel.Options{FS: f, Programs: map[string]kernel.Program{"main": main}, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.PowerOff)
	return m
}

func start(t *testing.T, m *kernel.Machine) *kernel.Proc {
	t.Helper()
	out := kernel.NewOutlet()
	p, err := m.Start(kernel.Spawn{Args: []string{"/main"}, Dir: "/", Stdio: [3]*kernel.Desc{kernel.Empty(), out.Desc(1), out.Desc(2)}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs main and returns how it ended.
func run(t *testing.T, limits kernel.Limits, main kernel.Program) kernel.Status {
	t.Helper()
	p := start(t, boot(t, limits, main))
	<-p.Done()
	return p.Result()
}

func TestConnectionsAreConns(t *testing.T) {
	t.Parallel()
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		m := boot(t, kernel.Limits{}, func(*kernel.Proc) int { return 0 })
		accepted := make(chan net.Conn, 1)
		l, err := m.Listen(0, func(c net.Conn) { accepted <- c })
		if err != nil {
			return nil, nil, nil, err
		}
		c1, err = m.Dial(l.Port)
		if err != nil {
			return nil, nil, nil, err
		}
		c2 = <-accepted
		return c1, c2, func() { _, _ = c1.Close(), c2.Close() }, nil
	})
}

func TestExitCodesAndSignals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		main kernel.Program
		want kernel.Status
	}{
		"return":    {func(*kernel.Proc) int { return 3 }, kernel.Status{Code: 3}},
		"exit":      {func(p *kernel.Proc) int { p.Exit(256 + 4); return 0 }, kernel.Status{Code: 4}},
		"kill self": {func(p *kernel.Proc) int { _ = p.Signal(p.PID, syscall.SIGTERM); p.Check(); return 0 }, kernel.Status{Code: 143, Signal: 15}},
		"ignored": {func(p *kernel.Proc) int {
			p.Handle(syscall.SIGTERM, kernel.Ignore)
			_ = p.Signal(p.PID, syscall.SIGTERM)
			p.Check()
			return 5
		}, kernel.Status{Code: 5}},
		"kill cannot be ignored": {func(p *kernel.Proc) int {
			p.Handle(syscall.SIGKILL, kernel.Ignore)
			_ = p.Signal(p.PID, syscall.SIGKILL)
			p.Check()
			return 5
		}, kernel.Status{Code: 137, Signal: 9}},
		"broken pipe": {func(p *kernel.Proc) int {
			r, w := p.Pipe()
			p.Close(r)
			_, _ = p.Write(w, []byte("x"))
			return 0
		}, kernel.Status{Code: 141, Signal: 13}},
		"broken pipe, ignored": {func(p *kernel.Proc) int {
			p.Handle(syscall.SIGPIPE, kernel.Ignore)
			r, w := p.Pipe()
			p.Close(r)
			if _, err := p.Write(w, []byte("x")); errors.Is(err, syscall.EPIPE) {
				return 6
			}
			return 0
		}, kernel.Status{Code: 6}},
		"memory": {func(p *kernel.Proc) int { p.Charge(2 << 20); return 0 }, kernel.Status{Code: 137, Signal: 9}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := run(t, kernel.Limits{MemoryBytes: 1 << 20}, test.main); got != test.want {
				t.Errorf("ended with %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestMemoryComesBackWhenAProcessEnds(t *testing.T) {
	t.Parallel()
	got := run(t, kernel.Limits{MemoryBytes: 1 << 20}, func(p *kernel.Proc) int {
		for range 10 {
			pid, err := p.Fork(func(c *kernel.Proc) int { c.Charge(900 << 10); return 0 })
			if err != nil {
				return 1
			}
			if s, _, _ := p.Wait(pid, false); s.Code != 0 {
				return s.Code
			}
		}
		return 0
	})
	if got.Code != 0 {
		t.Errorf("ended with %+v", got)
	}
}

func TestProcessLimit(t *testing.T) {
	t.Parallel()
	started := 0
	got := run(t, kernel.Limits{PIDs: 10}, func(p *kernel.Proc) int {
		for {
			_, err := p.Fork(func(c *kernel.Proc) int { c.Sleep(time.Hour); return 0 })
			if errors.Is(err, syscall.EAGAIN) {
				return 11
			}
			started++
		}
	})
	if got.Code != 11 || started != 8 {
		t.Errorf("%d children beside init and the first, ended with %+v, want 8", started, got)
	}
}

// forever is a tree that forks on and on and cannot be asked to stop.
func forever(p *kernel.Proc) int {
	p.Handle(syscall.SIGTERM, kernel.Ignore)
	for range 3 {
		_, _ = p.Fork(func(c *kernel.Proc) int {
			c.Setsid()
			for {
				_, _ = c.Fork(func(g *kernel.Proc) int { g.Sleep(time.Millisecond); return 0 })
				c.Sleep(time.Millisecond)
			}
		})
	}
	return 0 // an orphanage
}

func TestKillJobLeavesNobody(t *testing.T) {
	t.Parallel()
	m := boot(t, kernel.Limits{}, forever)
	other := start(t, boot(t, kernel.Limits{}, forever))
	p := start(t, m)
	<-p.Done()
	if n := m.SignalJob(p.Job(), syscall.SIGTERM); n == 0 {
		t.Error("the job is empty before it was killed")
	}
	if n := m.KillJob(p.Job()); n < 3 {
		t.Errorf("%d processes were killed, want 3 or more", n)
	}
	select {
	case <-p.Job().Empty():
	default:
		t.Error("the job is not empty")
	}
	<-other.Done()
	select {
	case <-other.Job().Empty():
		t.Error("another machine's job is empty, too")
	default:
	}
}

func TestWaitIsInterruptedByCaughtSignals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := boot(t, kernel.Limits{}, func(p *kernel.Proc) int {
			p.Handle(syscall.SIGUSR1, kernel.Catch)
			child, err := p.Fork(func(c *kernel.Proc) int { c.Sleep(time.Hour); return 9 })
			if err != nil {
				return 1
			}
			if _, _, interrupted := p.Wait(child, true); !interrupted || len(p.Pending()) != 1 {
				return 2
			}
			s, ok, _ := p.Wait(child, true)
			if !ok {
				return 3
			}
			return s.Code
		})
		p := start(t, m)
		synctest.Wait()
		m.SignalJob(p.Job(), syscall.SIGUSR1)
		<-p.Done()
		// The child dies of the signal, which it inherits no handler for.
		if got := p.Result(); got.Code != 128+int(syscall.SIGUSR1) {
			t.Errorf("ended with %+v", got)
		}
		m.PowerOff()
	})
}

func TestOutletKeepsTheOrderAndWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := kernel.NewOutlet()
		m := boot(t, kernel.Limits{}, func(p *kernel.Proc) int {
			for range 3 {
				_, _ = p.Write(1, bytes.Repeat([]byte("o"), kernel.PipeBytes))
				_, _ = p.Write(2, []byte("e"))
			}
			return 0
		})
		p, err := m.Start(kernel.Spawn{Args: []string{"/main"}, Dir: "/", Stdio: [3]*kernel.Desc{kernel.Empty(), out.Desc(1), out.Desc(2)}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case <-p.Done():
			t.Error("the process did not wait for its reader")
		default:
		}
		want := strings.Repeat(strings.Repeat("o", kernel.PipeBytes)+"e", 3)
		var got strings.Builder
		for got.Len() < len(want) {
			c, ok, wait := out.Next()
			if !ok {
				<-wait
				continue
			}
			if (c.Stream == 2) != (string(c.Bytes) == "e") {
				t.Errorf("stream %d carries %d bytes of the other", c.Stream, len(c.Bytes))
			}
			got.Write(c.Bytes)
		}
		<-p.Done()
		if got.String() != want {
			t.Error("the order is lost")
		}
		m.PowerOff()
	})
}

func TestFIFOWaitsForItsPeer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := boot(t, kernel.Limits{}, func(p *kernel.Proc) int {
			if err := p.FS().Mkfifo(p.Cred, "/tmp/f", 0o600); err != nil {
				return 1
			}
			_, err := p.Fork(func(c *kernel.Proc) int {
				c.Sleep(time.Hour)
				fd, err := c.Open("/tmp/f", syscall.O_WRONLY, 0)
				if err != nil {
					return 1
				}
				_, _ = c.Write(fd, []byte("late"))
				return 0
			})
			if err != nil {
				return 2
			}
			fd, err := p.Open("/tmp/f", syscall.O_RDONLY, 0)
			if err != nil {
				return 3
			}
			b := make([]byte, 10)
			n, _ := p.Read(fd, b)
			if _, err := p.Read(fd, b); !errors.Is(err, io.EOF) {
				return 4
			}
			return n
		})
		begin := time.Now()
		p := start(t, m)
		<-p.Done()
		if got := p.Result(); got.Code != 4 || time.Since(begin) != time.Hour {
			t.Errorf("ended with %+v after %s, want 4 bytes after an hour", got, time.Since(begin))
		}
		m.PowerOff()
	})
}

func TestPowerOffEndsEverything(t *testing.T) {
	t.Parallel()
	m := boot(t, kernel.Limits{}, forever)
	p := start(t, m)
	<-p.Done()
	l, err := m.Listen(0, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	if err != nil {
		t.Fatal(err)
	}
	c, err := m.Dial(l.Port)
	if err != nil {
		t.Fatal(err)
	}
	m.PowerOff()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlived its machine")
	}
	if _, err := m.Start(kernel.Spawn{Args: []string{"/main"}, Dir: "/"}); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("a process started on a machine that is off: %v", err)
	}
}
