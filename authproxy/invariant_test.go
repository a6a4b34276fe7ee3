package authproxy

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"harborgate/authproxy/internal/wire"
	"harborgate/internal/mockllm"
)

func TestI1B134NoGrantNoDial(t *testing.T) {
	t.Parallel()
	r := start(t)
	expired, _ := newGrant(GrantSpec{Expires: time.Now().Add(-time.Second)})
	r.proxy.grants.put(expired)
	var first string
	for name, token := range map[string]string{
		"none": "", "garbage": "x", "a key": canary, "wrong secret": r.token[:len(r.token)-1] + "!", "public part": r.token[:16],
	} {
		h := http.Header{}
		if token != "" {
			h.Set("X-Api-Key", token)
		}
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.addr+messages, strings.NewReader(ask))
		req.Header = h
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 401 || resp.Header.Get(wire.Marker) != "grant" || resp.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: %d %v", name, resp.StatusCode, resp.Header)
		}
		rec := r.record(1)
		if rec.Refused != wire.NoGrant || rec.End != Refused {
			t.Errorf("%s: %+v", name, rec)
		}
		if first == "" {
			first = rec.Why
		}
		if rec.Why != first {
			t.Errorf("%s: %q differs from %q", name, rec.Why, first)
		}
	}
	if r.dialled() != 0 {
		t.Error("an upstream was dialled")
	}
}

func TestI2OnlyListedMethodsPathsAndUpstreams(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.token, _ = r.mint(GrantSpec{Upstreams: []string{"anthropic"}, Trial: "other"})
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"POST", "/anthropic/v1/messages/batches", 404},
		{"GET", "/anthropic/v1/messages", 405},
		{"GET", "/anthropic/v1/files", 404},
		{"POST", "/anthropic/api/oauth/claude_cli/create_api_key", 404},
		{"GET", "/anthropic/v1/organizations/x/api_keys", 404},
		{"POST", "/nobody/v1/messages", 404},
		{"POST", "/gemini/v1beta/models/m:generateContent", 403},
		{"POST", "/openrouter/v1/messages", 403},
		{"GET", "/admin", 404}, {"GET", "/metrics", 404}, {"GET", "/debug/pprof/", 400}, {"GET", "/v1/status", 404}, {"POST", "/v1/grants", 404},
		{"DELETE", "/anthropic/v1/messages", 405}, {"OPTIONS", "/anthropic/v1/messages", 405}, {"TRACE", "/anthropic/v1/messages", 405}, {"PATCH", "/", 405},
	} {
		if a := r.do(t.Context(), c.method, c.path, ask, nil); a.status != c.status || a.header.Get(wire.Marker) == "" {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.body)
		}
	}
	if r.dialled() != 0 {
		t.Error("an upstream was dialled")
	}
}

func TestI3Attack10RedirectsAreNeverFollowed(t *testing.T) {
	t.Parallel()
	r, elsewhere := start(t), start(t)
	for _, status := range []int{301, 302, 303, 307, 308} {
		r.mock.Script(mockllm.Step{Status: status, Header: http.Header{"Location": {"http://" + elsewhere.addr + "/x"}}, Body: []byte("go")})
		a := r.post(messages, ask)
		if a.status != 502 || a.header.Get("Location") != "" || a.header.Get(wire.Marker) != "upstream_answer" {
			t.Errorf("%d: %+v", status, a)
		}
	}
	if n := len(elsewhere.mock.Requests()); n != 0 || len(elsewhere.records) != 0 {
		t.Error("a redirect was followed")
	}
	if n := len(r.mock.Requests()); n != 5 {
		t.Errorf("%d requests", n)
	}
}

func TestI4InboundCredentialsNeverLeave(t *testing.T) {
	t.Parallel()
	r := start(t)
	h := http.Header{
		"X-Api-Key": {r.token}, "Authorization": {"Bearer " + r.token}, "Cookie": {"session=stolen"}, "Proxy-Authorization": {"Basic stolen"},
		"X-Goog-User-Project": {"stolen"}, "Openai-Organization": {"stolen"}, "X-Forwarded-For": {"stolen"}, "Connection": {"close, X-Api-Key"},
		"X_api_key": {"stolen"}, "X-Amz-Security-Token": {"stolen"},
	}
	if a := r.do(t.Context(), http.MethodPost, messages+"?key="+r.token, ask, h); a.status != 200 {
		t.Fatalf("%+v", a)
	}
	got := r.mock.Requests()[0]
	var b strings.Builder
	_ = got.Header.Write(&b)
	if all := b.String() + got.Query; strings.Contains(all, "stolen") || strings.Contains(all, r.token) {
		t.Errorf("it left:\n%s", all)
	}
	if keys := got.Header["X-Api-Key"]; len(keys) != 1 || keys[0] != canary || got.Header.Get("Authorization") != "" {
		t.Errorf("the upstream got %v", got.Header)
	}
}

