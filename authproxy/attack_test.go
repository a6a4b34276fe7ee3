package authproxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"harborgate/authproxy/internal/wire"
	"harborgate/internal/mockllm"
)

// The attacks of docs/auth-proxy.md, by their numbers there. Those on single facts
// of the wire, on the ledger and on the gate are tested beside them.

// hosts are the hosts that the mock was asked as.
func (r *rig) hosts() string {
	var out []string
	for _, q := range r.mock.Requests() {
		out = append(out, q.Host)
	}
	return strings.Join(out, " ")
}

func TestAttack01Row10Row28ServerSideRequestForgery(t *testing.T) {
	t.Parallel()
	r := start(t, with(func(u *Upstream) { u.RemoteMedia = true }))
	evil := start(t)
	head := "\r\nX-Api-Key: " + r.token + "\r\nContent-Length: " + fmt.Sprint(len(ask)) + "\r\nConnection: close\r\n"
	for _, line := range []string{
		"POST http://" + evil.addr + "/v1/messages HTTP/1.1\r\nHost: x",
		"POST http://" + evil.addr + messages + " HTTP/1.1\r\nHost: " + evil.addr,
		"POST //" + evil.addr + "/v1/messages HTTP/1.1\r\nHost: x",
		"POST /@" + evil.addr + "/v1/messages HTTP/1.1\r\nHost: x",
		"POST /anthropic@" + evil.addr + "/v1/messages HTTP/1.1\r\nHost: x",
		"POST /anthropic/http://" + evil.addr + " HTTP/1.1\r\nHost: x",
		"POST /anthropic//" + evil.addr + "/v1/messages HTTP/1.1\r\nHost: x",
		"POST /anthropic/../" + evil.addr + " HTTP/1.1\r\nHost: x",
		"POST /anthropic/v1/messages?base_url=http://" + evil.addr + " HTTP/1.1\r\nHost: " + evil.addr,
		"POST /anthropic/v1/messages HTTP/1.1\r\nHost: x\r\nX-Forwarded-Host: " + evil.addr + "\r\nX-Portkey-Custom-Host: http://" + evil.addr,
		"CONNECT " + evil.addr + " HTTP/1.1\r\nHost: " + evil.addr,
	} {
		r.raw(line + head + "\r\n" + ask)
	}
	r.post(messages, `{"model":"m","api_base":"http://`+evil.addr+`","base_url":"http://`+evil.addr+`","metadata":{"api_base":"http://`+evil.addr+`"}}`)
	if evil.dialled() != 0 || len(evil.records) != 0 {
		t.Error("somebody else was dialled")
	}
	want := strings.TrimPrefix(r.up.URL, "http://")
	for _, h := range strings.Fields(r.hosts()) {
		if h != want {
			t.Errorf("the upstream was asked as %s", h)
		}
	}
	if n := len(r.mock.Requests()); n != 3 {
		t.Errorf("%d requests got through, want the 3 that only carry a hint", n)
	}
}

func TestAttack02LocalUpstreamsFetchNothing(t *testing.T) {
	t.Parallel()
	body := `{"model":"m","messages":[{"content":[{"type":"image_url","image_url":{"url":"http://169.254.169.254/"}}]}]}`
	r := start(t)
	if a := r.post("/gemini/v1beta/models/m:generateContent", body); a.status != 403 {
		t.Errorf("%+v", a)
	}
	if a := r.post("/openai/v1/chat/completions", body); a.status != 400 || r.dialled() != 0 {
		t.Errorf("%+v", a)
	}
	r = start(t, with(func(u *Upstream) { u.RemoteMedia = true }))
	if a := r.post("/openai/v1/chat/completions", body); a.status != 200 {
		t.Errorf("%+v", a)
	}
}

