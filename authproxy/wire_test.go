package authproxy

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"harborgate/authproxy/internal/wire"
	"harborgate/internal/mockllm"
)

// direct asks the mock itself what the proxy asks it.
func (r *rig) direct(path, body string) string {
	r.t.Helper()
	_, path, _ = strings.Cut(path[1:], "/")
	req, _ := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.up.URL+"/"+path, strings.NewReader(body))
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

// Each format, streamed and not: the bytes of the upstream, its usage, and what
// that costs.
func TestFormatsPassByteForByteAndAreMetered(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{true, false} {
		for _, f := range formats(stream) {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				r := start(t)
				a := r.post(f.path, f.body)
				rec := r.record(1)
				if a.status != 200 || a.err != nil || a.body != r.direct(f.path, f.body) {
					t.Fatalf("%d %v\n%s", a.status, a.err, a.body)
				}
				want := wire.Usage{Input: 700, CacheRead: 300, Output: 42, Reasoning: 7}
				cost := "0.00142"
				if f.name == "messages" {
					want = wire.Usage{Input: 700, CacheRead: 300, CacheWrite: 20, Output: 42}
					cost = "0.00144"
				}
				if rec.Usage != want || rec.Cost == nil || rec.Cost.String() != cost || rec.Guessed || rec.End != Complete || rec.Stream != stream {
					t.Errorf("%+v, cost %v", rec, rec.Cost)
				}
				g, _ := r.proxy.Grant(r.grant)
				if g.Totals.Usage != want || g.Totals.Cost != *rec.Cost || g.Totals.Requests != 1 {
					t.Errorf("totals %+v", g.Totals)
				}
				if b := r.proxy.Status().Accounts["trial/j/t"]; b.Spent.Money != *rec.Cost || b.Spent.Tokens != want.Tokens() || !b.Reserved.IsZero() {
					t.Errorf("account %+v", b)
				}
			})
		}
	}
}

// The client did not ask for usage: the proxy does, and the client sees nothing of
// it but what it costs.
func TestUsageIsAskedForAndTakenOutAgain(t *testing.T) {
	t.Parallel()
	r := start(t)
	body := `{"model":"m","max_tokens":100,"stream":true,"messages":[]}`
	a := r.post("/openai/v1/chat/completions", body)
	rec := r.record(1)
	plain := r.direct("/openai/v1/chat/completions", body)
	if got := strings.ReplaceAll(a.body, `,"usage":null`, ""); got != plain || strings.Contains(a.body, `prompt_tokens`) {
		t.Errorf("got\n%s\nwant\n%s", a.body, plain)
	}
	if rec.Usage.Output != 42 || rec.Guessed || rec.End != Complete {
		t.Errorf("%+v", rec)
	}
}

// OpenRouter's clients get usage without asking for it.
func TestUsageOfOpenRouterIsLeftIn(t *testing.T) {
	t.Parallel()
	r := start(t)
	a := r.post("/openrouter/v1/chat/completions", `{"model":"m","max_tokens":100,"stream":true,"messages":[]}`)
	if rec := r.record(1); rec.Usage.Output != 42 || !strings.Contains(a.body, `"completion_tokens":42`) {
		t.Errorf("%+v of\n%s", rec, a.body)
	}
}

func TestEmbeddingsAndFreeRoutes(t *testing.T) {
	t.Parallel()
	r := start(t)
	if a := r.post("/openai/v1/embeddings", `{"model":"m","input":"x"}`); a.status != 200 || !strings.Contains(a.body, "embedding") {
		t.Errorf("%+v", a)
	}
	if rec := r.record(1); rec.Usage != (wire.Usage{Input: 700}) || rec.End != Complete || rec.Cost.String() != "0.0007" {
		t.Errorf("%+v", rec)
	}
	if a := r.post("/anthropic/v1/messages/count_tokens", ask); a.status != 200 || !strings.Contains(a.body, `"input_tokens":700`) {
		t.Errorf("%+v", a)
	}
	if rec := r.record(1); rec.Cost != nil || rec.Usage.Tokens() != 0 || rec.End != Complete {
		t.Errorf("a free route was billed: %+v", rec)
	}
}

