package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"harborgate/authproxy"
	"harborgate/authproxy/client"
	"harborgate/authproxy/usage"
	"harborgate/internal/mockllm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	canary  = "sk-ant-CANARY+service/0123456789"
	canary2 = "sk-ant-CANARY+rotated/9876543210"
	ask     = `{"model":"claude-haiku-4-5","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`
	patient = 10 * time.Second
)

// rig is a service between a client and a mock.
type rig struct {
	*client.Client
	t      *testing.T
	mock   *mockllm.Server
	log    log
	dir    string // of configuration, key and state
	stop   context.CancelFunc
	ended  chan error
	reload chan struct{}

	mu  sync.Mutex
	bad error // of the configuration
}

// log hands out the messages of a structured log, in order.
type log chan map[string]any

func (l log) Write(line []byte) (int, error) {
	m := map[string]any{}
	if err := json.Unmarshal(line, &m); err != nil {
		return 0, err
	}
	l <- m
	return len(line), nil
}

// until waits for a message.
func (r *rig) until(msg string) map[string]any {
	r.t.Helper()
	late := time.After(patient)
	for {
		select {
		case m := <-r.log:
			if m["msg"] == msg {
				return m
			}
		case <-late:
			r.t.Fatalf("%q was not logged", msg)
		}
	}
}

func start(t *testing.T, changes ...func(*Options)) *rig {
	t.Helper()
	r := prepare(t)
	o := r.options(changes...)
	s, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() {
		err := s.Run(ctx)
		r.ended <- errors.Join(err, s.Close())
	}()
	r.until("auth proxy serves")
	r.Client = client.New(o.Socket)
	t.Cleanup(func() {
		stop()
		r.Close()
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

func prepare(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, mock: mockllm.New(), log: make(log, 4096), ended: make(chan error, 1), dir: t.TempDir(), reload: make(chan struct{})}
	r.write("key", canary)
	return r
}

// write replaces a file of the rig's, as editors do.
func (r *rig) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) options(changes ...func(*Options)) Options {
	up := httptest.NewServer(r.mock)
	r.t.Cleanup(up.Close)
	o := Options{
		Load: func() (authproxy.Config, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return authproxy.Config{Upstreams: map[string]authproxy.Upstream{
				"anthropic": {Dialect: "anthropic", BaseURL: up.URL, Local: true, Attempts: 1, Keys: []authproxy.KeyRef{authproxy.KeyRef("file:" + filepath.Join(r.dir, "key"))}},
			}}, r.bad
		},
		Config: filepath.Join(r.dir, "config.yaml"), StateDir: filepath.Join(r.dir, "state"), Listen: []string{"127.0.0.1:0"},
		Socket: filepath.Join(r.dir, "admin.sock"), Drain: patient, Reload: r.reload, Log: slog.New(slog.NewJSONHandler(r.log, nil)),
	}
	for _, c := range changes {
		c(&o)
	}
	return o
}

// mint returns the token of a new grant.
func (r *rig) mint() string {
	r.t.Helper()
	m, err := r.Mint(r.t.Context(), authproxy.GrantSpec{Job: "j", Trial: "t", Phase: "agent", Upstreams: []string{"anthropic"}, Expires: time.Now().Add(time.Hour)})
	if err != nil {
		r.t.Fatal(err)
	}
	return m.Token
}

// ask sends one request and returns the status and all of the answer.
func (r *rig) ask(token string) (int, string) {
	r.t.Helper()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return r.Dial(ctx) }, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, "http://proxy/anthropic/v1/messages", strings.NewReader(ask))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", token)
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

// keys are those that the mock was shown.
func (r *rig) keys() []string {
	var out []string
	for _, q := range r.mock.Requests() {
		out = append(out, q.Header.Get("X-Api-Key"))
	}
	return out
}

func TestKeyFilesAreReloadedWhenTheyChange(t *testing.T) {
	t.Parallel()
	r := start(t)
	token := r.mint()
	if status, text := r.ask(token); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	r.write("unrelated", "x")
	r.write("key", canary2)
	r.until("reloaded")
	if status, text := r.ask(token); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	if keys := r.keys(); keys[0] != canary || keys[1] != canary2 {
		t.Errorf("%v", keys)
	}
	select {
	case m := <-r.log:
		if m["msg"] == "reloaded" {
			t.Error("one change, two reloads")
		}
	case <-time.After(2 * settle):
	}
}

