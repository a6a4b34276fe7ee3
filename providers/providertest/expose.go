package providertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"harborgate/providers"
)

func exposeCases() []Case {
	return []Case{
		{"expose/request-and-answer", nil, inSandbox(exposeRequest)},
		{"expose/without-network", []Need{NeedNoNetwork}, exposeNoNetwork},
		{"expose/many-at-once", nil, inSandbox(exposeMany)},
		{"expose/large-bodies", nil, inSandbox(exposeLarge)},
		{"expose/half-close", nil, inSandbox(exposeHalfClose)},
		{"expose/two-ports", nil, inSandbox(exposeTwo)},
		{"expose/close-ends-all", nil, inSandbox(exposeClose)},
		{"expose/destroy-ends-all", nil, inSandbox(exposeDestroy)},
		{"expose/deadlines", nil, inSandbox(exposeDeadlines)},
	}
}

// expose opens a port and returns its number.
func (e *Env) expose(ctx context.Context, sb providers.Sandbox, handle func(net.Conn)) (port string, closer func() error) {
	url, closer, err := sb.Expose(ctx, handle)
	if err != nil {
		e.Fatalf("expose: %v", err)
	}
	port, ok := strings.CutPrefix(url, "http://127.0.0.1:")
	if !ok {
		e.Fatalf("expose returned %q, want http://127.0.0.1:PORT", url)
	}
	return port, closer
}

// bash runs a script with bash, for /dev/tcp.
func (e *Env) bash(ctx context.Context, sb providers.Sandbox, script string) Output {
	return e.Exec(ctx, sb, providers.Command{Args: []string{"bash", "-c", script}})
}

// connect is a script that connects as descriptor 3 and goes on.
func connect(port, then string) string {
	return fmt.Sprintf("exec 3<>/dev/tcp/127.0.0.1/%s || exit 7; %s", port, then)
}

// answerLine answers each line with itself.
func answerLine(c net.Conn) {
	defer func() { _ = c.Close() }()
	line, err := bufio.NewReader(c).ReadString('\n')
	if err == nil {
		_, _ = io.WriteString(c, "you said "+line)
	}
}

func (e *Env) wantAnswer(ctx context.Context, sb providers.Sandbox, port, word string) {
	out := e.bash(ctx, sb, connect(port, "echo "+word+" >&3; cat <&3"))
	if want := "you said " + word + "\n"; out.Err != nil || out.Stdout != want {
		e.Errorf("want %q, got %v", want, out)
	}
}

func exposeRequest(ctx context.Context, e *Env, sb providers.Sandbox) {
	port, _ := e.expose(ctx, sb, answerLine)
	for i := range 3 {
		e.wantAnswer(ctx, sb, port, fmt.Sprintf("hello-%d", i))
	}
}

func exposeNoNetwork(ctx context.Context, e *Env) {
	sb := e.Create(ctx, func(s *providers.Spec) { s.Network = providers.Network{Mode: providers.NetworkNone} })
	port, _ := e.expose(ctx, sb, answerLine)
	e.wantAnswer(ctx, sb, port, "hello")
}

// exposeMany has connections that are open at the same time: the handlers answer
// when all have arrived.
func exposeMany(ctx context.Context, e *Env, sb providers.Sandbox) {
	const n = 16
	var arrived atomic.Int32
	all := make(chan struct{})
	patient, cancel := context.WithTimeout(ctx, e.Prompt())
	defer cancel()
	port, _ := e.expose(ctx, sb, func(c net.Conn) {
		if arrived.Add(1) == n {
			close(all)
		}
		select {
		case <-all:
			answerLine(c)
		case <-patient.Done():
			_ = c.Close()
		}
	})
	script := fmt.Sprintf("for i in $(seq %d); do (%s) & done; wait", n, connect(port, "echo $i >&3; cat <&3"))
	out := e.bash(ctx, sb, script)
	if got := strings.Count(out.Stdout, "you said "); out.Err != nil || got != n {
		e.Errorf("want %d answers, got %d: %v", n, got, out)
	}
}