func TestLocalAnswersReachNobody(t *testing.T) {
	t.Parallel()
	r := start(t, with(func(u *Upstream) { u.Models = []string{"m", "m2", "x*"} }))
	for path, want := range map[string]string{
		"/anthropic/v1/models?limit=1000": `"has_more":false`,
		"/openai/v1/models":               `"object":"list"`,
		"/gemini/v1beta/models":           `"name":"models/m2"`,
		"/openai/v1/models/m2":            `"id":"m2"`,
	} {
		if a := r.do(t.Context(), http.MethodGet, path, "", nil); a.status != 200 || !strings.Contains(a.body, want) || strings.Contains(a.body, "x*") {
			t.Errorf("%s: %+v", path, a)
		}
	}
	if a := r.do(t.Context(), http.MethodGet, "/openai/v1/models/other", "", nil); a.status != 404 {
		t.Errorf("%+v", a)
	}
	if a := r.post("/anthropic/api/event_logging/batch", "{}"); a.status != 204 {
		t.Errorf("%+v", a)
	}
	if a := r.do(t.Context(), http.MethodHead, "/anthropic/api/hello", "", http.Header{}); a.status != 200 {
		t.Errorf("a probe without credential: %+v", a)
	}
	if r.dialled() != 0 {
		t.Error("somebody was asked")
	}
}

// Tokens are taken from wherever clients put keys, and from there alone reach
// nobody.
func TestTokenInEverySlot(t *testing.T) {
	t.Parallel()
	r := start(t)
	for name, c := range map[string]struct {
		path   string
		header http.Header
	}{
		"bearer":  {messages, http.Header{"Authorization": {"Bearer " + r.token}}},
		"x-api":   {messages, http.Header{"X-Api-Key": {r.token}}},
		"api-key": {messages, http.Header{"Api-Key": {r.token}}},
		"google":  {"/gemini/v1beta/models/m:generateContent", http.Header{"X-Goog-Api-Key": {r.token}}},
		"query":   {"/gemini/v1beta/models/m:generateContent?key=" + r.token, http.Header{}},
		"path":    {"/t/" + r.token + messages, http.Header{}},
		"two":     {messages, http.Header{"Authorization": {"Bearer " + r.token}, "X-Api-Key": {r.token}}},
	} {
		if a := r.do(t.Context(), http.MethodPost, c.path, ask, c.header); a.status != 200 {
			t.Errorf("%s: %+v", name, a)
		}
	}
	a := r.do(t.Context(), http.MethodPost, messages, ask, http.Header{"Authorization": {"Bearer other"}, "X-Api-Key": {r.token}})
	if a.status != 401 {
		t.Errorf("two that differ: %+v", a)
	}
	for _, req := range r.mock.Requests() {
		var b strings.Builder
		_ = req.Header.Write(&b)
		if strings.Contains(b.String()+req.Path+req.Query, r.token) {
			t.Errorf("the token left: %s?%s\n%s", req.Path, req.Query, &b)
		}
	}
}

// open begins to read a stream.
func (r *rig) open(path, body string) (*bufio.Reader, context.CancelFunc) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.addr+path, strings.NewReader(body))
	req.Header.Set("X-Api-Key", r.token)
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { cancel(); resp.Body.Close() })
	return bufio.NewReader(resp.Body), cancel
}

// next reads one event.
func next(t *testing.T, b *bufio.Reader) string {
	t.Helper()
	var out strings.Builder
	for {
		line, err := b.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after %q", err, out.String())
		}
		out.WriteString(line)
		if line == "\n" {
			return out.String()
		}
	}
}

func TestRow16CompressedAnswersAreReadAndPassedPlain(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"gzip", "deflate"} {
		for _, f := range append(formats(true), formats(false)...) {
			t.Run(encoding+" "+f.name, func(t *testing.T) {
				t.Parallel()
				r := start(t)
				r.mock.Script(mockllm.Step{Encoding: encoding})
				a := r.post(f.path, f.body)
				if rec := r.record(1); rec.Usage.Output != 42 || rec.Guessed {
					t.Errorf("%+v", rec)
				}
				if a.status != 200 || a.header.Get("Content-Encoding") != "" || a.body != r.direct(f.path, f.body) {
					t.Errorf("%+v", a)
				}
			})
		}
	}
}
