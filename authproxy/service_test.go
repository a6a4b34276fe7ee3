package authproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"harborgate/authproxy/internal/wire"
	"harborgate/internal/mockllm"
)

func TestConfigurationIsStrict(t *testing.T) {
	t.Parallel()
	good := `
upstreams:
  anthropic: {dialect: anthropic, keys: [env:A, file:/k, credential:c, "command:pass show k"], models: [claude-*], limits: {requests_per_minute: 50, max_wait: 10s}}
  vllm: {dialect: openai, base_url: "http://127.0.0.1:8000/v1", key_in: none, local: true, prices: {"*": {input: 0, output: 0}}}
  azure: {dialect: openai, base_url: "https://r.openai.azure.com/openai/v1", key_in: api-key, keys: [env:B]}
budgets: {job: 20, trial: 1.50, day: 100}
`
	c, err := Parse([]byte(good))
	if err != nil || c.Budgets.Trial.String() != "1.5" || c.Upstreams["anthropic"].Limits.MaxWait != 10*time.Second {
		t.Errorf("%v %+v", err, c)
	}
	for text, want := range map[string]string{
		"{upstream: {}}": "upstream",
		"{upstreams: {a: {dialect: anthropic, keys: [env:K], key: x}}}":                                 "key",
		"{upstreams: {a: {dialect: vertex}}}":                                                           "Vertex",
		"{upstreams: {a: {dialect: bedrock}}}":                                                          "Bedrock",
		"{upstreams: {a: {dialect: x}}}":                                                                `"x" is none`,
		"{upstreams: {t: {dialect: anthropic, keys: [env:K]}}}":                                         "name",
		"{upstreams: {A/b: {dialect: anthropic, keys: [env:K]}}}":                                       "name",
		"{upstreams: {a: {dialect: anthropic, keys: [sk-ant-1234567890]}}}":                             "reference",
		"{upstreams: {a: {dialect: anthropic, keys: ['file:rel']}}}":                                    "begins with /",
		"{upstreams: {a: {dialect: anthropic, keys: [env:K], base_url: 'http://example.org'}}}":         "plain http",
		"{upstreams: {a: {dialect: anthropic, keys: [env:K], base_url: 'https://127.0.0.1'}}}":          "local: true",
		"{upstreams: {a: {dialect: anthropic, keys: [env:K], base_url: 'https://u:p@example.org'}}}":    "more than",
		"{upstreams: {a: {dialect: anthropic, keys: [env:K], base_url: 'ftp://example.org'}}}":          "scheme",
		"{upstreams: {a: {dialect: anthropic, keys: [env:K], base_url: 'https://example.org/%2e%2e'}}}": "",
		"{upstreams: {a: {dialect: anthropic, keys: [env:K], models: ['a*b']}}}":                        "final *",
		"{upstreams: {a: {dialect: anthropic, keys: [env:K], attempts: -1}}}":                           "upstreams.a: attempts is negative",
		"{upstreams: {a: {dialect: anthropic, keys: [env:K], key_limits: {concurrent: -1}}}}":           "upstreams.a: key_limits.concurrent is negative",
		"{upstreams: {a: {dialect: openai, keys: [env:K], key_in: cookie}}}":                            "there are bearer, x-api-key, api-key, x-goog-api-key, none",
		"{budgets: {day: -1}}":  "",
		"{budgets: {day: ten}}": "ten",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sk-ant") {
			t.Errorf("%s: %v", text, err)
		}
	}
	_, err = Parse([]byte("{upstreams: {a: {dialect: x}, b: {dialect: openai}}}"))
	if err == nil || !strings.Contains(err.Error(), "upstreams.a:") || !strings.Contains(err.Error(), "upstreams.b:") {
		t.Errorf("not all problems at once: %v", err)
	}
}

func TestPricesThatCannotBeMeantAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"m: {input: 3}":                       "upstreams.a: prices of m: give both input and output",
		"m: {output: 3}":                      "give both input and output",
		"m: {}":                               "give both input and output",
		"m: {input: 3, output: null}":         "give both input and output",
		"m: {input: 0.000003, output: 15}":    "prices are US dollars per million tokens",
		"m: {input: 3, output: 0.000015}":     "prices are US dollars per million tokens",
		"m: {input: 3000000, output: 0}":      "prices are US dollars per million tokens",
		"'a*b': {input: 3, output: 15}":       "final *",
		"m: {input: 0, output: 0}":            "",
		"'claude-*': {input: 3, output: 0.1}": "",
	} {
		_, err := Parse([]byte("{upstreams: {a: {dialect: anthropic, keys: [env:K], prices: {" + text + "}}}}"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestKeyPastedBehindEnvIsRefusedAndNotRepeated(t *testing.T) {
	t.Parallel()
	for _, name := range []string{canary, "sk-proj-1234567890", "$NAME", "A B", "1A", strings.Repeat("A", 129)} {
		_, err := Parse([]byte("{upstreams: {a: {dialect: anthropic, keys: ['env:" + name + "']}}}"))
		if err == nil || !strings.Contains(err.Error(), "keys[0]: what follows env:") || strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := (Sources{}).resolve(t.Context(), KeyRef("env:"+name)); err == nil || strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Attack 33 of the threat model.
func TestAttack33PlainHTTPIsRefused(t *testing.T) {
	t.Parallel()
	u := Upstream{Dialect: wire.Anthropic, Keys: []KeyRef{"env:K"}, BaseURL: "http://models.example.org"}
	if err := (Config{Upstreams: map[string]Upstream{"a": u}}).Validate(); err == nil {
		t.Error("the key would cross the network in clear")
	}
}

func TestBaseURLs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dialect          wire.Dialect
		base, path, want string
	}{
		{wire.Anthropic, "", "/v1/messages", "https://api.anthropic.com/v1/messages"},
		{wire.OpenAI, "", "/v1/responses", "https://api.openai.com/v1/responses"},
		{wire.OpenAI, "https://r.openai.azure.com/openai/v1/", "/v1/chat/completions", "https://r.openai.azure.com/openai/v1/chat/completions"},
		{wire.OpenRouter, "", "/v1/messages", "https://openrouter.ai/api/v1/messages"},
		{wire.Gemini, "", "/v1beta/models/g:generateContent", "https://generativelanguage.googleapis.com/v1beta/models/g:generateContent"},
	} {
		conf := Upstream{Dialect: c.dialect, BaseURL: c.base, KeyIn: wire.NoKey}
		u, err := newUpstream(t.Context(), "a", conf, Sources{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := u.target(c.path, "").String(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestKeysFromCommandsAndCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "c"), []byte(canary), 0o440); err != nil {
		t.Fatal(err)
	}
	env := func(name string) (string, bool) {
		v, ok := map[string]string{"PATH": os.Getenv("PATH"), "SECRET": "stays"}[name]
		return v, ok
	}
	s := Sources{LookupEnv: env, CredentialsDir: dir, Timeout: 300 * time.Millisecond}
	for ref, want := range map[KeyRef]string{
		"credential:c":            canary,
		"command:echo " + canary2: canary2,
	} {
		if k, err := s.resolve(t.Context(), ref); err != nil || k.value != want {
			t.Errorf("%s: %v", ref, err)
		}
	}
	for ref, want := range map[KeyRef]string{
		"credential:none": "no such file", "credential:../c": "no path", "command:false": "ended with 1", "command:sleep 60": "did not end",
		"command:/nowhere/prog --token=" + canary: "cannot be started", "command:printenv SECRET": "ended with 1", "env:NONE": "not set",
	} {
		if _, err := s.resolve(t.Context(), ref); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%s: %v", ref.String(), err)
		}
	}
}

func TestReloadIsWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	r := start(t)
	set := func(f func(u *Upstream)) error {
		r.mu.Lock()
		u := r.conf.Upstreams["anthropic"]
		f(&u)
		conf := Config{Upstreams: map[string]Upstream{"anthropic": u}}
		for name, other := range r.conf.Upstreams {
			if name != "anthropic" {
				conf.Upstreams[name] = other
			}
		}
		r.conf = conf
		r.mu.Unlock()
		return r.proxy.Reload(t.Context())
	}
	if err := set(func(u *Upstream) { u.Keys = []KeyRef{"env:NONE"} }); err == nil || !strings.Contains(err.Error(), "upstreams.anthropic: key env:NONE") {
		t.Errorf("%v", err)
	}
	if a := r.post(messages, ask); a.status != 200 {
		t.Errorf("a bad reload changed something: %+v", a)
	}
	b, cancel := r.open(messages, askStream)
	if err := set(func(u *Upstream) { u.Keys, u.Models = []KeyRef{"env:KEY2"}, []string{"other"} }); err != nil {
		t.Fatal(err)
	}
	if rest, err := b.ReadString(0); !strings.Contains(rest, "message_stop") {
		t.Errorf("a stream was cut by a reload: %v", err)
	}
	cancel()
	if a := r.post(messages, ask); a.status != 403 {
		t.Errorf("the new configuration does not hold: %+v", a)
	}
	r.mock.Script(mockllm.Step{Status: 429, Header: http.Header{"Retry-After": {"60"}}})
	if a := r.post(messages, `{"model":"other"}`); a.status != 429 {
		t.Errorf("%+v", a)
	}
	if err := set(func(*Upstream) {}); err != nil {
		t.Fatal(err)
	}
	if h := r.proxy.Status().Upstreams[0].Keys[0]; h.Resting.IsZero() {
		t.Errorf("the health of a key was forgotten: %+v", h)
	}
	r.mu.Lock()
	r.confErr = errors.New("line 3: bad")
	r.mu.Unlock()
	if err := r.proxy.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("%v", err)
	}
}

func TestBudgetsAndGrantsSurviveRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	state := func(_ *Config, o *Options) { o.StateDir = dir }
	var token string
	t.Run("before", func(t *testing.T) {
		r := start(t, state)
		token, _ = r.mint(GrantSpec{Trial: "kept", Trials: Sum{Requests: 2}})
		_, gone := r.mint(GrantSpec{Trial: "kept"})
		r.proxy.Revoke(gone)
		r.token = token
		if a := r.post(messages, ask); a.status != 200 {
			t.Errorf("%+v", a)
		}
		r.record(1)
		b, err := os.ReadFile(filepath.Join(dir, "grants.json"))
		if err != nil || bytes.Contains(b, []byte(token)) || bytes.Contains(b, []byte(token[17:])) || bytes.Contains(b, []byte(gone)) {
			t.Errorf("%v %s", err, b)
		}
	})
	t.Run("after", func(t *testing.T) {
		r := start(t, state)
		r.token = token
		if a := r.post(messages, ask); a.status != 200 {
			t.Errorf("%+v", a)
		}
		r.record(1)
		if a := r.post(messages, ask); a.status != 402 {
			t.Errorf("what was spent before is forgotten: %+v", a)
		}
	})
}

func TestModelsWithoutPrice(t *testing.T) {
	t.Parallel()
	r := start(t)
	if a := r.post(messages, `{"model":"unknown"}`); a.status != 200 {
		t.Errorf("%+v", a)
	}
	if rec := r.record(1); rec.Cost != nil || rec.Usage.Output != 42 {
		t.Errorf("%+v", rec)
	}
	if g, _ := r.proxy.Grant(r.grant); g.Totals.Unpriced != 1 {
		t.Errorf("%+v", g.Totals)
	}
	r.token, _ = r.mint(GrantSpec{Budget: Sum{Money: usd(t, "100")}})
	if a := r.post(messages, `{"model":"unknown"}`); a.status != 403 || !strings.Contains(a.body, "has no price") {
		t.Errorf("%+v", a)
	}
}

func TestProvidersOwnCostComesFirst(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.mock.Script(mockllm.Step{Body: []byte(`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"cost":0.0123}}`), Header: http.Header{"Content-Type": {"application/json"}}})
	r.post("/openrouter/v1/chat/completions", ask)
	if rec := r.record(1); rec.Cost == nil || rec.Cost.String() != "0.0123" {
		t.Errorf("%+v", rec)
	}
}

func TestKeysAreStickyAndHandOver(t *testing.T) {
	t.Parallel()
	r := start(t, with(func(u *Upstream) { u.Keys = []KeyRef{"env:KEY", "env:KEY2"} }))
	used := func() map[string]int {
		out := map[string]int{}
		for _, q := range r.mock.Requests() {
			out[q.Header.Get("X-Api-Key")]++
		}
		return out
	}
	for range 10 {
		r.post(messages, ask)
	}
	if u := used(); len(u) != 1 {
		t.Errorf("a trial changed keys: %d", len(u))
	}
	for i := range 40 {
		r.token, _ = r.mint(GrantSpec{Trial: fmt.Sprint(i)})
		r.post(messages, ask)
	}
	if u := used(); len(u) != 2 || u[canary] < 5 || u[canary2] < 5 {
		t.Errorf("trials do not spread: %d and %d", u[canary], u[canary2])
	}
	r.mock.Script(mockllm.Step{Status: 401})
	if a := r.post(messages, ask); a.status != 200 {
		t.Errorf("with one key refused: %+v", a)
	}
	if rec := r.record(51); rec.Attempts != 2 {
		t.Errorf("%+v", rec)
	}
}

func TestLimitsOfAnUpstreamAreShared(t *testing.T) {
	t.Parallel()
	r := start(t, with(func(u *Upstream) { u.Limits = Limits{Concurrent: 2, MaxWait: 300 * time.Millisecond} }))
	hold := make(chan struct{})
	r.mock.Always(func(mockllm.Request) mockllm.Step { return mockllm.Step{Hold: hold} })
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { r.post(messages, ask) })
	}
	rec := r.record(1) // the one that found no room
	if rec.Refused != wire.Busy || rec.WaitedMS < 290 || rec.Status != 429 {
		t.Errorf("%+v", rec)
	}
	close(hold)
	wg.Wait()
	r.token, _ = r.mint(GrantSpec{Concurrent: 1})
	again := make(chan struct{})
	r.mock.Script(mockllm.Step{Text: "x", HoldEvent: again})
	b, _ := r.open(messages, askStream)
	next(t, b)
	if a := r.post(messages, ask); a.status != 429 {
		t.Errorf("more than the grant allows at once: %+v", a)
	}
	close(again)
}

