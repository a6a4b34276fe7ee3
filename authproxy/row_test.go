package authproxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"harborgate/authproxy/internal/wire"
	"harborgate/internal/mockllm"
)

// Public bug reports on proxies like this one, by their numbers in
// docs/auth-proxy.md. Those on single facts of the wire are tested beside them.

func TestRow02ExplicitZeroCostsNothing(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.mock.Script(mockllm.Step{Usage: &mockllm.Usage{}})
	r.post("/openai/v1/chat/completions", ask)
	if rec := r.record(1); rec.Cost == nil || *rec.Cost != 0 || rec.Guessed {
		t.Errorf("%+v", rec)
	}
}

func TestRow03ClientThatLeavesEarlyIsBilled(t *testing.T) {
	t.Parallel()
	r := start(t)
	asked := make(chan struct{})
	r.mock.Always(func(mockllm.Request) mockllm.Step {
		close(asked)
		return mockllm.Step{Hold: make(chan struct{})}
	})
	ctx, cancel := contextOf(t)
	go func() {
		<-asked
		cancel()
	}()
	r.do(ctx, "POST", messages, ask, nil)
	rec := r.record(1)
	if rec.End != ClientGone || !rec.Guessed || rec.Usage.Output != 100 {
		t.Errorf("%+v", rec)
	}
	<-r.mock.Gone()
}

func TestRow05PriceOfOneTokenIsRefused(t *testing.T) {
	t.Parallel()
	_, err := Parse([]byte("upstreams: {a: {dialect: anthropic, keys: [env:K], prices: {m: {input: 5000000, output: 0}}}}"))
	if err == nil || !strings.Contains(err.Error(), "per million tokens") {
		t.Error(err)
	}
}

func TestRow06RetryAfterKeepsItsName(t *testing.T) {
	t.Parallel()
	r := start(t, with(func(u *Upstream) { u.Limits.MaxWait = time.Second }))
	r.mock.Script(mockllm.Step{Status: 429, Header: http.Header{"Retry-After": {"7"}, "X-Ratelimit-Remaining-Tokens": {"0"}}})
	a := r.post(messages, ask)
	if a.status != 429 || a.header.Get("Retry-After") != "7" || a.header.Get(wire.Marker) != "" || !strings.Contains(a.body, "mock_error") {
		t.Errorf("%+v", a)
	}
}

func TestRow07AllKeysRestingSaysUntilWhen(t *testing.T) {
	t.Parallel()
	r := start(t, with(func(u *Upstream) {
		u.Keys = []KeyRef{"env:KEY", "env:KEY2"}
		u.Limits.MaxWait = time.Second
	}))
	limited := mockllm.Step{Status: 429, Header: http.Header{"Retry-After": {"30"}}}
	r.mock.Script(limited, limited)
	a := r.post(messages, ask)
	if a.status != 429 || a.header.Get("Retry-After") != "30" || a.header.Get(wire.Marker) != "rate_limit" || len(r.mock.Requests()) != 2 {
		t.Errorf("%+v", a)
	}
	keys := map[string]bool{}
	for _, q := range r.mock.Requests() {
		keys[q.Header.Get("X-Api-Key")] = true
	}
	if len(keys) != 2 {
		t.Error("one key was asked twice")
	}
}

func TestRow08GeminiKeyIsInNoURL(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.mock.Script(mockllm.Step{Status: 400})
	if a := r.post("/gemini/v1beta/models/m:generateContent?key="+r.token, ask); a.status != 400 {
		t.Errorf("%+v", a)
	}
	q := r.mock.Requests()[0]
	if q.Query != "" || q.Header.Get("X-Goog-Api-Key") != canary {
		t.Errorf("%+v", q)
	}
}