func exposeLarge(ctx context.Context, e *Env, sb providers.Sandbox) {
	size := 8 << 20
	if e.Harness.Slow {
		size = 1 << 20
	}
	received := make(chan int64, 1)
	port, _ := e.expose(ctx, sb, func(c net.Conn) {
		defer func() { _ = c.Close() }()
		n, _ := io.Copy(io.Discard, io.LimitReader(c, int64(size)))
		received <- n
		_, _ = io.CopyN(c, zeros{}, int64(size))
	})
	out := e.bash(ctx, sb, connect(port, fmt.Sprintf("head -c %d /dev/zero >&3; wc -c <&3", size)))
	if out.Err != nil || strings.TrimSpace(out.Stdout) != fmt.Sprint(size) {
		e.Errorf("want %d bytes back, got %v", size, out)
		return
	}
	if n := <-received; n != int64(size) {
		e.Errorf("the host received %d bytes, want %d", n, size)
	}
}

// zeros is an endless stream.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// exposeHalfClose ends the direction to the sandbox first and still listens.
func exposeHalfClose(ctx context.Context, e *Env, sb providers.Sandbox) {
	heard := make(chan string, 1)
	port, _ := e.expose(ctx, sb, func(c net.Conn) {
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, "over")
		half, ok := c.(interface{ CloseWrite() error })
		if !ok {
			heard <- "the connection has no CloseWrite"
			return
		}
		_ = half.CloseWrite()
		line, _ := bufio.NewReader(c).ReadString('\n')
		heard <- line
	})
	out := e.bash(ctx, sb, connect(port, "cat <&3; echo later >&3"))
	if out.Err != nil || out.Stdout != "over" {
		e.Errorf("want the end of the input after %q, got %v", "over", out)
		return
	}
	e.wantReceived(heard, "later\n")
}

func (e *Env) wantReceived(from <-chan string, want string) {
	select {
	case got := <-from:
		if got != want {
			e.Errorf("the host heard %q, want %q", got, want)
		}
	case <-time.After(e.Prompt()):
		e.Errorf("the host heard nothing, want %q", want)
	}
}

func exposeTwo(ctx context.Context, e *Env, sb providers.Sandbox) {
	say := func(word string) func(net.Conn) {
		return func(c net.Conn) {
			_, _ = io.WriteString(c, word)
			_ = c.Close()
		}
	}
	first, closeFirst := e.expose(ctx, sb, say("first"))
	second, _ := e.expose(ctx, sb, say("second"))
	if first == second {
		e.Fatalf("both have port %s", first)
	}
	for port, want := range map[string]string{first: "first", second: "second"} {
		if out := e.bash(ctx, sb, connect(port, "cat <&3")); out.Stdout != want {
			e.Errorf("port %s: want %q, got %v", port, want, out)
		}
	}
	if err := closeFirst(); err != nil {
		e.Errorf("close: %v", err)
	}
	if out := e.bash(ctx, sb, connect(second, "cat <&3")); out.Stdout != "second" {
		e.Errorf("closing one port broke the other: %v", out)
	}
}

// hold is a handler that notes when its connection ends.
func hold(arrived chan<- struct{}, ended chan<- error) func(net.Conn) {
	return func(c net.Conn) {
		arrived <- struct{}{}
		_, err := c.Read(make([]byte, 1))
		_ = c.Close()
		ended <- err
	}
}

func (e *Env) awaitArrival(arrived <-chan struct{}) {
	select {
	case <-arrived:
	case <-time.After(e.Prompt()):
		e.Fatalf("no connection reaches the host")
	}
}

func (e *Env) awaitEnd(what string, ended <-chan error) {
	select {
	case err := <-ended:
		if err == nil {
			e.Errorf("%s: the host's end of the connection read something", what)
		}
	case <-time.After(e.Prompt()):
		e.Errorf("%s: the connection lives on", what)
	}
}

