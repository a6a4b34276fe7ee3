package authproxy

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"harborgate/authproxy/internal/wire"
	"harborgate/internal/mockllm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The keys that must never be seen anywhere but at the mock.
const (
	canary  = "sk-ant-CANARY+one/0123456789abcdef"
	canary2 = "sk-ant-CANARY+two/fedcba9876543210"
)

// rig is a proxy between a client and a mock.
type rig struct {
	t      *testing.T
	mock   *mockllm.Server
	up     *httptest.Server
	proxy  *Proxy
	addr   string // of the data listener
	client *http.Client
	token  string
	grant  string

	mu      sync.Mutex
	conf    Config
	confErr error
	records []Record
	arrived chan struct{} // gets one for each record
	log     lockedBuffer
	dials   int
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Record is the audit of the rig.
func (r *rig) Record(rec Record) error {
	r.mu.Lock()
	r.records = append(r.records, rec)
	r.mu.Unlock()
	r.arrived <- struct{}{}
	return nil
}

type change func(*Config, *Options)

func with(f func(u *Upstream)) change {
	return func(c *Config, _ *Options) {
		for name, u := range c.Upstreams {
			f(&u)
			c.Upstreams[name] = u
		}
	}
}

// once lets nothing be tried again.
func once(c *Config, o *Options) { with(func(u *Upstream) { u.Attempts = 1 })(c, o) }

func start(t *testing.T, changes ...change) *rig {
	t.Helper()
	r := &rig{t: t, mock: mockllm.New(), arrived: make(chan struct{}, 100_000)}
	r.up = httptest.NewUnstartedServer(r.mock)
	r.up.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			r.mu.Lock()
			r.dials++
			r.mu.Unlock()
		}
	}
	r.up.Start()
	r.conf = Config{Upstreams: map[string]Upstream{}}
	for name, dialect := range map[string]wire.Dialect{"anthropic": wire.Anthropic, "openai": wire.OpenAI, "gemini": wire.Gemini, "openrouter": wire.OpenRouter} {
		base := r.up.URL
		if dialect == wire.OpenAI || dialect == wire.OpenRouter {
			base += "/v1"
		}
		r.conf.Upstreams[name] = Upstream{
			Dialect: dialect, BaseURL: base, Keys: []KeyRef{"env:KEY"}, Local: true,
			Prices: map[string]Price{"m": price("1", "10")},
		}
	}
	opts := Options{
		Sources: Sources{LookupEnv: func(name string) (string, bool) {
			v, ok := map[string]string{"KEY": canary, "KEY2": canary2}[name]
			return v, ok
		}},
		Log:   slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Audit: r,
		Load: func() (Config, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.conf, r.confErr
		},
	}
	for _, c := range changes {
		c(&r.conf, &opts)
	}
	p, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	r.proxy = p
	if err := p.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- p.Serve(l) }()
	transport := &http.Transport{DisableCompression: true}
	r.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		r.up.CloseClientConnections()
		r.up.Close()
		r.noCanary("log", r.log.String())
		records, _ := json.Marshal(r.records)
		r.noCanary("records", string(records))
	})
	r.token, r.grant = r.mint(GrantSpec{})
	return r
}

// price is one of a million tokens in and out.
func price(in, out string) Price {
	var p Price
	_ = p.Input.UnmarshalText([]byte(in))
	_ = p.Output.UnmarshalText([]byte(out))
	return p
}

func usd(t *testing.T, text string) NanoUSD {
	t.Helper()
	var n NanoUSD
	if err := n.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return n
}

// mint makes a grant; what spec leaves out is filled in.
func (r *rig) mint(spec GrantSpec) (token, id string) {
	r.t.Helper()
	if spec.Job == "" {
		spec.Job = "j"
	}
	if spec.Trial == "" {
		spec.Trial = "t"
	}
	if spec.Phase == "" {
		spec.Phase = "agent"
	}
	if spec.Upstreams == nil {
		spec.Upstreams = []string{"anthropic", "openai", "gemini", "openrouter"}
	}
	if spec.Expires.IsZero() {
		spec.Expires = time.Now().Add(time.Hour)
	}
	token, id, err := r.proxy.Mint(spec)
	if err != nil {
		r.t.Fatal(err)
	}
	return token, id
}

// noCanary fails when text holds a key in any form.
func (r *rig) noCanary(where, text string) {
	r.t.Helper()
	for _, key := range []string{canary, canary2} {
		for _, form := range []string{key, url.QueryEscape(key), base64.StdEncoding.EncodeToString([]byte(key)), key[7:20]} {
			if strings.Contains(text, form) {
				r.t.Errorf("%s holds the key as %q", where, form)
			}
		}
	}
}

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body to its end
}

// do sends a request with the rig's token, unless header says otherwise.
func (r *rig) do(ctx context.Context, method, path, body string, header http.Header) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.addr+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	} else {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	a := answer{resp.StatusCode, resp.Header, string(b), err}
	r.noCanary("answer", fmt.Sprint(a))
	return a
}

func (r *rig) post(path, body string) answer {
	r.t.Helper()
	return r.do(r.t.Context(), http.MethodPost, path, body, nil)
}

// record waits for the next n records and returns the last one.
func (r *rig) record(n int) Record {
	r.t.Helper()
	for range n {
		<-r.arrived
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.records[len(r.records)-1]
}

func (r *rig) dialled() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dials
}

// raw sends bytes over a new connection and returns all that comes back.
func (r *rig) raw(text string) string { return r.talk(text, false) }

// talk is raw for a client that stops sending behind its text, or does not.
func (r *rig) talk(text string, half bool) string {
	r.t.Helper()
	var d net.Dialer
	c, err := d.DialContext(r.t.Context(), "tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		r.t.Fatal(err)
	}
	if half {
		_ = c.(*net.TCPConn).CloseWrite()
	}
	_ = c.SetReadDeadline(time.Now().Add(3 * time.Second)) // for what the other side leaves open
	b, _ := io.ReadAll(c)
	r.noCanary("raw answer", string(b))
	return string(b)
}

// The four formats: path and body of a request that streams, or not.
type format struct{ name, path, body string }

func formats(stream bool) []format {
	s := fmt.Sprint(stream)
	method := map[bool]string{true: "streamGenerateContent?alt=sse", false: "generateContent"}[stream]
	return []format{
		{"messages", "/anthropic/v1/messages?beta=true", `{"model":"m","max_tokens":100,"stream":` + s + `,"messages":[]}`},
		{"chat", "/openai/v1/chat/completions", `{"model":"m","max_tokens":100,"stream":` + s + `,"stream_options":{"include_usage":true},"messages":[]}`},
		{"responses", "/openai/v1/responses", `{"model":"m","max_output_tokens":100,"stream":` + s + `,"input":[]}`},
		{"gemini", "/gemini/v1beta/models/m:" + method, `{"contents":[],"generationConfig":{"maxOutputTokens":100}}`},
	}
}

const ask = `{"model":"m","max_tokens":100,"messages":[]}`
const askStream = `{"model":"m","max_tokens":100,"stream":true,"messages":[]}`
const messages = "/anthropic/v1/messages"

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}