func TestRow09KeysAreNotPrinted(t *testing.T) {
	t.Parallel()
	s := Secret{canary}
	b, _ := json.Marshal(map[string]any{"k": s, "p": &s})
	all := fmt.Sprintf("%v %+v %#v %s %q %d %x %s", s, s, s, s, s, s, &s, b) + s.LogValue().String()
	if strings.Contains(all, "CANARY") || strings.Contains(all, "43414e415259") || strings.Count(all, hidden) < 9 {
		t.Error(all)
	}
	_, err := Parse([]byte("upstreams: {a: {dialect: anthropic, base_url: 'https://user:" + canary + "@h/', keys: ['" + canary + "']}}"))
	if err == nil || strings.Contains(err.Error(), "CANARY") {
		t.Error(err)
	}
}

func TestRow11BetaHeadersPassByteForByte(t *testing.T) {
	t.Parallel()
	r := start(t)
	betas := []string{"one-2025-01-01,two-2025-02-02", " three "}
	r.do(t.Context(), "POST", messages, askStream, http.Header{"X-Api-Key": {r.token}, "Anthropic-Beta": betas, "Anthropic-Version": {"2099-01-01"}})
	got := r.mock.Requests()[0].Header
	if strings.Join(got["Anthropic-Beta"], "|") != "one-2025-01-01,two-2025-02-02|three" || got.Get("Anthropic-Version") != "2099-01-01" {
		t.Errorf("%v", got)
	}
}

func TestRow13BadTokensAreNotLogged(t *testing.T) {
	t.Parallel()
	r := start(t)
	bad := "hgt_0123456789ab_SECRETPART"
	r.do(t.Context(), "POST", messages, ask, http.Header{"X-Api-Key": {bad}})
	rec := r.record(1)
	if all := r.log.String() + fmt.Sprint(rec); strings.Contains(all, "SECRETPART") {
		t.Error(all)
	}
}

func TestRow14EveryBilledRouteHasABudget(t *testing.T) {
	t.Parallel()
	for name, conf := range start(t).conf.Upstreams {
		spec, _ := wire.SpecOf(conf.Dialect)
		for _, route := range spec.Routes {
			if route.Cost != wire.Billed {
				continue
			}
			r := start(t)
			r.token, _ = r.mint(GrantSpec{Trials: Sum{Money: 1}})
			a := r.post("/"+name+strings.Replace(route.Path, "{model}", "m", 1), `{"model":"m"}`)
			if a.header.Get(wire.Marker) != "budget" || r.dialled() != 0 {
				t.Errorf("%s %s: %+v", name, route.Path, a)
			}
		}
	}
}

func TestRow17LongSilenceIsNoEnd(t *testing.T) {
	t.Parallel()
	r := start(t)
	if c := r.proxy.table.Load().upstreams["openai"].conf; c.Timeouts.Idle < 300*time.Second || c.Timeouts.FirstByte < 300*time.Second {
		t.Errorf("agents wait longer than the proxy: %+v", c.Timeouts)
	}
	if s := r.proxy.server; s.WriteTimeout != 0 || s.ReadTimeout != 0 {
		t.Error("an answer has a time limit as a whole")
	}
	r.mock.Script(mockllm.Step{Text: "x", CutAfter: 2})
	if a := r.post("/openai/v1/responses", askStream); a.err == nil {
		t.Errorf("a cut stream ended as if complete: %+v", a)
	}
}

func TestRow18StreamsAndBetasTogether(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, body := range []string{ask, askStream} {
		for _, beta := range [][]string{nil, {"x-2025-01-01"}} {
			if a := r.do(t.Context(), "POST", messages, body, http.Header{"X-Api-Key": {r.token}, "Anthropic-Beta": beta}); a.status != 200 {
				t.Errorf("%+v", a)
			}
		}
	}
}

func TestRow19AcceptEncodingIsOurs(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.do(t.Context(), "POST", messages, ask, http.Header{"X-Api-Key": {r.token}, "Accept-Encoding": {"br, zstd"}})
	if got := r.mock.Requests()[0].Header["Accept-Encoding"]; len(got) != 1 || got[0] != "identity" {
		t.Error(got)
	}
}