func TestABadFileChangesNothing(t *testing.T) {
	t.Parallel()
	r := start(t)
	token := r.mint()
	r.write("key", "short")
	m := r.until("reload failed, what was in force stays")
	if text, _ := m["error"].(string); !strings.Contains(text, "upstreams.anthropic: key file:") || strings.Contains(text, "short") {
		t.Errorf("%v", m)
	}
	if status, text := r.ask(token); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	r.mu.Lock()
	r.bad = errors.New("config.yaml:3: what is this?")
	r.mu.Unlock()
	r.reload <- struct{}{}
	if m := r.until("reload failed, what was in force stays"); !strings.Contains(m["error"].(string), "config.yaml:3") {
		t.Errorf("%v", m)
	}
	if s, err := r.Status(t.Context()); err != nil || !s.Ready || s.Refused == nil || s.Refused.Error != "config.yaml:3: what is this?" {
		t.Errorf("the status does not say what was refused: %+v %v", s.Refused, err)
	}
	r.mu.Lock()
	r.bad = nil
	r.mu.Unlock()
	r.write("key", canary2)
	r.until("reloaded")
	if s, err := r.Status(t.Context()); err != nil || s.Refused != nil {
		t.Errorf("what was refused is in force: %+v %v", s.Refused, err)
	}
	if status, _ := r.ask(token); status != http.StatusOK || r.keys()[1] != canary2 {
		t.Errorf("%d %v", status, r.keys())
	}
}

func TestOpenRequestsEndBeforeTheService(t *testing.T) {
	t.Parallel()
	r := start(t)
	token, hold := r.mint(), make(chan struct{})
	r.mock.Script(mockllm.Step{Hold: hold})
	answer := make(chan int)
	go func() {
		status, _ := r.ask(token)
		answer <- status
	}()
	r.eventually(func(s authproxy.Status) bool { return len(s.Streams) == 1 })
	r.stop()
	if m := r.until("draining"); m["open"] != 1.0 {
		t.Errorf("%v", m)
	}
	r.eventually(func(s authproxy.Status) bool { return s.Draining && !s.Ready && len(s.Listen) == 0 })
	close(hold)
	if status := <-answer; status != http.StatusOK {
		t.Errorf("%d: a request was cut that had time to end", status)
	}
	r.until("stopped")
}

func TestDrainingHasAnEnd(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *Options) { o.Drain = 50 * time.Millisecond })
	token, hold := r.mint(), make(chan struct{})
	defer close(hold)
	r.mock.Script(mockllm.Step{Hold: hold})
	answer := make(chan int)
	go func() {
		status, _ := r.ask(token)
		answer <- status
	}()
	r.eventually(func(s authproxy.Status) bool { return len(s.Streams) == 1 })
	r.stop()
	if status := <-answer; status == http.StatusOK {
		t.Error("a request that never ends was answered")
	}
	r.until("stopped")
}

func TestADrainThatCutsSaysSoInWords(t *testing.T) {
	t.Parallel()
	r := start(t)
	token, hold := r.mint(), make(chan struct{})
	defer close(hold)
	r.mock.Script(mockllm.Step{Hold: hold})
	answer := make(chan int)
	go func() {
		status, _ := r.ask(token)
		answer <- status
	}()
	r.eventually(func(s authproxy.Status) bool { return len(s.Streams) == 1 })
	if err := r.Drain(t.Context(), time.Millisecond); err == nil || !strings.HasSuffix(err.Error(), ": requests that were still open after 1ms were cut") {
		t.Errorf("%v", err)
	}
	<-answer
}

// eventually asks for the status until it is as wanted.
func (r *rig) eventually(ok func(authproxy.Status) bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patient)
	defer cancel()
	for {
		s, err := r.Status(ctx)
		if err != nil {
			r.t.Fatal(err)
		}
		if ok(s) {
			return
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	r := start(t)
	token := r.mint()
	if status, text := r.ask(token); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	r.ask("hgt_wrong")
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", r.Socket())
	}, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://auth/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`harbor_auth_requests_total{end="complete",model="claude-haiku-4-5",refused="",status="2xx",upstream="anthropic"} 1`,
		`harbor_auth_requests_total{end="refused",model="other",refused="grant",status="4xx",upstream=""} 1`,
		`harbor_auth_tokens_total{class="output",model="claude-haiku-4-5",upstream="anthropic"} 42`,
		`harbor_auth_ready 1`, `harbor_auth_grants 1`, `harbor_auth_streams{upstream="anthropic"} 0`,
		`harbor_auth_keys_resting{refused="true",upstream="anthropic"} 0`, `harbor_auth_first_byte_seconds_count{upstream="anthropic"} 1`,
	} {
		if !strings.Contains(string(b), want+"\n") {
			t.Errorf("no %s in\n%s", want, lines(b, "harbor_auth_"))
		}
	}
	if bytes.Contains(b, []byte("CANARY")) || bytes.Contains(b, []byte("hgt_")) {
		t.Error("a secret is in the metrics")
	}
}

