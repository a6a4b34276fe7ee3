package fake_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"harborgate/providers"
	"harborgate/providers/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// oneConn is a listener that has one connection.
type oneConn struct {
	conns chan net.Conn
	addr  net.Addr
}

func (l *oneConn) Accept() (net.Conn, error) {
	c, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return l.addr }

// serveHTTP answers on one connection and returns when it is done.
func serveHTTP(h http.Handler) func(net.Conn) {
	return func(c net.Conn) {
		l := &oneConn{conns: make(chan net.Conn, 1), addr: c.LocalAddr()}
		l.conns <- c
		srv := &http.Server{Handler: h, ConnState: func(_ net.Conn, s http.ConnState) { //nolint:gosec // no real network
			if s == http.StateClosed {
				close(l.conns)
			}
		}}
		if err := srv.Serve(l); !errors.Is(err, net.ErrClosed) {
			panic(err)
		}
	}
}

func TestExposedPortSpeaksHTTP(t *testing.T) {
	t.Parallel()
	p := fake.New(fake.Options{})
	s := spec(t)
	s.Network.Mode = providers.NetworkNone
	sb := create(t, p, s)
	url, closer, err := sb.Expose(t.Context(), serveHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/missing" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Key")+" "+string(body)+"\n")
	})))
	if err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]string{
		"hg-fetch " + url + "/a":                            "GET /a  \n",
		"hg-fetch " + url + "/b body":                       "POST /b  body\n",
		"curl -fsS -H 'X-Key: k' -d data " + url + "/c":     "POST /c k data\n",
		"curl -s -o /tmp/out " + url + "/d; cat /tmp/out":   "GET /d  \n",
		"curl -sf " + url + "/missing 2>/dev/null; echo $?": "22\n",
		"curl -s http://192.0.2.1/ 2>/dev/null; echo $?":    "7\n",
		"curl -s http://localhost:1/ 2>/dev/null; echo $?":  "7\n",
		"hg-fetch nonsense 2>/dev/null; echo $?":            "2\n",
	} {
		if out, err := sh(t.Context(), sb, script); err != nil || out != want {
			t.Errorf("%s: printed %q, error %v, want %q", script, out, err, want)
		}
	}
	if err := closer(); err != nil {
		t.Error(err)
	}
}

func TestPublicNetworkReachesWhatTheWorldServes(t *testing.T) {
	t.Parallel()
	w := fake.NewWorld()
	w.Serve("api.example:80", serveHTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "served")
	})))
	for mode, want := range map[providers.NetworkMode]string{
		providers.NetworkPublic: "served", providers.NetworkNone: "no", providers.NetworkAllowList: "no",
	} {
		s := spec(t, string(mode))
		s.Network = providers.Network{Mode: mode}
		if out, err := sh(t.Context(), create(t, fake.New(fake.Options{World: w}), s), "hg-fetch http://api.example/ 2>/dev/null || printf no"); err != nil || out != want {
			t.Errorf("%s: printed %q, error %v, want %q", mode, out, err, want)
		}
	}
}

// TestTaskRunsAsWithAnEngine does what a run does: a solution, tests, a reward.
func TestTaskRunsAsWithAnEngine(t *testing.T) {
	t.Parallel()
	sb := create(t, fake.New(fake.Options{}), spec(t))
	files := map[string]string{
		"solution/solve.sh": "#!/bin/bash\nset -euo pipefail\nmkdir -p /app\nfor i in $(seq 3); do echo \"line $i\"; done > /app/out.txt\n",
		"tests/test.sh": "#!/bin/bash\nmkdir -p /logs/verifier\nif grep -q 'line 3' /app/out.txt && [[ $(wc -l < /app/out.txt) -eq 3 ]]; then\n" +
			"  echo 1 > /logs/verifier/reward.txt\nelse\n  echo 0 > /logs/verifier/reward.txt\nfi\n",
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), sb.Upload(t.Context(), &b, "/")); err != nil {
		t.Fatal(err)
	}
	for _, script := range []string{"/tests/test.sh && cat /logs/verifier/reward.txt", "/solution/solve.sh && /tests/test.sh && cat /logs/verifier/reward.txt"} {
		out, err := sh(t.Context(), sb, script)
		if want := map[bool]string{true: "1\n", false: "grep: /app/out.txt: no such file or directory\n0\n"}[strings.Contains(script, "solve")]; err != nil || out != want {
			t.Errorf("%s: printed %q, error %v, want %q", script, out, err, want)
		}
	}
}

func TestTwoProvidersOfOneWorldSeeTheSame(t *testing.T) {
	t.Parallel()
	w := fake.NewWorld()
	a, b := fake.New(fake.Options{World: w}), fake.New(fake.Options{Name: "pool-2", World: w})
	sb := create(t, a, spec(t))
	list, err := b.List(t.Context(), providers.Selector{NamePrefix: providers.NamePrefix})
	if err != nil || len(list) != 1 || list[0].ID != sb.ID() {
		t.Errorf("list %+v, error %v", list, err)
	}
	if err := b.Destroy(context.Background(), sb.ID()); err != nil || w.Left() != 0 {
		t.Errorf("%d left, error %v", w.Left(), err)
	}
	if fake.New(fake.Options{}).Info().Name != "fake" || b.Info().Name != "pool-2" {
		t.Error("names are lost")
	}
}
