package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"
)

// console is a program on a terminal, with somebody who types and reads.
type console struct {
	t       *testing.T
	cmd     *exec.Cmd
	master  *os.File
	slave   *os.File
	before  *term.State
	mu      sync.Mutex // guards all below
	written bytes.Buffer
	more    chan struct{} // holds one when there is more
	closed  chan struct{}
}

func openConsole(t *testing.T, env []string, args ...string) *console {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	c := &console{t: t, master: master, slave: slave, more: make(chan struct{}, 1), closed: make(chan struct{})}
	if err := pty.Setsize(master, &pty.Winsize{Rows: 24, Cols: 100}); err != nil {
		t.Fatal(err)
	}
	if c.before, err = term.GetState(int(slave.Fd())); err != nil {
		t.Fatal(err)
	}
	c.cmd = exec.Command(filepath.Join(bin, "harbor"), args...)
	c.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return regexp.MustCompile(`^(NO_COLOR|TERM|COLORTERM|CI)=`).MatchString(v) }), env...)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = slave, slave, slave
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go c.read()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		_ = slave.Close()
		_ = master.Close()
		<-c.closed
	})
	return c
}

func (c *console) read() {
	defer close(c.closed)
	b := make([]byte, 4096)
	for {
		n, err := c.master.Read(b)
		c.mu.Lock()
		c.written.Write(b[:n])
		c.mu.Unlock()
		select {
		case c.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// await waits until a text was written since the last call, and returns what was
// written up to there.
func (c *console) await(text string) string {
	c.t.Helper()
	deadline := time.After(time.Minute)
	for {
		seen, ok := c.take(text)
		if ok {
			return seen
		}
		select {
		case <-c.more:
		case <-deadline:
			c.t.Fatalf("the terminal never got %q, but %q", text, seen)
		}
	}
}

// take returns what was written up to a text, or all that was when that is missing.
func (c *console) take(text string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := bytes.Index(c.written.Bytes(), []byte(text))
	if i < 0 {
		return c.written.String(), false
	}
	return string(c.written.Next(i + len(text))), true
}

func (c *console) press(keys string) {
	c.t.Helper()
	if _, err := c.master.WriteString(keys); err != nil {
		c.t.Fatal(err)
	}
}

// ends waits for the program, which must leave the terminal as it was.
func (c *console) ends(code int) {
	c.t.Helper()
	c.await("\x1b[?1049l") // the screen from before is back
	var exit *exec.ExitError
	if err := c.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	if got := c.cmd.ProcessState.ExitCode(); got != code {
		c.t.Errorf("exit code %d, want %d", got, code)
	}
	after, err := term.GetState(int(c.slave.Fd()))
	if err != nil {
		c.t.Fatal(err)
	}
	if fmt.Sprint(*after) != fmt.Sprint(*c.before) {
		c.t.Errorf("the terminal is in another mode: %v, before %v", *after, *c.before)
	}
}

// someJob makes a job with one trial, by hand.
func someJob(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"demo/config.json":               `{}`,
		"demo/result.json":               `{"id": "x", "n_total_trials": 1, "started_at": "2026-01-02T03:04:05", "finished_at": "2026-01-02T03:05:05", "stats": {"n_completed_trials": 1}}`,
		"demo/hello__1/config.json":      `{}`,
		"demo/hello__1/trial.log":        "begun\n",
		"demo/hello__1/agent/oracle.txt": "from the agent\n",
		"demo/hello__1/result.json":      `{"schema_version": 1, "trial_name": "hello__1", "task_name": "hello", "reward_valid": true, "agent_info": {"name": "oracle"}, "verifier_result": {"rewards": {"reward": 1.0}}}`,
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestViewOnATerminal(t *testing.T) {
	t.Parallel()
	c := openConsole(t, []string{"TERM=xterm-256color"}, "view", someJob(t))
	c.await("demo")
	c.press("\r")
	c.await("hello__1")
	c.press("\r")
	c.await("overview")
	c.press("2\r")
	c.await("from the agent")
	if err := pty.Setsize(c.master, &pty.Winsize{Rows: 3, Cols: 18}); err != nil {
		t.Fatal(err)
	}
	c.await("too small")
	if err := pty.Setsize(c.master, &pty.Winsize{Rows: 12, Cols: 60}); err != nil {
		t.Fatal(err)
	}
	c.await("from the agent")
	c.press("\x1b") // alone, it is the key
	c.await("harness")
	c.press("q")
	c.ends(0)
}

func TestViewEndsWithASignal(t *testing.T) {
	t.Parallel()
	for sig, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		c := openConsole(t, []string{"TERM=xterm-256color"}, "view", someJob(t))
		c.await("demo")
		if err := c.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		c.ends(code)
	}
	c := openConsole(t, []string{"TERM=xterm-256color"}, "view", someJob(t))
	c.await("demo")
	c.press("/\x03") // Ctrl-C is a key here, also while typing
	c.ends(0)
}

func TestViewWithoutColours(t *testing.T) {
	t.Parallel()
	coloured := regexp.MustCompile(`\x1b\[[0-9;:]*[34][0-9](;[0-9;:]*)?m`)
	for _, c := range []struct {
		env  []string
		want bool
	}{
		{[]string{"TERM=xterm-256color"}, true},
		{[]string{"TERM=xterm-256color", "NO_COLOR=1"}, false},
		{[]string{"TERM=dumb"}, false},
	} {
		console := openConsole(t, c.env, "view", filepath.Join(someJob(t), "demo"))
		console.await("quit") // the end of the first screen
		console.press("\r")
		seen := console.await("task")
		if got := coloured.MatchString(seen); got != c.want {
			t.Errorf("%v: colours %v, want %v: %q", c.env, got, c.want, seen)
		}
		console.press("q")
		console.ends(0)
	}
}