// The rig itself looks for the key in every answer, record and line of the log.
func TestI5B140KeyAppearsNowhere(t *testing.T) {
	t.Parallel()
	r := start(t, once)
	for _, s := range []mockllm.Step{
		{Echo: true},
		{Echo: true, Encoding: "gzip"},
		{Status: 401, Body: []byte("Incorrect API key provided: " + canary)},
		{Status: 400, Body: []byte(`{"error":"` + canary + `"}`)},
		{Status: 500, Body: []byte(canary)},
		{Header: http.Header{"Request-Id": {canary}, "X-Other": {canary}}},
	} {
		r.mock.Always(func(mockllm.Request) mockllm.Step { return s })
		for _, f := range append(formats(true), formats(false)...) {
			r.post(f.path, f.body)
		}
		for _, u := range r.proxy.table.Load().upstreams {
			for _, k := range u.pool.keys { // a refused key would end the test early
				k.mu.Lock()
				k.until = time.Time{}
				k.mu.Unlock()
			}
		}
	}
	if !strings.Contains(r.log.String(), "masked") {
		t.Error("nobody was told that a key came back")
	}
}

func TestI6RevokedAndExpiredGrantsFailAtOnce(t *testing.T) {
	t.Parallel()
	r := start(t)
	for name, end := range map[string]func(id string){
		"revoked": func(id string) { r.proxy.Revoke(id) },
		"expired": func(string) {}, // by itself, soon
	} {
		expires := time.Now().Add(time.Hour)
		if name == "expired" {
			expires = time.Now().Add(300 * time.Millisecond)
		}
		token, id := r.mint(GrantSpec{Expires: expires})
		r.token = token
		r.mock.Script(mockllm.Step{Text: "x", HoldEvent: make(chan struct{})})
		b, _ := r.open(messages, askStream)
		next(t, b)
		end(id)
		if line, err := b.ReadString(0); err == nil || strings.Contains(line, "message_stop") {
			t.Errorf("%s: the stream went on, or ended as if complete: %q %v", name, line, err)
		}
		if rec := r.record(1); rec.End != Revoked || rec.Cost == nil || *rec.Cost == 0 {
			t.Errorf("%s: %+v", name, rec)
		}
		if a := r.post(messages, ask); a.status != 401 {
			t.Errorf("%s: %+v", name, a)
		}
		r.record(1)
	}
	<-r.mock.Gone()
	<-r.mock.Gone()
}

func TestI7Attack26AddressesThatNobodyMayHave(t *testing.T) {
	t.Parallel()
	for address, want := range map[string][2]bool{ // reachable, and when local
		"93.184.216.34": {true, true}, "2606:4700::1": {true, true},
		"127.0.0.1": {false, true}, "::1": {false, true}, "::ffff:127.0.0.1": {false, true},
		"10.0.0.1": {false, true}, "192.168.1.1": {false, true}, "172.17.0.1": {false, true}, "fd12::1": {false, true}, "100.64.0.1": {false, true},
		"169.254.169.254": {false, false}, "::ffff:169.254.169.254": {false, false}, "64:ff9b::a9fe:a9fe": {false, false}, "fe80::1": {false, false},
		"fd00:ec2::254": {false, false}, "0.0.0.0": {false, false}, "::": {false, false}, "224.0.0.1": {false, false}, "255.255.255.255": {false, false},
		"64:ff9b::7f00:1": {false, true}, "0.1.2.3": {false, true},
	} {
		a := netip.MustParseAddr(address)
		if got := [2]bool{reachable(a, false), reachable(a, true)}; got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
	// A name that leads to this host, as after a change of its address: refused at
	// the connection, not by its name.
	r := start(t)
	tr := newTransport(false, nil)
	defer tr.CloseIdleConnections()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.Replace(r.up.URL, "127.0.0.1", "localhost", 1), nil)
	if resp, err := tr.RoundTrip(req); err == nil {
		resp.Body.Close()
		t.Error("loopback was reached by name")
	}
	if r.dialled() != 0 {
		t.Error("it was dialled")
	}
}

