package authproxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"harborgate/authproxy/internal/wire"
	"harborgate/internal/mockllm"
)

// bubble is a proxy and a mock connected by pipes, so that time can be told to
// pass.
func bubble(t *testing.T, mock http.Handler) (p *Proxy, token string) {
	t.Helper()
	p, err := New(Options{
		Log:     slog.New(slog.DiscardHandler),
		Sources: Sources{LookupEnv: func(string) (string, bool) { return canary, true }},
		Load: func() (Config, error) {
			return Config{Upstreams: map[string]Upstream{"a": {Dialect: wire.Anthropic, BaseURL: "http://mock", Local: true, Keys: []KeyRef{"env:K"}}}}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := newConns()
	server := &http.Server{Handler: mock, ReadHeaderTimeout: time.Hour}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	p.table.Load().upstreams["a"].transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		l.hand(theirs)
		return ours, nil
	}
	token, _, err = p.Mint(GrantSpec{Job: "j", Trial: "t", Phase: "agent", Upstreams: []string{"a"}, Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		_ = server.Close()
		<-done
	})
	return p, token
}

// connect opens a connection to the proxy and sends text.
func connect(t *testing.T, p *Proxy, text string) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	go p.Handle("test")(theirs)
	if _, err := io.WriteString(ours, text); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	return ours
}

func request(token, body string, length int) string {
	return "POST /a/v1/messages HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + token + "\r\nContent-Length: " + fmt.Sprint(length) + "\r\n\r\n" + body
}

// A stream that is slow, and one that is silent for long before it begins, is no
// broken one.
func TestB136SlowStreamsLive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mock := mockllm.New()
		p, token := bubble(t, mock)
		mock.Script(mockllm.Step{Text: "x", Words: 40, Pause: 5 * time.Second}, mockllm.Step{Text: "y", Pause: 290 * time.Second})
		for _, least := range []time.Duration{200 * time.Second, 5 * 290 * time.Second} {
			start := time.Now()
			c := connect(t, p, request(token, askStream, len(askStream)))
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || !strings.Contains(string(b), "message_stop") || time.Since(start) < least {
				t.Errorf("after %s: %v %s", time.Since(start), err, b)
			}
		}
	})
}

func TestAttack23SlowClientsAreLetGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, token := bubble(t, mockllm.New())
		for name, c := range map[string]struct {
			text string
			most time.Duration
		}{
			"nothing":           {"P", 10 * time.Second},
			"a part of headers": {"POST /a/v1/messages HTTP/1.1\r\nHost: x\r\nX-Slow: ", 10 * time.Second},
			"a part of a body":  {request(token, "{", 100), 36 * time.Second},
			"no body, no token": {request("none", "", 100), 6 * time.Second},
		} {
			start := time.Now()
			b, _ := io.ReadAll(connect(t, p, c.text))
			if d := time.Since(start); d > c.most+time.Second || strings.Contains(string(b), "200 OK") {
				t.Errorf("%s: %q after %s", name, b, d)
			}
		}
		// Who takes nothing of an answer holds nothing for ever.
		start := time.Now()
		c := connect(t, p, request(token, askStream, len(askStream)))
		for len(p.Status().Streams) == 0 && time.Since(start) < time.Second {
			synctest.Wait()
			time.Sleep(time.Millisecond) //nolint:forbidigo // the bubble's time, which costs none
		}
		if err := p.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d > 2*time.Minute {
			t.Errorf("it was held for %s", d)
		}
		c.Close()
	})
}

// Waiting for a limit of the provider happens inside, and sends nothing.
func TestShortLimitsAreWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mock := mockllm.New()
		p, token := bubble(t, mock)
		mock.Script(mockllm.Step{Status: 429, Header: http.Header{"Retry-After": {"20"}}})
		start := time.Now()
		c := connect(t, p, request(token, ask, len(ask)))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(resp.Body)
		resp.Body.Close()
		if d := time.Since(start); resp.StatusCode != 200 || d < 20*time.Second || d > 21*time.Second || len(mock.Requests()) != 2 {
			t.Errorf("%d after %s, %d requests", resp.StatusCode, d, len(mock.Requests()))
		}
	})
}
