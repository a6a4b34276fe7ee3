package inside_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"harborgate/providers"
	"harborgate/providers/inside"
	"harborgate/providers/inside/insidetest"
)

const image = "debian:bookworm-slim"

// container is a container of this host's engine with the companion as PID 1.
type container struct {
	name string
}

func docker(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// start runs a container without a network. flags are docker's, args those of
// "harbor-inside init".
func start(t testing.TB, flags []string, args ...string) container {
	t.Helper()
	bin := insidetest.Build(t)
	c := container{"hg-inside-test-" + strings.ToLower(rand())}
	all := append([]string{"run", "-d", "--name", c.name, "--network", "none", "-v", bin + ":/.hg/harbor-inside:ro",
		"--entrypoint", "/.hg/harbor-inside"}, flags...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the container: %s\n%s", docker(t, "inspect", "-f", "{{json .State}}", c.name), docker(t, "logs", "--tail", "200", c.name))
		}
		docker(t, "rm", "-f", c.name)
	})
	docker(t, append(append(all, image, "init"), args...)...)
	return c
}

func (c container) Dial(context.Context) (io.ReadWriteCloser, error) {
	return insidetest.Command(exec.Command("docker", "exec", "-i", "-u", "0", c.name, "/.hg/harbor-inside", "connect"))
}