func TestI8OneRecordForEachRequest(t *testing.T) {
	t.Parallel()
	r := start(t)
	n := 0
	count := func(a answer) {
		n++
		r.record(1)
		_ = a
	}
	r.mock.Script(mockllm.Step{}, mockllm.Step{Status: 400}, mockllm.Step{CutAfter: 2})
	count(r.post(messages, ask))
	count(r.post(messages, ask))
	count(r.post(messages, askStream))
	count(r.post(messages, "nonsense"))
	count(r.post("/x", ask))
	count(r.do(t.Context(), "TRACE", "/x", "", nil))
	count(r.do(t.Context(), "GET", "/anthropic/v1/models", "", nil))
	count(r.do(t.Context(), "POST", messages, ask, http.Header{}))
	r.proxy.steps = []step{func(*exchange) error { panic(canary) }}
	count(r.post(messages, ask))
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.records) != n || r.records[n-1].End != Broken {
		t.Errorf("%d records of %d requests, the last one %+v", len(r.records), n, r.records[len(r.records)-1])
	}
	ids := map[string]bool{}
	for _, rec := range r.records {
		ids[rec.ID] = true
	}
	if len(ids) != n {
		t.Error("ids repeat")
	}
}

func TestI9NotReadyMeansRefuse(t *testing.T) {
	t.Parallel()
	r := start(t)
	kept := r.proxy.table.Swap(nil)
	if a := r.post(messages, ask); a.status != 503 || a.header.Get(wire.Marker) != "not_ready" {
		t.Errorf("without a configuration: %+v", a)
	}
	r.proxy.table.Store(kept)
	if err := r.proxy.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	if a := r.post(messages, ask); a.status != 503 {
		t.Errorf("without a ledger: %+v", a)
	}
	if err := r.proxy.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := r.post(messages, ask); a.status != 503 {
		t.Errorf("while stopping: %+v", a)
	}
	if r.dialled() != 0 {
		t.Error("an upstream was dialled")
	}
}

func TestI10StreamsAreFlushedAndCutOnesLookCut(t *testing.T) {
	t.Parallel()
	for _, f := range formats(true) {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			more := make(chan struct{})
			r.mock.Script(mockllm.Step{Text: "one", Words: 3, HoldEvent: more}, mockllm.Step{Text: "two", Words: 20, CutAfter: 6})
			b, _ := r.open(f.path, f.body)
			next(t, b) // it is here, although the next one is held
			close(more)
			rest, err := b.ReadString(0)
			if rec := r.record(1); rec.End != Complete || !strings.Contains(rest, "one") && f.name != "gemini" {
				t.Errorf("%+v %q %v", rec, rest, err)
			}
			a := r.post(f.path, f.body)
			rec := r.record(1)
			if a.err == nil || rec.End != Cut || !rec.Guessed && f.name != "gemini" || rec.Cost == nil || *rec.Cost == 0 {
				t.Errorf("a cut stream: %v, %+v", a.err, rec)
			}
		})
	}
}

func TestI10ClientGoneCancelsUpstream(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.mock.Script(mockllm.Step{Text: "x", HoldEvent: make(chan struct{})})
	b, cancel := r.open(messages, askStream)
	next(t, b)
	cancel()
	<-r.mock.Gone()
	if rec := r.record(1); rec.End != ClientGone || rec.Usage.Input != 700 || rec.Cost == nil {
		t.Errorf("%+v", rec)
	}
}

// A client that does not read holds the upstream up, not the proxy's memory, and
// not for ever.
func TestI10BackPressure(t *testing.T) {
	t.Parallel()
	r := start(t, func(_ *Config, o *Options) { o.Write = 300 * time.Millisecond })
	const size = 48 << 20
	r.mock.Script(mockllm.Step{Text: strings.Repeat("y", size)})
	r.open(messages, askStream)
	if rec := r.record(1); rec.End != ClientGone || rec.BytesOut == 0 || rec.BytesOut > size/2 {
		t.Errorf("%+v", rec)
	}
	<-r.mock.Gone()
}