func TestRow20AnswersWithoutEndAreFlagged(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, body := range []string{"", "nonsense", "event: message_start\ndata: {}\n\n"} {
		r.mock.Script(mockllm.Step{Body: []byte(body), Header: http.Header{"Content-Type": {"text/event-stream"}}})
		r.post(messages, askStream)
		if rec := r.record(1); rec.End != Truncated || !rec.Guessed || *rec.Cost == 0 {
			t.Errorf("%q: %+v", body, rec)
		}
	}
}

func TestRow22ConflictsAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{dialect: openai, keys: [env:K], key_in: none}": "drop one",
		"{dialect: openai}":                              "there is none",
		"{dialect: openai, keys: [env:K, env:K]}":        "twice",
		"{dialect: openai, keys: [env:K], key_in: body}": "key_in",
	} {
		if _, err := Parse([]byte("upstreams: {a: " + text + "}")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestRow25UnknownHeadersStay(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.do(t.Context(), "POST", messages, ask, http.Header{"X-Api-Key": {r.token}, "X-Service-Key": {"s"}, "Anything": {"s"}})
	if got := r.mock.Requests()[0].Header; got.Get("X-Service-Key") != "" || got.Get("Anything") != "" {
		t.Errorf("%v", got)
	}
}

func TestRow26DataPlaneHasNothingToRead(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, frame := range []string{"\x00\x01\x02\x03\r\n\r\n", "LIST\r\n\r\n", "{}\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"} {
		if out := r.raw(frame); strings.Contains(out, "200 OK") {
			t.Errorf("%q: %q", frame, out)
		}
	}
	for _, p := range []string{"/", "/v1/status", "/v1/grants", "/keys", "/t/" + r.token} {
		if a := r.do(t.Context(), "GET", p, "", nil); a.status < 400 {
			t.Errorf("%s: %+v", p, a)
		}
	}
}

func TestRow30RestIsRespected(t *testing.T) {
	t.Parallel()
	r := start(t, with(func(u *Upstream) { u.Limits.MaxWait = 500 * time.Millisecond }))
	r.mock.Script(mockllm.Step{Status: 429, Header: http.Header{
		"Retry-After": {"1"}, "Anthropic-Ratelimit-Unified-Status": {"rejected"},
		"Anthropic-Ratelimit-Unified-Reset": {fmt.Sprint(time.Now().Unix() + 90)},
	}})
	r.post(messages, ask)
	for range 10 {
		if a := r.post(messages, ask); a.status != 429 || a.header.Get(wire.Marker) != "rate_limit" {
			t.Errorf("%+v", a)
		}
	}
	if n := len(r.mock.Requests()); n != 1 {
		t.Errorf("%d requests while the key had to rest", n)
	}
	k := r.proxy.Status().Upstreams[0].Keys[0]
	if d := time.Until(k.Resting); d < 80*time.Second || d > 91*time.Second {
		t.Errorf("rests for %s", d)
	}
}

func TestRow31CacheReadsHaveTheirPrice(t *testing.T) {
	t.Parallel()
	p := price("3", "15")
	p.CacheRead = usd(t, "0.30")
	r := start(t, with(func(u *Upstream) { u.Prices = map[string]Price{"m": p} }))
	r.mock.Script(mockllm.Step{Usage: &mockllm.Usage{CacheRead: 100_000}})
	r.post(messages, ask)
	if rec := r.record(1); rec.Cost.String() != "0.03" {
		t.Error(rec.Cost)
	}
}

func TestRow33PlaceholdersAreFoundAtStart(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"proxy-managed", "your-key-here", "YOUR_API_KEY", "sk-ant-your-key-here", "sk-xxxxxxxxxxxx", "<the key>"} {
		s := Sources{LookupEnv: func(string) (string, bool) { return text, true }}
		c := Config{Upstreams: map[string]Upstream{"a": {Dialect: "openai", Keys: []KeyRef{"env:K"}}}}
		for _, err := range []error{c.CheckKeys(t.Context(), s), func() error { _, err := s.resolve(t.Context(), "env:K"); return err }()} {
			if err == nil || !strings.Contains(err.Error(), "env:K") || strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

func TestRow34LargeBodiesPass(t *testing.T) {
	t.Parallel()
	r := start(t)
	body := `{"model":"m","max_tokens":10,"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,` + strings.Repeat("QUJD", 1<<19) + `"}}]}]}`
	if a := r.post("/openai/v1/chat/completions", body); a.status != 200 || len(r.mock.Requests()[0].Body) != len(body) {
		t.Errorf("%d", a.status)
	}
}

func TestRow35EndAndLeaveIsComplete(t *testing.T) {
	t.Parallel()
	r := start(t)
	for range 20 {
		b, cancel := r.open("/openai/v1/chat/completions", askStream)
		for next(t, b) != "data: [DONE]\n\n" {
		}
		cancel()
		if rec := r.record(1); rec.End != Complete || rec.Guessed {
			t.Fatalf("%+v", rec)
		}
	}
}

// Bug reports on harnesses.

func TestB136LargeAndBrokenStreams(t *testing.T) {
	t.Parallel()
	r := start(t)
	big := strings.Repeat("y", 10<<20)
	r.mock.Script(mockllm.Step{Text: big})
	if a := r.post("/openai/v1/chat/completions", ask); a.status != 200 || len(a.body) < len(big) {
		t.Errorf("%d, %d bytes", a.status, len(a.body))
	}
	if rec := r.record(1); rec.End == Cut {
		t.Errorf("%+v", rec)
	}
	r.mock.Script(mockllm.Step{Status: 400, Body: []byte(`{"error":"prompt is too long"}`)})
	if a := r.post(messages, ask); a.body != `{"error":"prompt is too long"}` {
		t.Errorf("an error of the upstream was changed: %+v", a)
	}
}

func TestB138WhoseErrorItWas(t *testing.T) {
	t.Parallel()
	r := start(t, once, with(func(u *Upstream) { u.Limits.MaxWait = 100 * time.Millisecond }))
	r.mock.Script(mockllm.Step{Status: 429}, mockllm.Step{Status: 500})
	theirs := r.post(messages, ask)
	r.record(1)
	ours := r.post(messages, ask) // the key rests
	r.record(1)
	if theirs.status != 429 || theirs.header.Get(wire.Marker) != "" || ours.status != 429 || ours.header.Get(wire.Marker) != "rate_limit" ||
		!strings.Contains(ours.body, `"source":"harborgate"`) {
		t.Errorf("%+v %+v", theirs, ours)
	}
	g, _ := r.proxy.Grant(r.grant)
	if g.Totals.Failed != 1 || g.Totals.Refused != 1 || g.Totals.Requests != 2 {
		t.Errorf("%+v", g.Totals)
	}
}

// Many streams, and the upstream dies in the middle: none looks complete, and
// nothing is left behind.
func TestStreamsOfADyingUpstream(t *testing.T) {
	t.Parallel()
	r := start(t)
	const n = 100
	r.mock.Always(func(mockllm.Request) mockllm.Step { return mockllm.Step{Text: "x", HoldEvent: make(chan struct{})} })
	var ready, wg sync.WaitGroup
	ready.Add(n)
	var mu sync.Mutex
	complete := 0
	for range n {
		wg.Go(func() {
			b, _ := r.open(messages, askStream)
			next(t, b)
			ready.Done()
			if rest, err := b.ReadString(0); err == nil || err.Error() == "EOF" || strings.Contains(rest, "message_stop") {
				mu.Lock()
				complete++
				mu.Unlock()
			}
		})
	}
	ready.Wait()
	if s := r.proxy.Status(); len(s.Streams) != n || s.Grants[0].Running != n {
		t.Errorf("%d streams", len(s.Streams))
	}
	r.up.CloseClientConnections()
	wg.Wait()
	r.record(n)
	if complete != 0 {
		t.Errorf("%d look complete", complete)
	}
	if s := r.proxy.Status(); len(s.Streams) != 0 || s.Grants[0].Running != 0 || !s.Accounts["trial/j/t"].Reserved.IsZero() {
		t.Errorf("%+v", s)
	}
}
