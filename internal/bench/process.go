package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"harborgate/tasks"
)

// benchStartup times commands that touch nothing.
func benchStartup(ctx context.Context, w *workbench) ([]figure, error) {
	var out []figure
	for _, c := range []struct {
		name string
		args []string
	}{{"harbor version", []string{"version"}}, {"harbor run --help", []string{"run", "--help"}}} {
		var times []float64
		for range 20 {
			begun := time.Now()
			if err := exec.CommandContext(ctx, w.harbor(), c.args...).Run(); err != nil {
				return nil, err
			}
			times = append(times, ms(time.Since(begun)))
		}
		out = append(out, figure{c.name, median(times), 20, true, "ms"})
	}
	return out, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// manyTasks makes a directory of n small tasks.
func (w *workbench) manyTasks(n int) (string, error) {
	dir := filepath.Join(w.work, fmt.Sprintf("tasks-%d", n))
	for i := range n {
		if err := writeTask(filepath.Join(dir, fmt.Sprintf("task-%04d", i)), "FROM "+image+"\n", ""); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// writeTask makes a task that its oracle solves at once.
func writeTask(dir, dockerfile, toml string) error {
	files := map[string]string{
		"task.toml":              "schema_version = \"1.4\"\n\n[agent]\ntimeout_sec = 60.0\n\n[verifier]\ntimeout_sec = 60.0\n" + toml,
		"instruction.md":         "Write hello to /tmp/hello.\n",
		"environment/Dockerfile": dockerfile,
		"solution/solve.sh":      "#!/bin/sh\necho hello > /tmp/hello\n",
		"tests/test.sh":          "#!/bin/sh\nif [ \"$(cat /tmp/hello)\" = hello ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n",
	}
	for name, body := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(body), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// benchParse times the reading of task directories.
func benchParse(_ context.Context, w *workbench) ([]figure, error) {
	const n = 1000
	dir, err := w.manyTasks(n)
	if err != nil {
		return nil, err
	}
	var rates []float64
	for range 5 {
		begun := time.Now()
		found, problems := tasks.Find([]string{dir}, tasks.LoadOptions{})
		if err := problems.Err(); err != nil || len(found) != n {
			return nil, fmt.Errorf("found %d tasks: %w", len(found), err)
		}
		rates = append(rates, n/time.Since(begun).Seconds())
	}
	return []figure{{"parse tasks", median(rates), 5000, false, "tasks/s"}}, nil
}

// benchFirstCreate times harbor run from its start to the first container that
// it asks the engine for, with a thousand tasks in the directory.
func benchFirstCreate(ctx context.Context, w *workbench) ([]figure, error) {
	dir, err := w.manyTasks(1000)
	if err != nil {
		return nil, err
	}
	// The image must be there: building is not what is measured.
	if _, err := w.run(ctx, "-p", filepath.Join(dir, "task-0000"), "--job-name", "warm", "-q"); err != nil {
		return nil, err
	}
	var times []float64
	for i := range 5 {
		took, err := w.untilCreate(ctx, dir, fmt.Sprintf("first-%d", i))
		if err != nil {
			return nil, err
		}
		times = append(times, ms(took))
	}
	const parsing = 1000.0 / 5000 * 1000
	return []figure{{"run to first create, 1,000 tasks", median(times), 150 + parsing, true, "ms"}}, nil
}

// untilCreate runs harbor against the engine through a socket of ours, and stops
// it when the first create is seen.
func (w *workbench) untilCreate(ctx context.Context, dir, name string) (time.Duration, error) {
	socket := filepath.Join(w.work, name+".sock")
	seen, stop, err := watchSocket(socket)
	if err != nil {
		return 0, err
	}
	defer stop()
	cmd := exec.CommandContext(ctx, w.harbor(), "run", "-p", dir, "-n", "1", "-q", "--job-name", name, "-o", filepath.Join(w.work, "jobs"))
	cmd.Env = append(os.Environ(), "DOCKER_HOST=unix://"+socket)
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	var took time.Duration
	select {
	case at := <-seen:
		took = at.Sub(begun)
	case <-time.After(time.Minute):
		err = fmt.Errorf("no container was created within a minute")
	}
	if serr := cmd.Process.Signal(syscall.SIGTERM); err == nil && serr != nil {
		err = serr
	}
	_ = cmd.Wait() // it was stopped on purpose
	return took, err
}

// watchSocket relays connections to the engine and tells when a container is
// asked for.
func watchSocket(path string) (<-chan time.Time, func(), error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, nil, err
	}
	seen := make(chan time.Time, 1)
	var once sync.Once
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go relay(conn, func() { once.Do(func() { seen <- time.Now() }) })
		}
	}()
	return seen, func() { _ = l.Close() }, nil
}

func relay(conn net.Conn, created func()) {
	defer conn.Close()
	var d net.Dialer
	up, err := d.DialContext(context.Background(), "unix", engineSocket())
	if err != nil {
		return
	}
	defer up.Close()
	go func() {
		_, _ = io.Copy(conn, up)
		_ = conn.Close()
	}()
	_, _ = io.Copy(io.MultiWriter(up, spotter(created)), conn)
}

func engineSocket() string {
	if s, ok := strings.CutPrefix(os.Getenv("DOCKER_HOST"), "unix://"); ok {
		return s
	}
	return "/var/run/docker.sock"
}

// spotter calls itself when a create request passes.
type spotter func()

func (s spotter) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("/containers/create")) {
		s()
	}
	return len(b), nil
}

// run runs a job and returns how long it took.
func (w *workbench) run(ctx context.Context, args ...string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, w.harbor(), append([]string{"run", "-o", filepath.Join(w.work, "jobs")}, args...)...)
	begun := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("harbor run %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return time.Since(begun), nil
}