func TestAttack03PathConfusion(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, p := range []string{
		"/anthropic/../admin", "/anthropic/v1/%2e%2e/messages", "/anthropic/v1%2fmessages", "/anthropic/v1/messages;x", "/anthropic/v1/./messages",
		"//anthropic/v1/messages", "/anthropic/v1//messages", "/anthropic/v1/messages/", "/%61nthropic/v1/messages", `/anthropic\v1\messages`,
		"/t/" + r.token + "//anthropic/v1/messages", "/t//anthropic/v1/messages", "/anthropic/v1/messages%00", "/anthropic/v1/messages%0d%0aX:%20y",
		"/gemini/v1beta/models/..:generateContent", "/gemini/v1beta/models/a%2fb:generateContent", "/gemini/v1beta/models/a:x:generateContent",
	} {
		out := r.raw("POST " + p + " HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + r.token + "\r\nContent-Length: " + fmt.Sprint(len(ask)) + "\r\nConnection: close\r\n\r\n" + ask)
		if !strings.HasPrefix(out, "HTTP/1.1 40") {
			t.Errorf("%s: %.60q", p, out)
		}
	}
	if r.dialled() != 0 {
		t.Error("an upstream was dialled")
	}
}

func TestAttack04Row29HeaderSmuggling(t *testing.T) {
	t.Parallel()
	r := start(t)
	send := func(lines string) string {
		return r.raw("POST " + messages + " HTTP/1.1\r\nHost: x\r\n" + lines + "\r\nContent-Length: " + fmt.Sprint(len(ask)) + "\r\nConnection: close\r\n\r\n" + ask)
	}
	key := "X-Api-Key: " + r.token
	for lines, status := range map[string]string{
		key + "\r\nx-api-key: other":                                        "400",
		key + "\r\nAuthorization: Bearer other":                             "401",
		key + "\r\nContent-Type: a\r\nContent-Type: b":                      "400",
		key + "\r\nX Bad: y":                                                "400",
		key + "\r\nX-Y: a\rb":                                               "400",
		key + "\r\nConnection: x-api-key, anthropic-version":                "200",
		key + "\r\nx_api_key: evil\r\nX-API_KEY: evil":                      "200",
		key + "\r\nAnthropic-Beta: a,b\r\nAnthropic-Beta: c":                "200",
		key + "\r\nTE: trailers\r\nTrailer: X-Evil\r\nExpect: 100-continue": "",
	} {
		if out := send(lines); status != "" && !strings.Contains(out, "HTTP/1.1 "+status) {
			t.Errorf("%q: %.60q", lines, out)
		}
	}
	for _, q := range r.mock.Requests() {
		if q.Header.Get("X-Api-Key") != canary || len(q.Header["X-Api-Key"]) != 1 {
			t.Errorf("the key did not arrive: %v", q.Header)
		}
		if strings.Contains(fmt.Sprint(q.Header), "evil") || q.Header.Get("Te") != "" || q.Header.Get("Trailer") != "" {
			t.Errorf("%v", q.Header)
		}
	}
}

func TestAttack05RequestSmuggling(t *testing.T) {
	t.Parallel()
	r := start(t)
	hidden := "POST " + messages + " HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + r.token + "\r\nContent-Length: " + fmt.Sprint(len(ask)) + "\r\n\r\n" + ask
	head := "POST " + messages + " HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + r.token + "\r\n"
	for name, text := range map[string]string{
		"length and chunks":  head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"two lengths":        head + "Content-Length: 5\r\nContent-Length: 50\r\n\r\n" + hidden,
		"odd chunks":         head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden,
		"space before colon": head + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden,
		"two hosts":          "POST " + messages + " HTTP/1.1\r\nHost: x\r\nHost: y\r\nX-Api-Key: " + r.token + "\r\nContent-Length: 0\r\n\r\n" + hidden,
		"h2 preface":         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + hidden,
	} {
		out := r.raw(text)
		if strings.Contains(out, "HTTP/1.1 200") || strings.Count(out, "HTTP/1.1 ") > 1 {
			t.Errorf("%s: %q", name, out)
		}
	}
	if n := len(r.mock.Requests()); n != 0 {
		t.Errorf("%d requests got through", n)
	}
}

func TestAttack05ChunkedBodiesHideNothing(t *testing.T) {
	t.Parallel()
	r := start(t, with(func(u *Upstream) { u.MaxBody = 200_000 }))
	hidden := "POST " + messages + " HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + r.token + "\r\nContent-Length: " + fmt.Sprint(len(ask)) + "\r\n\r\n" + ask
	head := "POST " + messages + " HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + r.token + "\r\nTransfer-Encoding: chunked\r\n"
	chunk := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	big := `{"model":"m","max_tokens":100,"x":"` + strings.Repeat("x", 150_000) + `"}`
	for _, c := range []struct{ name, text, status, body string }{
		{"one chunk", head + "\r\n" + chunk(ask) + "0\r\n\r\n" + hidden, "200", ask},
		{"many chunks", head + "\r\n" + chunk(ask[:1]) + chunk(ask[1:9]) + chunk(ask[9:]) + "0\r\n\r\n" + hidden, "200", ask},
		{"grows", head + "\r\n" + chunk(big[:70_000]) + chunk(big[70_000:]) + "0\r\n\r\n" + hidden, "200", big},
		{"a length beside it", head + "Content-Length: 3\r\n\r\n" + chunk(ask) + "0\r\n\r\n" + hidden, "200", ask},
		{"trailers", head + "Trailer: X-Api-Key\r\n\r\n" + chunk(ask) + "0\r\nX-Api-Key: evil\r\n\r\n" + hidden, "200", ask},
		{"extensions", head + "\r\n" + fmt.Sprintf("%x;x=\"\r", len(ask)) + "\n" + ask + "\r\n0\r\n\r\n" + hidden, "200", ask},
		{"too long", head + "\r\n" + chunk(strings.Repeat("x", 200_001)) + "0\r\n\r\n" + hidden, "413", ""},
		{"no size", head + "\r\nzz\r\n" + ask + "\r\n0\r\n\r\n" + hidden, "", ""},
		{"a size that runs over", head + "\r\n10000000000000000\r\n" + ask + "\r\n0\r\n\r\n" + hidden, "", ""},
		{"broken off", head + "\r\n" + chunk(ask) + "5\r\nab", "", ""},
	} {
		before := len(r.mock.Requests())
		out := r.talk(c.text, c.name == "broken off")
		if strings.Count(out, "HTTP/1.1 ") > 1 || c.status != "" && !strings.HasPrefix(out, "HTTP/1.1 "+c.status) || c.status == "" && strings.Contains(out, " 200 ") {
			t.Errorf("%s: %.200q", c.name, out)
		}
		sent := r.mock.Requests()[before:]
		switch {
		case c.body == "" && len(sent) > 0:
			t.Errorf("%s: %d requests got through", c.name, len(sent))
		case c.body != "" && (len(sent) != 1 || string(sent[0].Body) != c.body || sent[0].Header.Get("Content-Length") != fmt.Sprint(len(c.body)) || sent[0].Header.Get("X-Api-Key") != canary):
			t.Errorf("%s: %d requests arrived, or another one", c.name, len(sent))
		}
	}
	r.record(10)
	if !r.proxy.bodies.room.TryAcquire(r.proxy.opts.Bodies) {
		t.Error("bodies still take room")
	}
}

func TestAttack06Methods(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, m := range []string{"TRACE", "OPTIONS", "PUT", "DELETE", "PATCH", "CONNECT", "PROPFIND", "get"} {
		out := r.raw(m + " " + messages + " HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + r.token + "\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(out, "HTTP/1.1 405") || strings.Contains(out, "Access-Control") {
			t.Errorf("%s: %.80q", m, out)
		}
	}
	if r.dialled() != 0 {
		t.Error("an upstream was dialled")
	}
}

func TestAttack07Row23Upgrades(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, h := range []string{
		"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x",
		"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
		"Connection: keep-alive, upgrade",
	} {
		out := r.raw("GET /openai/v1/responses HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + r.token + "\r\n" + h + "\r\n\r\n")
		if !strings.HasPrefix(out, "HTTP/1.1 426") || !strings.Contains(out, "Connection: close") {
			t.Errorf("%.100q", out)
		}
	}
	r.mock.Script(mockllm.Step{Body: []byte{}, Status: 101, Header: http.Header{"Upgrade": {"x"}, "Connection": {"Upgrade"}}})
	if a := r.post(messages, ask); a.status != 502 && a.status != 503 && a.status != 200 {
		t.Errorf("a switch that nobody asked for: %+v", a)
	}
}

func TestAttack09ErrorsOfOurKeyAreOurs(t *testing.T) {
	t.Parallel()
	for _, f := range formats(false) {
		r := start(t, once)
		r.mock.Script(mockllm.Step{Status: 401, Body: []byte(`{"error":{"message":"Incorrect API key provided: sk-ant-***********cdef"}}`)})
		a := r.post(f.path, f.body)
		want := map[string]int{"messages": 402, "chat": 401, "responses": 400, "gemini": 402}[f.name]
		if a.status != want || strings.Contains(a.body, "cdef") || a.header.Get(wire.Marker) != "upstream_credential" || a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s: %+v", f.name, a)
		}
		if rec := r.record(1); rec.Refused != wire.KeyRefused {
			t.Errorf("%+v", rec)
		}
		r.post(f.path, f.body) // from memory: the key rests
		if n := len(r.mock.Requests()); n != 1 {
			t.Errorf("%d requests", n)
		}
	}
}

func TestAttack11CredentialEndpoints(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, p := range []string{
		"/anthropic/api/oauth/claude_cli/create_api_key", "/anthropic/v1/oauth/token", "/anthropic/v1/organizations/me/api_keys", "/openrouter/v1/key",
		"/openrouter/v1/keys", "/openrouter/v1/credits", "/openai/v1/organization/admin_api_keys", "/openai/v1/files", "/openai/v1/batches", "/openai/v1/realtime",
	} {
		for _, m := range []string{"GET", "POST"} {
			if a := r.do(t.Context(), m, p, "{}", nil); a.status != 404 {
				t.Errorf("%s %s: %+v", m, p, a)
			}
		}
	}
	if r.dialled() != 0 {
		t.Error("an upstream was dialled")
	}
}

func TestAttack12StateOfOtherTrials(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.mock.Script(mockllm.Step{ID: "mine"})
	if a := r.post("/openai/v1/responses", `{"model":"m","input":[]}`); a.status != 200 {
		t.Fatalf("%+v", a)
	}
	r.record(1)
	goOn := `{"model":"m","input":[],"previous_response_id":"resp_mine"}`
	if a := r.post("/openai/v1/responses", goOn); a.status != 200 {
		t.Errorf("the own response: %+v", a)
	}
	r.token, _ = r.mint(GrantSpec{Trial: "other"})
	for _, a := range []answer{
		r.post("/openai/v1/responses", goOn),
		r.do(t.Context(), "GET", "/openai/v1/responses/resp_mine", "", nil),
		r.post("/openai/v1/responses", `{"model":"m","conversation":"conv_1"}`),
		r.post("/gemini/v1beta/models/m:generateContent", `{"cachedContent":"cachedContents/1"}`),
	} {
		if a.status < 400 {
			t.Errorf("%+v", a)
		}
	}
	if n := len(r.mock.Requests()); n != 2 {
		t.Errorf("%d requests", n)
	}
}

func TestAttack13Row24StolenToken(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.token, _ = r.mint(GrantSpec{Source: "trial A"})
	if a := r.post(messages, ask); a.status != 401 {
		t.Errorf("from elsewhere: %+v", a)
	}
	if !strings.Contains(r.log.String(), "came from elsewhere") || strings.Contains(r.log.String(), r.token[20:]) {
		t.Error(r.log.String())
	}
	for source, want := range map[string]int{"trial A": 200, "trial B": 401} {
		if got := r.handed(source); got != want {
			t.Errorf("%s: %d", source, got)
		}
	}
}

// handed sends a request over a connection that comes by Handle.
func (r *rig) handed(source string) int {
	r.t.Helper()
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.proxy.Handle(source)(theirs)
	}()
	tr := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return ours, nil }}
	req, _ := http.NewRequestWithContext(r.t.Context(), "POST", "http://proxy"+messages, strings.NewReader(ask))
	req.Header.Set("X-Api-Key", r.token)
	resp, err := tr.RoundTrip(req)
	if err != nil {
		r.t.Fatal(err)
	}
	resp.Body.Close()
	<-done
	return resp.StatusCode
}

func TestAttack14Row12TokenGuessing(t *testing.T) {
	t.Parallel()
	r := start(t)
	revoked, id := r.mint(GrantSpec{})
	r.proxy.Revoke(id)
	var first string
	for i, token := range []string{"x", "hgt_000000000000_" + strings.Repeat("A", 43), revoked, r.token + "x", strings.ToUpper(r.token)} {
		a := r.do(t.Context(), "POST", messages, ask, http.Header{"X-Api-Key": {token}})
		rec := r.record(1)
		body := strings.ReplaceAll(a.body, rec.ID, "ID")
		if i == 0 {
			first = body
		}
		if a.status != 401 || body != first {
			t.Errorf("%d %s", a.status, body)
		}
	}
	if strings.Contains(r.log.String(), revoked[17:]) {
		t.Error("a token is in the log")
	}
}