func TestUsageOverTheSocket(t *testing.T) {
	t.Parallel()
	r := start(t)
	token := r.mint()
	for range 2 {
		if status, text := r.ask(token); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
	}
	u, err := r.Usage(t.Context(), usage.ByModel, usage.Filter{Job: "j", Since: time.Now().Add(-time.Hour)})
	if err != nil || u.Total.Requests != 2 || len(u.Rows) != 1 || u.Rows[0].Key != "claude-haiku-4-5" {
		t.Errorf("%+v %v", u, err)
	}
	if u, err := r.Usage(t.Context(), usage.ByModel, usage.Filter{Since: time.Now().Add(time.Hour)}); err != nil || u.Total.Requests != 0 {
		t.Errorf("%+v %v", u, err)
	}
	if _, err := r.Usage(t.Context(), "mood", usage.Filter{}); err == nil || !strings.Contains(err.Error(), "upstream") {
		t.Errorf("%v", err)
	}
}

func TestRecordsOfAGrantThatHasEnded(t *testing.T) {
	t.Parallel()
	r := start(t)
	since := time.Now()
	mine, other := r.mint(), r.mint()
	for _, token := range []string{mine, other, mine} {
		if status, text := r.ask(token); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
	}
	id := strings.Split(mine, "_")[1]
	if _, err := r.Revoke(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := r.Records(t.Context(), id, since, &got); err != nil {
		t.Fatal(err)
	}
	if text := got.String(); strings.Count(text, "\n") != 2 || strings.Count(text, `"grant":"`+id+`"`) != 2 {
		t.Errorf("%s", text)
	}
	got.Reset()
	if err := r.Records(t.Context(), id, since.Add(time.Hour), &got); err != nil || got.Len() != 0 {
		t.Errorf("%v, a log from before is read: %s", err, got.String())
	}
	if err := r.Records(t.Context(), "no such", since, &got); err != nil || got.Len() != 0 {
		t.Errorf("%v %s", err, got.String())
	}
}

func lines(b []byte, prefix string) string {
	var out []string
	for l := range strings.Lines(string(b)) {
		if strings.HasPrefix(l, prefix) {
			out = append(out, l)
		}
	}
	return strings.Join(out, "")
}

func TestLabelsOfModelsAreBounded(t *testing.T) {
	t.Parallel()
	m := newMeters()
	if got := m.model(authproxy.Record{Model: "invented", Status: 404}); got != "other" {
		t.Errorf("a client made the label %q", got)
	}
	for i := range mostModels {
		name := strings.Repeat("m", i+1)
		if got := m.model(authproxy.Record{Model: name, Status: 200}); got != name {
			t.Fatalf("%q", got)
		}
	}
	if got := m.model(authproxy.Record{Model: "one more", Status: 200}); got != "other" {
		t.Errorf("%q", got)
	}
	if got := m.model(authproxy.Record{Model: "asked", Answered: "mm", Status: 200}); got != "mm" {
		t.Errorf("%q", got)
	}
}

func TestWhatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	taken := start(t)
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"state in use": {func(o *Options) { o.StateDir = filepath.Join(taken.dir, "state") }, "in use by another process"},
		"socket":       {func(o *Options) { o.Socket = taken.Socket() }, "set auth.socket"},
		"address": {func(o *Options) {
			s, err := taken.Status(t.Context())
			if err != nil {
				t.Error(err)
			}
			o.Listen = []string{strings.TrimPrefix(s.Listen[0], "tcp:")}
		}, "set auth.listen"},
		"configuration": {func(o *Options) {
			o.Load = func() (authproxy.Config, error) { return authproxy.Config{}, errors.New("line 7") }
		}, "line 7"},
	} {
		t.Run(name, func(t *testing.T) {
			r := prepare(t)
			if _, err := New(t.Context(), r.options(c.change)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
	if status, text := taken.ask(taken.mint()); status != http.StatusOK {
		t.Errorf("%d %s: a start that failed broke the one that runs", status, text)
	}
}

func TestASocketForData(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *Options) {
		o.Listen = []string{"unix:" + filepath.Join(filepath.Dir(o.Socket), "proxy.sock"), "127.0.0.1:0"}
	})
	r.eventually(func(s authproxy.Status) bool { return len(s.Listen) == 2 })
	if status, text := r.ask(r.mint()); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}
	fi, err := os.Stat(filepath.Join(r.dir, "proxy.sock"))
	if err != nil || fi.Mode().Perm()&0o007 != 0 {
		t.Errorf("%v %v", fi, err)
	}
}

// TestTheSupervisorIsTold plays systemd. It changes the environment, so it is alone.
func TestTheSupervisorIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(patient)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "20000")
	r := start(t)
	next := func() string {
		b := make([]byte, 256)
		n, err := conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	until := func(want string) {
		t.Helper()
		for {
			if got := next(); strings.HasPrefix(got, want) {
				return
			}
		}
	}
	if got := next(); got != "READY=1" {
		t.Errorf("%q came first", got)
	}
	until("WATCHDOG=1")
	r.reload <- struct{}{}
	until("RELOADING=1\nMONOTONIC_USEC=")
	until("READY=1")
	r.stop()
	until("STOPPING=1")
}