// Row 15 of the public reports, and attack 28: administration.
func TestAttack28Row15Administration(t *testing.T) {
	t.Parallel()
	r := start(t)
	path := filepath.Join(t.TempDir(), "run", "auth.sock")
	l, err := ListenAdmin(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ListenAdmin(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Error(err)
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode().Perm()&0o007 != 0 {
		t.Errorf("%v %v", fi.Mode(), err)
	}
	server := r.proxy.AdminServer()
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	call := func(method, path, body string, into any) int {
		req, _ := http.NewRequestWithContext(t.Context(), method, "http://admin"+path, strings.NewReader(body))
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		r.noCanary("admin", string(b))
		if strings.Contains(string(b), r.token) {
			t.Errorf("%s shows a token", path)
		}
		if into != nil {
			if err := json.Unmarshal(b, into); err != nil {
				t.Errorf("%s: %v %s", path, err, b)
			}
		}
		return resp.StatusCode
	}
	expires := time.Now().Add(time.Hour).Format(time.RFC3339)
	good := `{"job":"j","trial":"x","phase":"agent","upstreams":["anthropic"],"expires":"` + expires + `","trial_budget":{"usd":0.5,"requests":3}}`
	var m Minted
	if status := call("POST", "/v1/grants", good, &m); status != 201 || m.Token == "" || m.Spec.Trials.Requests != 3 || m.Spec.Trials.Money != usd(t, "0.5") {
		t.Errorf("%d %+v", status, m)
	}
	for _, bad := range []string{
		strings.Replace(good, "trial_budget", "bugdet", 1), strings.Replace(good, `"anthropic"`, `"nobody"`, 1),
		strings.Replace(good, expires, "2020-01-01T00:00:00Z", 1), strings.Replace(good, "0.5", "-1", 1), "{}", "[]",
	} {
		if status := call("POST", "/v1/grants", bad, nil); status != 400 {
			t.Errorf("%d %s", status, bad)
		}
	}
	r.token = m.Token
	if a := r.post(messages, ask); a.status != 200 {
		t.Errorf("%+v", a)
	}
	r.record(1)
	r.token = "none"
	var s Status
	if status := call("GET", "/v1/status", "", &s); status != 200 || !s.Ready || len(s.Upstreams) != 4 || s.Accounts["trial/j/x"].Spent.Requests != 1 {
		t.Errorf("%+v", s)
	}
	var totals Totals
	if status := call("DELETE", "/v1/grants/"+m.ID, "", &totals); status != 200 || totals.Usage.Output != 42 {
		t.Errorf("%d %+v", status, totals)
	}
	if status := call("DELETE", "/v1/grants/"+m.ID, "", &totals); status != 200 || !totals.Gone {
		t.Errorf("%d %+v", status, totals)
	}
	if status := call("DELETE", "/v1/grants/none", "", nil); status != 404 {
		t.Error(status)
	}
	if status := call("POST", "/v1/reload", "", nil); status != 204 {
		t.Error(status)
	}
	var id string
	r.token, id = r.mint(GrantSpec{})
	if status := call("POST", "/v1/drain?timeout=1s", "", nil); status != 204 {
		t.Error(status)
	}
	if a := r.post(messages, ask); a.status != 503 {
		t.Errorf("while drained: %+v", a)
	}
	if g, _ := r.proxy.Grant(id); g.Totals.Last.Refused != wire.NotReady || g.Totals.Refused != 1 { // its owner must learn of it
		t.Errorf("%+v", g.Totals)
	}
	if !strings.Contains(r.log.String(), fmt.Sprintf("pid=%d", os.Getpid())) {
		t.Error("nobody knows who administered")
	}
	tr.CloseIdleConnections()
	_ = server.Close()
	<-done
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("the socket is left")
	}
}

func TestDrainWaitsForStreamsAndThenCutsThem(t *testing.T) {
	t.Parallel()
	r := start(t)
	hold := make(chan struct{})
	r.mock.Script(mockllm.Step{Text: "x", HoldEvent: hold}, mockllm.Step{Text: "x", HoldEvent: make(chan struct{})})
	b, _ := r.open(messages, askStream)
	next(t, b)
	second, _ := r.open(messages, askStream)
	next(t, second)
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- r.proxy.Drain(ctx) }()
	close(hold)
	if rest, err := b.ReadString(0); !strings.Contains(rest, "message_stop") {
		t.Errorf("%v", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if rest, err := second.ReadString(0); errors.Is(err, io.EOF) || strings.Contains(rest, "message_stop") {
		t.Errorf("a cut stream looks complete: %q %v", rest, err)
	}
}

// What is cut by a drain is the requests: their tokens are as good as before.
func TestTimedOutDrainLosesNoToken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keep := func(_ *Config, o *Options) { o.StateDir = dir }
	r := start(t, keep)
	r.mock.Script(mockllm.Step{Text: "x", HoldEvent: make(chan struct{})})
	_, other := r.mint(GrantSpec{Trial: "other"})
	b, _ := r.open(messages, askStream)
	next(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.proxy.Drain(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if rec := r.record(1); rec.End != Stopped {
		t.Errorf("%+v", rec)
	}
	if s := r.proxy.Status(); len(s.Grants) != 2 {
		t.Errorf("%d grants after the drain", len(s.Grants))
	}
	spec := GrantSpec{Job: "j", Trial: "t", Phase: "agent", Upstreams: []string{"anthropic"}, Expires: time.Now().Add(time.Hour)}
	var refused *wire.Refusal
	if _, _, err := r.proxy.Mint(spec); !errors.As(err, &refused) || refused.Reason != wire.NotReady || !strings.Contains(err.Error(), "stopping") {
		t.Errorf("a token of a proxy that stops: %v", err)
	}
	if _, ok := r.proxy.Revoke(other); !ok { // it writes the others
		t.Error("revoked nothing")
	}
	if err := r.proxy.Close(); err != nil {
		t.Fatal(err)
	}
	again := start(t, keep)
	again.token = r.token
	if a := again.post(messages, ask); a.status != 200 {
		t.Errorf("the token after the restart: %+v", a)
	}
	again.record(1)
}

// What a token has used is known after a restart, and after a kill as far as the
// ledger goes.
func TestTotalsOutliveTheProxy(t *testing.T) {
	t.Parallel()
	dir, killed := t.TempDir(), t.TempDir()
	in := func(dir string) change { return func(_ *Config, o *Options) { o.StateDir = dir } }
	r := start(t, in(dir))
	if a := r.post(messages, ask); a.status != 200 {
		t.Fatal(a)
	}
	cost := *r.record(1).Cost
	_, unused := r.mint(GrantSpec{Trial: "unused"})
	before, _ := r.proxy.Grant(r.grant)
	r.post(messages, ask)
	r.record(1)
	for _, name := range []string{"grants.json", ledgerFile} { // what another process finds after a kill
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(killed, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	after, _ := r.proxy.Grant(r.grant)
	if err := r.proxy.Close(); err != nil {
		t.Fatal(err)
	}
	again := start(t, in(dir))
	if g, _ := again.proxy.Grant(r.grant); !reflect.DeepEqual(g.Totals, after.Totals) || g.Totals.Cost != 2*cost {
		t.Errorf("after a restart: %+v, want %+v", g.Totals, after.Totals)
	}
	again = start(t, in(killed))
	g, _ := again.proxy.Grant(r.grant)
	if g.Totals.Cost != 2*cost || g.Totals.Requests != 2 || g.Totals.Usage != before.Totals.Usage || !g.Totals.Partial {
		t.Errorf("after a kill: %+v", g.Totals)
	}
	if g, _ := again.proxy.Grant(unused); g.Totals.Partial || g.Totals.Cost != 0 {
		t.Errorf("nothing was lost of it: %+v", g.Totals)
	}
}

func TestWhatOthersSpentCountsAgainstTheDay(t *testing.T) {
	t.Parallel()
	others := func(day time.Time) change {
		return func(c *Config, _ *Options) {
			c.Budgets.Day = usd(t, "5")
			c.Budgets.Elsewhere = DaySpent{Day: day.UTC().Format(time.DateOnly), Money: usd(t, "5")}
		}
	}
	r := start(t, others(time.Now()))
	if a := r.post(messages, ask); a.status != 402 || !strings.Contains(a.body, "the day's budget of 5 USD is used up") {
		t.Errorf("%+v", a)
	}
	r.record(1)
	r = start(t, others(time.Now().Add(-24*time.Hour)))
	if a := r.post(messages, ask); a.status != 200 {
		t.Errorf("the day before counts: %+v", a)
	}
	r.record(1)
}

func TestAuditLogIsSetAside(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit", "audit.jsonl")
	l, err := OpenAuditLog(path, 2000, 2)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			if err := l.Record(Record{ID: "hgr_1", Status: 200}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(path + "*")
	if len(files) != 3 {
		t.Errorf("%v", files)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil || len(b) > 2000 {
			t.Errorf("%s: %d bytes, %v", f, len(b), err)
		}
		for line := range bytes.Lines(b) {
			var r Record
			if err := json.Unmarshal(line, &r); err != nil || r.ID != "hgr_1" {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

func TestTotalsOfARevokedGrantHoldWhatWasCut(t *testing.T) {
	t.Parallel()
	r := start(t)
	hold := make(chan struct{})
	defer close(hold)
	r.mock.Script(mockllm.Step{Text: "word", HoldEvent: hold})
	b, cancel := r.open(formats(true)[0].path, formats(true)[0].body)
	defer cancel()
	next(t, b)
	totals, ok := r.proxy.Revoke(r.grant)
	if !ok || totals.Requests != 1 || totals.Guessed != 1 || totals.Last.End != Revoked || totals.Models["m"].Requests != 1 {
		t.Errorf("%+v", totals)
	}
	again, ok := r.proxy.Revoke(r.grant)
	if !ok || !again.Gone || totals.Gone || again.Requests != 1 || again.Cost != totals.Cost {
		t.Errorf("who comes second learns %+v", again)
	}
}

// An upstream that fails for ever is not asked three times for each of thirty repeats.
func TestUpstreamThatFailsIsAskedOnceForEachRepeat(t *testing.T) {
	t.Parallel()
	r := start(t)
	f := formats(false)[0]
	ask := func(want, tries int) {
		t.Helper()
		was := len(r.mock.Requests())
		if resp := r.post(f.path, f.body); resp.status != want || len(r.mock.Requests())-was != tries {
			t.Errorf("status %d after %d tries, want %d after %d", resp.status, len(r.mock.Requests())-was, want, tries)
		}
	}
	fails := mockllm.Step{Status: 500}
	r.mock.Script(fails, fails, fails, fails, mockllm.Step{}, fails, mockllm.Step{})
	ask(500, 3)
	ask(500, 1)
	ask(200, 1)
	ask(200, 2)
}

func TestHolderKnowsKeysByTheirValue(t *testing.T) {
	t.Parallel()
	r := start(t)
	if got := r.proxy.Holder(canary); got != "anthropic" {
		t.Errorf("got %q", got)
	}
	if got := r.proxy.Holder("x") + r.proxy.Holder(""); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestSpentOnReadsAnotherProcessesLedger(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if spent, err := SpentOn(dir, time.Now()); err != nil || spent != 0 {
		t.Errorf("%v %v", spent, err)
	}
	r := start(t, func(_ *Config, o *Options) { o.StateDir = dir })
	if a := r.post(messages, ask); a.status != 200 {
		t.Fatal(a)
	}
	rec := r.record(1)
	spent, err := SpentOn(dir, rec.Time)
	if err != nil || spent == 0 || spent != *rec.Cost {
		t.Errorf("%v %v, the record says %v", spent, err, rec.Cost)
	}
}
