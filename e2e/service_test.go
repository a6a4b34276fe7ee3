package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"harborgate/authproxy"
	"harborgate/authproxy/client"
	"harborgate/internal/mockllm"
)

// serviceKey is the real key of the services here.
const serviceKey = "sk-ant-canary-77d0c1a9e4b52f36"

// host is a directory that plays a whole host for a service.
type host struct {
	t      *testing.T
	dir    string
	socket string
	env    []string
}

func newHost(t *testing.T) *host {
	t.Helper()
	up := httptest.NewServer(mockllm.New())
	t.Cleanup(up.Close)
	dir := t.TempDir()
	h := &host{t: t, dir: dir, socket: filepath.Join(dir, "auth.sock")}
	h.env = []string{
		"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + dir, "HARBOR_CONFIG=" + filepath.Join(dir, "config.yaml"),
		"XDG_CONFIG_HOME=" + dir, "XDG_STATE_HOME=" + filepath.Join(dir, "state"), "XDG_CACHE_HOME=" + filepath.Join(dir, "cache"),
	}
	h.write("key", serviceKey)
	h.write("config.yaml", fmt.Sprintf(`
upstreams:
  anthropic: {dialect: anthropic, base_url: %q, keys: ["file:%s"], local: true, models: [m], prices: {"*": {input: 1, output: 10}}}
auth: {socket: %q, listen: "127.0.0.1:0"}
`, up.URL, filepath.Join(dir, "key"), h.socket))
	return h
}

func (h *host) write(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// run runs a program to its end and returns what it printed.
func (h *host) run(name string, args ...string) string {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), name, args...)
	cmd.Env, cmd.Dir = h.env, h.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func (h *host) harbor(args ...string) string {
	h.t.Helper()
	return h.run(filepath.Join(bin, "harbor"), args...)
}

// ready waits until the service is.
func (h *host) ready(c *client.Client) authproxy.Status {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := c.Status(ctx)
		if err == nil && s.Ready && len(s.Listen) > 0 {
			return s
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			h.t.Fatalf("the service does not become ready: %+v %v", s, err)
		}
	}
}

// ask sends a request through the service, under a grant of its own.
func (h *host) ask(c *client.Client) {
	h.t.Helper()
	m, err := c.Mint(h.t.Context(), authproxy.GrantSpec{Job: "j", Trial: "t", Phase: "p", Upstreams: []string{"anthropic"}, Expires: time.Now().Add(time.Minute)})
	if err != nil {
		h.t.Fatal(err)
	}
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx) }, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, "http://proxy/anthropic/v1/messages", strings.NewReader(`{"model":"m","max_tokens":9,"messages":[]}`))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", m.Token)
	resp, err := tr.RoundTrip(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		h.t.Fatalf("%d %s %v", resp.StatusCode, b, err)
	}
}

// secret fails when the key is in a file of the host but its own.
func (h *host) secret() {
	h.t.Helper()
	err := filepath.WalkDir(h.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Base(path) == "key" {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, form := range formsOf(serviceKey) {
			if bytes.Contains(b, []byte(form)) {
				return fmt.Errorf("%s holds the key", path)
			}
		}
		return nil
	})
	if err != nil {
		h.t.Error(err)
	}
}

// worst is how exposed a unit may be by the measure of systemd-analyze.
const worst = 2.0