func exposeClose(ctx context.Context, e *Env, sb providers.Sandbox) {
	arrived, ended := make(chan struct{}, 1), make(chan error, 1)
	port, closer := e.expose(ctx, sb, hold(arrived, ended))
	r := e.start(ctx, sb, providers.Command{}, "exec bash -c '"+connect(port, "echo ready; cat <&3; echo ended")+"'")
	e.awaitArrival(arrived)
	if err := closer(); err != nil {
		e.Errorf("close: %v", err)
	}
	e.awaitEnd("after close", ended)
	if out := r.wait("the command inside"); !strings.Contains(out.Stdout, "ended") {
		e.Errorf("the connection inside did not end: %v", out)
	}
	if out := e.bash(ctx, sb, connect(port, "echo connected")); out.Status.OK() {
		e.Errorf("the port still accepts after close: %v", out)
	}
	if err := closer(); err != nil {
		e.Errorf("close again: %v", err)
	}
}

func exposeDestroy(ctx context.Context, e *Env, sb providers.Sandbox) {
	arrived, ended := make(chan struct{}, 1), make(chan error, 1)
	port, closer := e.expose(ctx, sb, hold(arrived, ended))
	r := e.start(ctx, sb, providers.Command{}, "exec bash -c '"+connect(port, "echo ready; cat <&3")+"'")
	e.awaitArrival(arrived)
	if err := sb.Destroy(ctx); err != nil {
		e.Errorf("destroy: %v", err)
	}
	e.awaitEnd("after destroy", ended)
	r.wait("the command inside")
	if err := closer(); err != nil && !providers.Is(err, providers.KindNotFound) && !providers.Is(err, providers.KindUnavailable) {
		e.Errorf("close after destroy: %v", err)
	}
}

func exposeDeadlines(ctx context.Context, e *Env, sb providers.Sandbox) {
	result := make(chan error, 1)
	port, _ := e.expose(ctx, sb, func(c net.Conn) {
		defer func() { _ = c.Close() }()
		if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			result <- err
			return
		}
		_, err := c.Read(make([]byte, 1))
		result <- err
	})
	e.bash(ctx, sb, connect(port, "cat <&3"))
	select {
	case err := <-result:
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			e.Errorf("a read past its deadline returned %v", err)
		}
	case <-time.After(e.Prompt()):
		e.Errorf("a read past its deadline does not return")
	}
}

func networkCases() []Case {
	return []Case{
		{"network/none-reaches-nothing", []Need{NeedNoNetwork}, networkNone},
		{"network/none-resolves-nothing", []Need{NeedNoNetwork}, networkNoNames},
	}
}

func withoutNetwork(s *providers.Spec) { s.Network = providers.Network{Mode: providers.NetworkNone} }

// networkNone tries the ways out one by one, all at once.
func networkNone(ctx context.Context, e *Env) {
	sb := e.Create(ctx, withoutNetwork)
	addrs := append([]string{
		"1.1.1.1:80", "8.8.8.8:53", "169.254.169.254:80", "[2606:4700:4700::1111]:80", "[fe80::1]:80",
	}, e.Harness.HostAddrs...)
	var wg sync.WaitGroup
	for _, addr := range addrs {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			e.Fatalf("HostAddrs: %v", err)
		}
		wg.Go(func() {
			out := e.bash(ctx, sb, fmt.Sprintf("timeout 3 bash -c 'exec 3<>/dev/tcp/%s/%s && echo connected'", host, port))
			if out.Err != nil || out.Status.OK() {
				e.Errorf("a sandbox without network reaches %s: %v", addr, out)
			}
		})
	}
	wg.Wait()
}

func networkNoNames(ctx context.Context, e *Env) {
	sb := e.Create(ctx, withoutNetwork)
	out := e.bash(ctx, sb, "timeout 5 getent hosts example.com")
	if out.Err != nil || out.Status.OK() || out.Stdout != "" {
		e.Errorf("a sandbox without network resolves names: %v", out)
	}
}
