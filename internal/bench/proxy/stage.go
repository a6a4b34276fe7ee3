package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// actor is a process that takes part.
type actor struct {
	cmd   *exec.Cmd
	words []string // of the line that it printed first
	in    io.WriteCloser
	out   *bufio.Reader
}

// start starts this program in a role and waits for its first line.
func start(ctx context.Context, args ...string) (*actor, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	a := &actor{cmd: exec.CommandContext(ctx, self, args...)}
	a.cmd.Stderr = os.Stderr
	a.cmd.Cancel = func() error { return a.cmd.Process.Signal(syscall.SIGTERM) }
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	a.out = bufio.NewReader(out)
	line, err := a.out.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("%s: %w", args[0], errors.Join(err, a.cmd.Wait()))
	}
	a.words = strings.Fields(line)
	return a, nil
}

func (a *actor) stop() error {
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, a.out)
	_ = a.cmd.Wait() // by a signal
	return nil
}

// way is one way to the mock.
type way struct {
	name, base, token string
	pids              []int // of what is in the way
}

// stage is where everything is running.
type stage struct {
	work, bin   string
	mock, proxy *actor
	nginx       *exec.Cmd
	ways        []way // direct, nginx, ours
}

func newStage(ctx context.Context, work, nginx, bin string) (*stage, error) {
	s := &stage{work: work, bin: bin}
	var err error
	if s.mock, err = start(ctx, "mock"); err != nil {
		return nil, err
	}
	address := s.mock.words[0]
	if s.proxy, err = start(ctx, "proxy", "-upstream", "http://"+address, "-dir", work); err != nil {
		return nil, errors.Join(err, s.close())
	}
	port, pids, err := s.startNginx(ctx, nginx, address)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.ways = []way{
		{name: "direct", base: "http://" + address + "/v1/messages"},
		{name: "nginx", base: "http://" + port + "/v1/messages", pids: pids},
		{name: "harbor", base: "http://" + s.proxy.words[0] + "/anthropic/v1/messages", token: s.proxy.words[1], pids: []int{s.proxy.cmd.Process.Pid}},
	}
	return s, nil
}

func (s *stage) close() error {
	var errs []error
	if s.nginx != nil {
		errs = append(errs, s.nginx.Process.Signal(syscall.SIGTERM))
		_ = s.nginx.Wait()
	}
	for _, a := range []*actor{s.proxy, s.mock} {
		if a != nil {
			errs = append(errs, a.stop())
		}
	}
	return errors.Join(errs...)
}

// config of nginx, as plain as a proxy of streams can be: it keeps an access log, as
// Debian's does and as the proxy keeps its audit, and nothing else.
const config = `worker_processes 2;
worker_rlimit_nofile 16384;
daemon off;
error_log stderr error;
pid %[1]s/nginx.pid;
events { worker_connections 8192; }
http {
  access_log %[1]s/access.log;
  client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  client_max_body_size 64m;
  client_body_buffer_size 64k;
  keepalive_requests 1000000;
  upstream mock { server %[2]s; keepalive 2048; keepalive_requests 1000000; }
  server {
    listen %[3]s;
    location / {
      proxy_pass http://mock;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }
  }
}
`

// startNginx returns where nginx listens, and its workers.
func (s *stage) startNginx(ctx context.Context, program, upstream string) (address string, workers []int, err error) {
	dir := filepath.Join(s.work, "nginx")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	address = l.Addr().String()
	if err := l.Close(); err != nil {
		return "", nil, err
	}
	file := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(config, dir, upstream, address)
	if os.Geteuid() == 0 {
		text = "user root;\n" + text // its files are in a directory of ours
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", nil, err
	}
	s.nginx = exec.CommandContext(ctx, program, "-c", file, "-e", "stderr")
	s.nginx.Stderr = os.Stderr
	if err := s.nginx.Start(); err != nil {
		s.nginx = nil
		return "", nil, fmt.Errorf("start nginx: %w", err)
	}
	if err := answers(ctx, address); err != nil {
		return "", nil, fmt.Errorf("start nginx: %w", err)
	}
	workers, err = children(s.nginx.Process.Pid)
	return address, workers, err
}

// answers waits until somebody listens.
func answers(ctx context.Context, address string) error {
	var err error
	for range 100 {
		var c net.Conn
		if c, err = (&net.Dialer{}).DialContext(ctx, "tcp", address); err == nil {
			return c.Close()
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

func children(pid int) ([]int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil, err
	}
	var out []int
	for _, f := range strings.Fields(string(text)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}

// cpu is the processor time that processes have used, in milliseconds, as the
// scheduler counts it: ticks miss who runs shortly and often.
func cpu(pids []int) (float64, error) {
	sum := 0.0
	for _, pid := range pids {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		if err != nil || len(threads) == 0 {
			return 0, fmt.Errorf("process %d cannot be measured: %w", pid, errors.Join(err, os.ErrNotExist))
		}
		for _, t := range threads {
			text, err := os.ReadFile(t)
			if err != nil {
				return 0, err
			}
			ns, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
			if err != nil {
				return 0, err
			}
			sum += ns / 1e6
		}
	}
	return sum, nil
}

// memory is the resident memory of processes, in KiB.
func memory(pids []int) (float64, error) {
	sum := 0.0
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(text), "VmRSS:")
		n, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// args are those of a client on a way.
func (w way) args(kind string, n int, d time.Duration) []string {
	return []string{"client", "-url", w.base, "-token", w.token, "-kind", kind, "-n", strconv.Itoa(n), "-for", d.String()}
}

// measure runs a client on a way.
func measure(ctx context.Context, w way, kind string, n int, d time.Duration) (measured, error) {
	self, err := os.Executable()
	if err != nil {
		return measured{}, err
	}
	cmd := exec.CommandContext(ctx, self, w.args(kind, n, d)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return measured{}, fmt.Errorf("%s: %w", w.name, err)
	}
	return w.read(out)
}

// read reads what a client printed.
func (w way) read(out []byte) (measured, error) {
	var m measured
	if err := json.Unmarshal(out, &m); err != nil {
		return m, fmt.Errorf("%s: %w", w.name, err)
	}
	if m.Problems > 0 {
		return m, fmt.Errorf("%s: %d answers were wrong, one of them: %s", w.name, m.Problems, m.Sample)
	}
	return m, nil
}