// The unit passes what systemd itself says about units.
func TestSystemdUnits(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.write("config.yaml", "version: 1\n")
	units := filepath.Join(h.dir, "etc/systemd/system")
	const program = "/usr/bin/env" // it is on this host, and units see it
	if err := errors.Join(os.MkdirAll(filepath.Join(h.dir, "usr/bin"), 0o755), os.Symlink(program, filepath.Join(h.dir, program))); err != nil {
		t.Fatal(err)
	}
	h.harbor("auth", "service", "install", "--systemd", "--root", h.dir, "--program", program)
	h.harbor("auth", "service", "install", "--systemd", "--user")
	for _, dir := range []string{units, filepath.Join(h.dir, "systemd/user")} {
		found, err := filepath.Glob(filepath.Join(dir, "harbor-auth*"))
		if err != nil || len(found) != 3 {
			t.Fatalf("%v %v", found, err)
		}
		if out := h.run("systemd-analyze", append([]string{"verify", "--man=no"}, found...)...); strings.TrimSpace(out) != "" {
			t.Errorf("%s", out)
		}
	}
	unit := filepath.Join(units, "harbor-auth.service")
	out := h.run("systemd-analyze", "security", "--offline=true", "--threshold="+strconv.Itoa(worst*10), unit)
	m := regexp.MustCompile(`exposure level for harbor-auth.service: ([\d.]+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no level in %s", out)
	}
	if level, err := strconv.ParseFloat(m[1], 64); err != nil || level > worst {
		t.Errorf("exposure %s, more than %g", m[1], worst)
	}
}

// Sockets that systemd hands over are taken, by name.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	data := filepath.Join(h.dir, "data.sock")
	args := []string{"--listen=" + data, "--listen=" + h.socket, "--fdname=data:admin"}
	for _, e := range h.env {
		args = append(args, "--setenv="+e)
	}
	cmd := exec.CommandContext(t.Context(), "systemd-socket-activate", append(args, filepath.Join(bin, "harbor"), "auth", "serve")...)
	var log bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stderr = h.env, h.dir, &log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: run scripts/systemd.sh", err)
	}
	c := client.New(h.socket)
	defer c.Close()
	s := h.ready(c) // the first connection starts it
	if len(s.Listen) != 1 || s.Listen[0] != "unix:"+data {
		t.Errorf("it listens on %v", s.Listen)
	}
	h.ask(c)
	h.harbor("auth", "check")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, log.String())
	}
	if _, err := os.Stat(h.socket); err != nil {
		t.Errorf("a socket of systemd's was removed: %v", err)
	}
	h.write("log", log.String())
	h.secret()
}

// pm2 runs the service, and keeps no key in its own files. It takes npm, so it is
// for `make test-full`.
func TestPM2(t *testing.T) {
	t.Parallel()
	if os.Getenv("HARBOR_TEST_FULL") != "1" {
		return
	}
	h := newHost(t)
	found, err := exec.CommandContext(t.Context(), "../scripts/pm2.sh").Output()
	if err != nil {
		t.Fatal(err)
	}
	pm2 := strings.TrimSpace(string(found))
	h.env = append(h.env, "PM2_HOME="+filepath.Join(h.dir, "pm2"), "ANTHROPIC_API_KEY="+serviceKey)
	h.harbor("auth", "service", "install", "--pm2")
	t.Cleanup(func() {
		cmd := exec.Command(pm2, "kill") // also behind a test that failed
		cmd.Env = h.env
		_ = cmd.Run()
	})
	h.run(pm2, "start", filepath.Join(h.dir, "harborgate/ecosystem.config.cjs"))
	c := client.New(h.socket)
	defer c.Close()
	h.ready(c)
	h.ask(c)
	before := h.pid(pm2)
	h.run(pm2, "reload", "harbor-auth")
	h.ready(c)
	if now := h.pid(pm2); now == before || now == 0 {
		t.Errorf("a reload left process %d after %d", now, before)
	}
	h.ask(c)
	h.run(pm2, "sendSignal", "SIGHUP", "harbor-auth")
	h.ready(c)
	h.run(pm2, "save")
	if out := h.run(pm2, "env", "0"); strings.Contains(out, "ANTHROPIC") {
		t.Error("the environment of the shell went on to the service")
	}
	h.run(pm2, "stop", "harbor-auth")
	if _, err := c.Status(t.Context()); !errors.Is(err, client.ErrNotRunning) {
		t.Errorf("it runs on: %v", err)
	}
	log, err := os.ReadFile(filepath.Join(h.dir, "pm2/logs/harbor-auth-error.log"))
	if err != nil || !bytes.Contains(log, []byte(`"msg":"reloaded"`)) || !bytes.Contains(log, []byte(`"msg":"stopped"`)) {
		t.Errorf("%v\n%s", err, log)
	}
	h.secret()
}

// pid is the process that pm2 runs, 0 when none.
func (h *host) pid(pm2 string) int {
	h.t.Helper()
	var list []struct{ PID int }
	if err := json.Unmarshal([]byte(h.run(pm2, "jlist")), &list); err != nil || len(list) != 1 {
		h.t.Fatalf("%+v %v", list, err)
	}
	return list[0].PID
}