func (c container) open(t testing.TB) *inside.Session {
	t.Helper()
	s, err := inside.Open(t.Context(), inside.Options{ID: "box", Dial: c.Dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestContainerBasics(t *testing.T) {
	t.Parallel()
	c := start(t, []string{"-e", "FROM_IMAGE=yes", "-w", "/usr"})
	s := c.open(t)
	got := run(t, s, sh(`pwd; echo $FROM_IMAGE $HOME; cat /proc/1/comm /proc/self/oom_score_adj
		until [ $(cat /proc/$PPID/oom_score_adj) = 0 ]; do :; done # the supervisor takes it back after the start
		echo 0; umask`))
	if got.out != "/usr\nyes /root\nharbor-inside\n500\n0\n0022\n" {
		t.Errorf("got %+v", got)
	}
}

func TestContainerUsers(t *testing.T) {
	t.Parallel()
	s := start(t, nil).open(t)
	run(t, s, sh("useradd -u 1234 -m -G audio,video dev && groupadd -g 77 extra"))
	for user, want := range map[string]string{
		"":           "0 0 0 /root",
		"root":       "0 0 0 /root",
		"dev":        "1234 1234 1234 29 44 /home/dev",
		"1234":       "1234 1234 1234 29 44 /home/dev",
		"dev:extra":  "1234 77 77 /home/dev",
		"4321":       "4321 0 0 /",
		"4321:88":    "4321 88 88 /",
		"www-data":   "33 33 33 /var/www",
		"nobody:dev": "65534 1234 1234 /nonexistent",
	} {
		cmd := sh("echo $(id -u) $(id -g) $(id -G) $HOME")
		cmd.User = user
		if got := run(t, s, cmd); got.out != want+"\n" {
			t.Errorf("user %q: got %q, want %q", user, got.out, want)
		}
	}
	_, err := s.Exec(t.Context(), providers.Command{Args: []string{"id"}, User: "ghost"})
	wantKind(t, err, providers.KindInvalid, "exec box", `"ghost"`)
	cmd := sh("kill -9 1 $PPID; cat /proc/$PPID/environ; grep -c . /proc/self/oom_score_adj; kill -9 -1")
	cmd.User = "dev"
	got := run(t, s, cmd)
	if got.Signal != 0 && got.Signal != 9 || !strings.Contains(got.errs, "not permitted") {
		t.Errorf("an ordinary user against the companion: %+v", got)
	}
	if got := run(t, s, sh("echo ok")); got.out != "ok\n" {
		t.Errorf("afterwards: %+v", got)
	}
	home := providers.Command{Args: []string{"sh", "-c", "echo $HOME"}, User: "dev", Env: map[string]string{"HOME": "/elsewhere"}}
	if got := run(t, s, home); got.out != "/elsewhere\n" {
		t.Errorf("HOME that was asked for: %+v", got)
	}
}

func TestContainerExposeWithoutNetwork(t *testing.T) {
	t.Parallel()
	s := start(t, nil).open(t)
	url, closer, err := s.Expose(t.Context(), func(c net.Conn) {
		defer c.Close()
		b := make([]byte, 4)
		if _, err := io.ReadFull(c, b); err == nil {
			_, _ = c.Write(append([]byte("got "), b...))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	port := url[strings.LastIndex(url, ":")+1:]
	got := run(t, s, providers.Command{Args: []string{"bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/" + port + "; printf ping >&3; cat <&3"}})
	if got.out != "got ping" {
		t.Errorf("got %+v", got)
	}
	if err := closer(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the port is closed", func() bool {
		return !run(t, s, providers.Command{Args: []string{"bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/" + port}}).OK()
	})
}

func TestContainerOutOfMemory(t *testing.T) {
	t.Parallel()
	s := start(t, []string{"-m", "128m", "--memory-swap", "128m"}).open(t)
	quiet := make(chan result)
	go func() { quiet <- run(t, s, sh("echo fine")) }()
	if got := <-quiet; got.OOMKilled {
		t.Errorf("before: %+v", got)
	}
	got := run(t, s, sh("head -c 300000000 /dev/zero | tail | wc -c; true"))
	if !got.OOMKilled || !got.OK() {
		t.Errorf("a child: %+v", got)
	}
	got = run(t, s, providers.Command{Args: []string{"tail", "/dev/zero"}})
	if !got.OOMKilled || got.Signal != 9 {
		t.Errorf("the command itself: %+v", got)
	}
	if got := run(t, s, sh("echo alive")); got.out != "alive\n" || got.OOMKilled {
		t.Errorf("afterwards: %+v", got)
	}
}

func TestB071ContainerKeepsNoZombies(t *testing.T) {
	t.Parallel()
	s := start(t, nil).open(t)
	count := "ls -d /proc/[0-9]* | wc -l"
	before := strings.TrimSpace(run(t, s, sh(count)).out)
	for range 3 {
		run(t, s, sh("for i in $(seq 500); do (sleep 0.01 &); done; (setsid sh -c 'for i in $(seq 100); do (true &); done' &)"))
	}
	eventually(t, "all processes are gone and reaped", func() bool {
		return strings.TrimSpace(run(t, s, sh(count)).out) == before
	})
}

func TestContainerForkBombDies(t *testing.T) {
	t.Parallel()
	for name, bomb := range map[string]string{
		"shell":  "bomb() { bomb | bomb & }; bomb & echo ready; while :; do :; done",
		"setsid": "printf 'while :; do setsid -f sh /tmp/b; setsid -f sh /tmp/b; done' > /tmp/b; sh /tmp/b & echo ready; wait; sleep 1000",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, []string{"--pids-limit", "200"}).open(t)
			_, took := killed(t, s, bomb, 0)
			if took > 20*time.Second {
				t.Errorf("took %s", took)
			}
			got := run(t, s, sh("ls -d /proc/[0-9]* | wc -l"))
			if n, err := strconv.Atoi(strings.TrimSpace(got.out)); err != nil || n > 8 {
				t.Errorf("processes afterwards: %+v", got)
			}
		})
	}
}

func TestContainerAtItsProcessLimit(t *testing.T) {
	t.Parallel()
	s := start(t, []string{"--pids-limit", "60"}).open(t)
	ctx, cancel := context.WithCancel(t.Context())
	full := make(chan struct{})
	var once sync.Once
	ended := make(chan error, 1)
	go func() {
		_, err := s.Exec(ctx, providers.Command{
			Args:   []string{"bash", "-c", "for i in $(seq 100); do sleep 1000 & done; echo full; wait"},
			Stdout: onWrite(func() { once.Do(func() { close(full) }) }), Stderr: onWrite(func() { once.Do(func() { close(full) }) }),
		})
		ended <- err
	}()
	<-full
	for range 20 {
		if _, err := s.Exec(t.Context(), sh("true")); err != nil && !providers.Is(err, providers.KindExhausted) && !providers.Is(err, providers.KindUnavailable) {
			t.Errorf("got %v", err)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := run(t, s, sh("echo ok")); got.out != "ok\n" {
		t.Errorf("afterwards: %+v", got)
	}
}

func exitCode(t testing.TB, c container) string {
	t.Helper()
	return docker(t, "wait", c.name)
}

func TestContainerEntrypoint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		code string
		logs string
	}{
		"exits":   {[]string{"--", "sh", "-c", "echo hello; exit 5"}, "5", "hello"},
		"missing": {[]string{"--", "no-such-program"}, "127", "harbor-inside: no-such-program: not found"},
		"signal":  {[]string{"--", "sh", "-c", "kill -9 $$"}, "137", ""},
		"user":    {[]string{"--user", "www-data", "--dir", "/tmp", "--", "sh", "-c", "id -un; pwd"}, "0", "www-data\n/tmp"},
		"no user": {[]string{"--user", "ghost", "--", "true"}, "137", `harbor-inside: entrypoint: there is no user "ghost"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := start(t, nil, c.args...)
			if got := exitCode(t, box); got != c.code {
				t.Errorf("exit code %s, want %s", got, c.code)
			}
			if got := docker(t, "logs", box.name); got != c.logs {
				t.Errorf("output %q, want %q", got, c.logs)
			}
		})
	}
}

// TestContainerSessionOnItsOwnStreams: the first session needs no exec; when it
// breaks, one of connect's takes over.
func TestContainerSessionOnItsOwnStreams(t *testing.T) {
	t.Parallel()
	bin := insidetest.Build(t)
	c := container{"hg-inside-test-" + strings.ToLower(rand())}
	t.Cleanup(func() { docker(t, "rm", "-f", c.name) })
	first := func(context.Context) (io.ReadWriteCloser, error) {
		return insidetest.Command(exec.Command("docker", "run", "-i", "--name", c.name, "--network", "none", "-v", bin+":/.hg/harbor-inside:ro",
			"--entrypoint", "/.hg/harbor-inside", image, "init", "--stdio", "--", "sh", "-c", "echo entry; exec sleep 1000"))
	}
	l := &line{dial: first}
	s, err := inside.Open(t.Context(), inside.Options{Dial: l.Dial})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out bytes.Buffer
	var once sync.Once
	st, err := s.Exec(t.Context(), providers.Command{
		Args: []string{"sh", "-c", "for i in $(seq 100); do echo $i; sleep 0.01; done"},
		Stdout: writeFunc(func(p []byte) {
			out.Write(p)
			once.Do(func() {
				l.redirect(c.Dial)
				l.cut(nil)
			})
		}),
	})
	if err != nil || !st.OK() || !strings.HasSuffix(out.String(), "\n100\n") {
		t.Errorf("%v, %v, %q", st, err, out.String())
	}
}

func TestContainerEntrypointServicesLiveOn(t *testing.T) {
	t.Parallel()
	c := start(t, nil, "--user", "www-data", "--", "sh", "-c", `sleep 4321 & exec "$@"`, "sh", "/.hg/harbor-inside", "keepalive")
	s := c.open(t)
	killed(t, s, "setsid sleep 1000 & echo ready; sleep 1000", 0)
	got := run(t, s, sh("grep -l 4321 /proc/[0-9]*/cmdline 2>/dev/null | grep -v self | wc -l"))
	if strings.TrimSpace(got.out) == "0" {
		t.Errorf("the service is dead: %+v", got)
	}
	begin := time.Now()
	docker(t, "stop", "-t", "20", c.name)
	if took := time.Since(begin); took > 10*time.Second || exitCode(t, c) != "143" {
		t.Errorf("took %s to stop, exit code %s", took, exitCode(t, c))
	}
}

func TestContainerWithAnotherInit(t *testing.T) {
	t.Parallel()
	bin := insidetest.Build(t)
	c := container{"hg-inside-test-" + strings.ToLower(rand())}
	t.Cleanup(func() { docker(t, "rm", "-f", c.name) })
	docker(t, "run", "-d", "--name", c.name, "--network", "none", "-v", bin+":/.hg/harbor-inside:ro", image, "sleep", "infinity")
	s := c.open(t)
	if got := run(t, s, sh("echo ok; kill -0 1")); got.out != "ok\n" || !got.OK() {
		t.Errorf("got %+v", got)
	}
	_, err := s.Exec(t.Context(), sh("kill -9 $(grep -l serve /proc/[0-9]*/cmdline | cut -d/ -f3) ; sleep 1000"))
	wantKind(t, err, providers.KindUnavailable, "killed inside")
	if got := run(t, s, sh("echo again")); got.out != "again\n" {
		t.Errorf("afterwards: %+v", got)
	}
}

func TestContainerExposeBringsTheLoopbackUp(t *testing.T) {
	t.Parallel()
	bin := insidetest.Build(t)
	name := "hg-inside-test-" + strings.ToLower(rand())
	t.Cleanup(func() { docker(t, "rm", "-f", name) })
	docker(t, "run", "-d", "--name", name, "--network", "none", "--privileged", "-v", bin+":/.hg/harbor-inside:ro", image, "sleep", "infinity")
	s, err := inside.Open(t.Context(), inside.Options{Dial: func(context.Context) (io.ReadWriteCloser, error) {
		// In a network namespace where nobody has set anything up.
		return insidetest.Command(exec.Command("docker", "exec", "-i", name, "unshare", "-n", "/.hg/harbor-inside", "connect"))
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	addr, _ := expose(t, s, func(c net.Conn) {
		defer c.Close()
		_, _ = io.WriteString(c, "pong")
	})
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	if got := run(t, s, providers.Command{Args: []string{"bash", "-c", "cat </dev/tcp/127.0.0.1/" + port}}); got.out != "pong" {
		t.Errorf("got %v", got)
	}
}

func TestContainerWithoutAnything(t *testing.T) {
	t.Parallel()
	s := start(t, []string{"--read-only", "--cap-drop", "ALL"}).open(t)
	if got := run(t, s, sh("echo ok")); got.out != "ok\n" {
		t.Errorf("got %+v", got)
	}
	wantKind(t, s.Upload(t.Context(), archive(t, file("f", "x")), "/usr/new"), providers.KindDenied)
	var out bytes.Buffer
	r, err := s.Download(t.Context(), "/etc/debian_version")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.Copy(&out, r); err != nil {
		t.Error(err)
	}
}
