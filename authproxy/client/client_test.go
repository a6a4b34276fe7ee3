package client_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"harborgate/authproxy"
	"harborgate/authproxy/client"
	"harborgate/internal/mockllm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "sk-ant-CANARY+client/0123456789abcdef"

// serve runs a proxy before a mock, with an admin socket and data listeners.
func serve(t *testing.T, data ...net.Listener) (*client.Client, *mockllm.Server) {
	t.Helper()
	mock := mockllm.New()
	up := httptest.NewServer(mock)
	t.Cleanup(up.Close)
	p, err := authproxy.New(authproxy.Options{
		Log: slog.New(slog.DiscardHandler),
		Load: func() (authproxy.Config, error) {
			return authproxy.Config{Upstreams: map[string]authproxy.Upstream{
				"anthropic": {Dialect: "anthropic", BaseURL: up.URL, Local: true, Keys: []authproxy.KeyRef{"env:K"}},
			}}, nil
		},
		Sources: authproxy.Sources{LookupEnv: func(string) (string, bool) { return canary, true }},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "admin.sock")
	l, err := authproxy.ListenAdmin(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	admin := p.AdminServer()
	done := make(chan error, 1+len(data))
	go func() { done <- admin.Serve(l) }()
	for _, d := range data {
		go func() { done <- p.Serve(d) }()
	}
	c := client.New(socket)
	for len(data) > 0 && t.Context().Err() == nil { // it takes requests when it is asked where
		if conn, err := c.Dial(t.Context()); err == nil {
			_ = conn.Close()
			break
		}
	}
	t.Cleanup(func() {
		c.Close()
		_ = admin.Close()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		for range cap(done) {
			<-done
		}
	})
	return c, mock
}

func spec() authproxy.GrantSpec {
	return authproxy.GrantSpec{Job: "j", Trial: "t", Phase: "agent", Upstreams: []string{"anthropic"}, Expires: time.Now().Add(time.Hour)}
}

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ask sends one request over a connection of the client's and returns its status.
func ask(t *testing.T, c *client.Client, token string) int {
	t.Helper()
	return over(t, c.Dial, token)
}

func TestGrantsFromMintToRevoke(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, listen(t, "tcp", "127.0.0.1:0"))
	m, err := c.Mint(t.Context(), spec())
	if err != nil {
		t.Fatal(err)
	}
	if status := ask(t, c, m.Token); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	if g, err := c.Grant(t.Context(), m.ID); err != nil || g.Spec.Trial != "t" {
		t.Errorf("%+v %v", g, err)
	}
	totals, err := c.Revoke(t.Context(), m.ID)
	if err != nil || totals.Requests != 1 {
		t.Errorf("%+v %v", totals, err)
	}
	if status := ask(t, c, m.Token); status != http.StatusUnauthorized {
		t.Errorf("a revoked token was answered with %d", status)
	}
	var refused *client.RefusedError
	if totals, err = c.Revoke(t.Context(), m.ID); err != nil || !totals.Gone {
		t.Errorf("%+v %v", totals, err)
	}
	if _, err := c.Revoke(t.Context(), "none"); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		t.Errorf("%v", err)
	}
}

func TestStatusSaysWhereRequestsGo(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data.sock")
	unix, err := authproxy.ListenAdmin(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	tcp := listen(t, "tcp", "127.0.0.1:0")
	c, _ := serve(t, tcp, unix)
	conn, err := c.Dial(t.Context()) // both serve by the time of its answer, or none does
	for err != nil && t.Context().Err() == nil {
		conn, err = c.Dial(t.Context())
	}
	_ = conn.Close()
	s, err := c.Status(t.Context())
	if err != nil || !s.Ready || len(s.Upstreams) != 1 {
		t.Fatalf("%+v %v", s, err)
	}
	m, err := c.Mint(t.Context(), spec())
	if err != nil {
		t.Fatal(err)
	}
	if status := ask(t, c, m.Token); status != http.StatusOK {
		t.Errorf("%d", status)
	}
	for _, l := range s.Listen {
		if l != "unix:"+path && l != "tcp:"+tcp.Addr().String() {
			t.Errorf("nobody listens at %s", l)
		}
	}
}

func TestReloadAndDrain(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, listen(t, "tcp", "127.0.0.1:0"))
	if err := c.Reload(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.Drain(t.Context(), time.Second); err != nil {
		t.Error(err)
	}
	s, err := c.Status(t.Context())
	if err != nil || s.Ready || !s.Draining {
		t.Errorf("%+v %v", s, err)
	}
}

func TestErrorsNameSocketReasonAndNextStep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	none := filepath.Join(dir, "none.sock")
	if _, err := client.New(none).Status(t.Context()); !errors.Is(err, client.ErrNotRunning) || !mentions(err, none, "harbor auth serve", "auth.socket") {
		t.Errorf("%v", err)
	}
	stale := filepath.Join(dir, "stale.sock")
	l := listen(t, "unix", stale).(*net.UnixListener)
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	if _, err := client.New(stale).Mint(t.Context(), spec()); !errors.Is(err, client.ErrNotRunning) {
		t.Errorf("%v", err)
	}
	c, _ := serve(t)
	if _, err := c.Dial(t.Context()); err == nil || !mentions(err, c.Socket(), "auth.listen") {
		t.Errorf("%v", err)
	}
	bad := spec()
	bad.Upstreams = []string{"nowhere"}
	if _, err := c.Mint(t.Context(), bad); err == nil || !mentions(err, c.Socket(), `no upstream "nowhere"`, "configuration") {
		t.Errorf("%v", err)
	}
	if _, err := c.Grant(t.Context(), "../status"); err == nil {
		t.Error("an id led elsewhere")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if err := c.Reload(ctx); err == nil || !mentions(err, c.Socket(), "enough") {
		t.Errorf("%v", err)
	}
}

func TestStrangersAreNotTakenForAProxy(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/reload" {
			http.Error(w, "what?", http.StatusTeapot)
			return
		}
		_, _ = w.Write([]byte("<html>"))
	}))
	_ = web.Listener.Close()
	web.Listener = listen(t, "unix", socket)
	web.Start()
	t.Cleanup(web.Close)
	c := client.New(socket)
	t.Cleanup(c.Close)
	if _, err := c.Status(t.Context()); err == nil || !mentions(err, socket, "same version") {
		t.Errorf("%v", err)
	}
	if err := c.Reload(t.Context()); err == nil || !mentions(err, socket, "418") {
		t.Errorf("%v", err)
	}
}

func mentions(err error, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			return false
		}
	}
	return true
}
