package authproxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"harborgate/authproxy/internal/wire"
	"harborgate/internal/mockllm"
)

// Upstreams that fail in ways of their own.

// plainly serves, on every connection, what say writes after each request, and then
// closes it.
func plainly(t *testing.T, say func(w io.Writer, body string)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		say(conn, string(body))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func events(lines ...string) string {
	return "data: " + strings.Join(lines, "\n\ndata: ") + "\n\n"
}

const openRouterChat = "/openrouter/v1/chat/completions"

func TestErrorUnderStatus200IsTheUpstreamsFailure(t *testing.T) {
	t.Parallel()
	stream := http.Header{"Content-Type": {"text/event-stream"}}
	document := http.Header{"Content-Type": {"application/json"}}
	chunk := `{"model":"m","choices":[{"delta":{"content":"hello hello"}}]}`
	broken := `{"error":{"code":502,"message":"Provider disconnected"},"choices":[{"finish_reason":"error"}]}`
	for _, c := range []struct {
		name, path, body string
		header           http.Header
		end              End
		cost             string
		guessed          bool
	}{
		{"chat", openRouterChat, `{"error":{"message":"Provider returned error","code":502}}`, document, Failed, "0", false},
		{"messages", messages, `{"type":"error","error":{"type":"overloaded_error"}}`, document, Failed, "0", false},
		{"asked wrongly", openRouterChat, `{"error":{"message":"too long","code":400}}`, document, Refused, "0", false},
		{"stream at once", openRouterChat, events(broken, "[DONE]"), stream, Failed, "0", false},
		{"stream after text", openRouterChat, events(chunk, broken, "[DONE]"), stream, Failed, "0.000045", true},
		{"says what it used", openRouterChat, events(chunk, broken, `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"cost":0.5}}`, "[DONE]"), stream, Failed, "0.5", false},
		{"responses", "/openai/v1/responses", `{"id":"r","status":"failed","error":{"code":"server_error"}}`, document, Failed, "0", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := start(t)
			r.mock.Script(mockllm.Step{Body: []byte(c.body), Header: c.header})
			if a := r.post(c.path, ask); a.status != 200 || a.body != c.body {
				t.Errorf("%+v", a)
			}
			rec := r.record(1)
			if rec.End != c.end || rec.Cost == nil || *rec.Cost != usd(t, c.cost) || rec.Guessed != c.guessed || rec.Refused != "" {
				t.Errorf("%+v, cost %v", rec, rec.Cost)
			}
			g, _ := r.proxy.Grant(r.grant)
			if g.Totals.Failed != 1 || g.Totals.Answered != 0 || g.Totals.Unpriced != 0 || g.Totals.Last.End != c.end {
				t.Errorf("%+v", g.Totals)
			}
		})
	}
}

// Whatever the document says by then: it was announced to be longer.
func TestUpstreamThatDiesBehindAWholeDocumentIsCut(t *testing.T) {
	t.Parallel()
	doc := `{"type":"message","model":"m","content":[],"usage":{"input_tokens":100,"output_tokens":20}}`
	for name, framing := range map[string]string{
		"length":  "Content-Length: 5000\r\n\r\n" + doc,
		"chunked": fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(doc), doc),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := plainly(t, func(w io.Writer, _ string) {
				_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"+framing)
			})
			r := start(t, at(base))
			a := r.post(messages, ask)
			rec := r.record(1)
			if rec.End != Cut || a.err == nil || rec.Usage.Input != 100 || rec.Guessed {
				t.Errorf("%+v\n%+v", rec, a)
			}
			if rec.BytesOut != int64(len(a.body)) {
				t.Errorf("%d bytes are said to have gone out, %d came", rec.BytesOut, len(a.body))
			}
			if g, _ := r.proxy.Grant(r.grant); g.Totals.Answered != 0 {
				t.Errorf("%+v", g.Totals)
			}
		})
	}
}

func TestEndlessAnswerIsCutAndKeepsWhatItSaid(t *testing.T) {
	t.Parallel()
	start100 := "event: message_start\n" + events(`{"type":"message_start","message":{"model":"m","usage":{"input_tokens":100,"output_tokens":1}}}`)
	base := plainly(t, func(w io.Writer, _ string) {
		_, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"+start100+"data: ")
		for line := strings.Repeat("a", 64<<10); ; {
			if _, err := io.WriteString(w, line); err != nil {
				return // the proxy has had enough
			}
		}
	})
	r := start(t, at(base), func(_ *Config, o *Options) { o.Answer = 16 << 20 })
	a := r.post(messages, askStream)
	rec := r.record(1)
	if a.err == nil || len(a.body) > 16<<20 || rec.End != Cut {
		t.Errorf("%d bytes, %v, %+v", len(a.body), a.err, rec)
	}
	if rec.Usage.Input != 100 || rec.Usage.Output != 100 || !rec.Guessed {
		t.Errorf("%+v", rec)
	}
}

// What a stream says beyond belief is not what it used: the reservation is billed.
func TestNonsenseUsageInAStreamIsBilledAsReserved(t *testing.T) {
	t.Parallel()
	r := start(t)
	body := "event: message_start\n" + events(`{"type":"message_start","message":{"usage":{"input_tokens":-100,"output_tokens":1}}}`) +
		"event: message_delta\n" + events(`{"type":"message_delta","usage":{"output_tokens":-20}}`) + "event: message_stop\n" + events(`{"type":"message_stop"}`)
	r.mock.Script(mockllm.Step{Body: []byte(body), Header: http.Header{"Content-Type": {"text/event-stream"}}})
	r.post(messages, askStream)
	if rec := r.record(1); !rec.Guessed || rec.Usage.Output != 100 || rec.Usage.Input < 10 || rec.End != Complete {
		t.Errorf("%+v", rec)
	}
}

func TestAnswersThatAreNoHTTPAreNotUnreachable(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("X-Large: "+strings.Repeat("a", 1000)+"\r\n", 3000)
	for name, c := range map[string]struct {
		answer string
		want   wire.Reason
	}{
		"no HTTP":         {"\x00\xffnot http\r\n\r\n", wire.BadAnswer},
		"two lengths":     {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", wire.BadAnswer},
		"3 MB of headers": {"HTTP/1.1 200 OK\r\n" + large + "\r\n", wire.BadAnswer},
		"bad header":      {"HTTP/1.1 200 OK\r\nfoo bar\r\n\r\n", wire.BadAnswer},
		"nothing":         {"", wire.Down},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, once, at(plainly(t, func(w io.Writer, _ string) { _, _ = io.WriteString(w, c.answer) })))
			a := r.post(messages, ask)
			words := map[wire.Reason]string{wire.BadAnswer: "no HTTP that can be read", wire.Down: "cannot be reached"}[c.want]
			if a.header.Get(wire.Marker) != string(c.want) || !strings.Contains(a.body, words) {
				t.Errorf("%+v", a)
			}
			if rec := r.record(1); rec.Refused != c.want || rec.Cost == nil || *rec.Cost != 0 {
				t.Errorf("%+v", rec)
			}
		})
	}
}
