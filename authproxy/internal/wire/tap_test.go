package wire

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func fixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tapped reads an answer in pieces of at most n bytes.
func tapped(f Format, kind string, body []byte, n int) Report {
	tap := NewTap(f, kind)
	for p := body; len(p) > 0; {
		k := min(len(p), 1+rand.IntN(n))
		tap.Write(p[:k])
		p = p[k:]
	}
	return tap.End()
}

func kindOf(name string) string {
	if strings.HasSuffix(name, ".sse") {
		return "text/event-stream; charset=utf-8"
	}
	return "application/json"
}

// Answers as recorded: each says the same usage, streamed or not, whatever the
// pieces in which it arrives.
func TestUsageOfRecordedAnswers(t *testing.T) {
	t.Parallel()
	anthropic := Usage{Input: 1000, CacheRead: 300, CacheWrite: 20, Output: 42}
	others := Usage{Input: 700, CacheRead: 300, Output: 42, Reasoning: 7}
	for prefix, want := range map[string]struct {
		format Format
		usage  Usage
	}{
		"anthropic-": {Messages, anthropic}, "openai-chat-": {Chat, others},
		"openai-responses-": {Responses, others}, "gemini-": {Generate, others},
	} {
		files, _ := filepath.Glob(filepath.Join("testdata", prefix+"*"))
		if len(files) < 3 {
			t.Fatalf("%d fixtures of %s", len(files), prefix)
		}
		for _, f := range files {
			name := filepath.Base(f)
			for _, eol := range []string{"\n", "\r\n", "\r"} {
				body := bytes.ReplaceAll(fixture(t, name), []byte("\n"), []byte(eol))
				for _, n := range []int{1, 7, 1 << 20} {
					r := tapped(want.format, kindOf(name), body, n)
					if r.Usage != want.usage || !r.Known || !r.Complete || r.Failed {
						t.Errorf("%s, line ends %q, pieces of %d: %+v", name, eol, n, r)
					}
				}
			}
		}
	}
}

func TestCutStreamsAreNotComplete(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		format Format
	}{
		{"anthropic-text.sse", Messages}, {"openai-chat-text.sse", Chat}, {"openai-responses-text-full.sse", Responses},
	} {
		body := fixture(t, c.name)
		events := bytes.SplitAfter(body, []byte("\n\n"))
		events = events[:len(events)-2] // the terminal one, and nothing
		r := tapped(c.format, "text/event-stream", bytes.Join(events, nil), 100)
		if r.Complete {
			t.Errorf("%s without its last event is complete", c.name)
		}
		if c.format == Responses && r.Text == 0 {
			t.Errorf("%s: no text is counted", c.name)
		}
	}
}

func TestLaterUsageWinsFieldByField(t *testing.T) {
	t.Parallel()
	body := event2("message_start", `{"type":"message_start","message":{"id":"x","model":"claude","usage":{"input_tokens":10,"cache_read_input_tokens":5,"output_tokens":1,"cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":4}}}}`) +
		event2("message_delta", `{"type":"message_delta","usage":{"output_tokens":50,"server_tool_use":{"web_search_requests":2}}}`) +
		event2("message_stop", `{"type":"message_stop"}`)
	r := tapped(Messages, "text/event-stream", []byte(body), 9)
	if r.Usage != (Usage{Input: 10, CacheRead: 5, CacheWrite: 3, CacheWriteLong: 4, Output: 50, Searches: 2}) || r.Model != "claude" {
		t.Errorf("%+v", r)
	}
}

func event2(name, data string) string { return fmt.Sprintf("event: %s\ndata: %s\n\n", name, data) }

// Row 2 of the public reports: a stated zero is not an estimate.
func TestRow02ExplicitZeroIsZero(t *testing.T) {
	t.Parallel()
	r := tapped(Chat, "application/json", []byte(`{"id":"x","choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0}}`), 5)
	if !r.Known || r.Usage != (Usage{}) {
		t.Errorf("%+v", r)
	}
}

func TestNonsenseIsNoUsage(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"usage":{"prompt_tokens":-5,"completion_tokens":-1}}`, `{"usage":null}`, `{"usage":{}}`, `{`, `[`, `"x"`,
		`{"usage":{"prompt_tokens":1e30,"completion_tokens":1e30}}`, `{"usage":"none"}`,
	} {
		if r := tapped(Chat, "application/json", []byte(body), 5); r.Known {
			t.Errorf("%s: %+v", body, r)
		}
	}
}

func TestErrorEventsAreSeen(t *testing.T) {
	t.Parallel()
	for format, body := range map[Format]string{
		Messages:  event2("error", `{"type":"error","error":{"type":"overloaded_error","message":"x"}}`),
		Chat:      "data: {\"error\":{\"message\":\"x\"}}\n\n",
		Responses: event2("response.failed", `{"type":"response.failed","response":{"error":{"code":"x"}}}`),
		Generate:  "data: {\"error\":{\"code\":503}}\n\n",
	} {
		if r := tapped(format, "text/event-stream", []byte(body), 50); !r.Failed {
			t.Errorf("format %d: %+v", format, r)
		}
	}
}

// What is too long to be looked into is passed over; what was said before it, and
// behind it, counts.
func TestAGiantEventLosesNothingElse(t *testing.T) {
	t.Parallel()
	giant := func(tap *Tap) {
		tap.Write([]byte("data: "))
		for range 9 {
			tap.Write(bytes.Repeat([]byte("x"), 1<<20))
		}
	}
	begun := func(format Format, event string) *Tap {
		tap := NewTap(format, "text/event-stream")
		tap.Write([]byte(event))
		giant(tap)
		return tap
	}
	start := event2("message_start", `{"type":"message_start","message":{"usage":{"input_tokens":100,"output_tokens":1}}}`)
	if r := begun(Messages, start).End(); r.Known || !r.InputKnown || r.Usage.Input != 100 || r.Text < 9<<20 {
		t.Errorf("cut within it: %+v", r)
	}
	tap := begun(Messages, start)
	tap.Write([]byte("\n\n" + event2("message_delta", `{"type":"message_delta","usage":{"output_tokens":20}}`) + event2("message_stop", `{"type":"message_stop"}`)))
	if r := tap.End(); !r.Known || !r.Complete || r.Usage != (Usage{Input: 100, Output: 20}) {
		t.Errorf("gone on behind it: %+v", r)
	}
	tap = begun(Chat, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\n")
	if r := tap.End(); r.Known {
		t.Errorf("what came later may have said more: %+v", r)
	}
	if len(tap.events.held) != 0 {
		t.Errorf("%d bytes of it are kept", len(tap.events.held))
	}
}

// Numbers that cannot be believed make usage unknown, wherever they come.
func TestNonsenseInAStreamIsNoUsage(t *testing.T) {
	t.Parallel()
	start := func(in string) string {
		return event2("message_start", `{"type":"message_start","message":{"usage":{"input_tokens":`+in+`,"output_tokens":1}}}`)
	}
	end := func(out string) string {
		return event2("message_delta", `{"type":"message_delta","usage":{"output_tokens":`+out+`}}`) + event2("message_stop", `{"type":"message_stop"}`)
	}
	for _, body := range []string{
		start("-100") + end("20"), start("100") + end("-20"), start("1e30") + end("20"), start(`"100"`) + end("20"), end("20"),
		start("100") + event2("message_delta", `{"type":"message_delta","usage":{"cache_read_input_tokens":-5}}`) + end("20"),
	} {
		if r := tapped(Messages, "text/event-stream", []byte(body), 50); r.Known || !r.Complete {
			t.Errorf("%s: %+v", body, r)
		}
	}
	if r := tapped(Messages, "text/event-stream", []byte(start("100")+end("20")), 50); !r.Known {
		t.Errorf("%+v", r)
	}
	for format, usage := range map[Format]string{
		Chat:     `{"usage":{"prompt_tokens":100,"completion_tokens":-1}}`,
		Generate: `{"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":-1}}`,
	} {
		if r := tapped(format, "text/event-stream", []byte("data: "+usage+"\n\n"), 50); r.Known {
			t.Errorf("%s: %+v", usage, r)
		}
	}
}

func TestUsageFilterTakesOneChunk(t *testing.T) {
	t.Parallel()
	body := fixture(t, "openai-chat-text.sse")
	events := bytes.SplitAfter(body, []byte("\n\n"))
	var want []byte
	for _, e := range events {
		if !bytes.Contains(e, []byte(`"choices": [], "usage": {`)) {
			want = append(want, e...)
		}
	}
	if len(want) == len(body) {
		t.Fatal("the fixture has no usage chunk")
	}
	for _, n := range []int{1, 13, 1 << 20} {
		var f UsageFilter
		var got []byte
		emit := func(p []byte) { got = append(got, p...) }
		for p := body; len(p) > 0; {
			k := min(n, len(p))
			f.Filter(p[:k], emit)
			p = p[k:]
		}
		f.End(emit)
		if !bytes.Equal(got, want) {
			t.Errorf("pieces of %d:\n%s", n, got)
		}
	}
}

// FuzzSSETap: any cutting gives the same report, and the events are the bytes.
func FuzzSSETap(f *testing.F) {
	for _, name := range []string{"anthropic-tool.sse", "openai-chat-tool.sse", "openai-responses-tool-min.sse", "gemini-text.sse"} {
		f.Add(fixture(f, name), uint8(3))
	}
	f.Add([]byte("\xef\xbb\xbfdata:x\r\rdata: y\r\n\r\n: c\n\n\n"), uint8(1))
	f.Fuzz(func(t *testing.T, body []byte, n uint8) {
		size := int(n) + 1
		for _, format := range []Format{Messages, Chat, Responses, Generate} {
			whole := NewTap(format, "text/event-stream")
			whole.Write(body)
			pieces := NewTap(format, "text/event-stream")
			for p := body; len(p) > 0; p = p[min(size, len(p)):] {
				pieces.Write(p[:min(size, len(p))])
			}
			if a, b := whole.End(), pieces.End(); a != b {
				t.Fatalf("format %d: whole %+v, in pieces %+v", format, a, b)
			}
		}
		var e Events
		var got []byte
		for p := body; len(p) > 0; p = p[min(size, len(p)):] {
			e.Feed(p[:min(size, len(p))], func(raw []byte) { got = append(got, raw...) })
		}
		if got = append(got, e.Rest()...); !bytes.Equal(got, body) {
			t.Fatalf("%q became %q", body, got)
		}
	})
}

// Attack 20 of the threat model, and row 32 of the public reports.
func TestAttack20RateLimitHeaders(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		header http.Header
		body   string
		want   time.Duration
		ok     bool
	}{
		{http.Header{"Retry-After": {"7"}}, "", 7 * time.Second, true},
		{http.Header{"Retry-After": {"1.5"}}, "", 1500 * time.Millisecond, true},
		{http.Header{"Retry-After": {"999999999"}}, "", 5 * time.Minute, true},
		{http.Header{"Retry-After": {"-1"}}, "", 0, false},
		{http.Header{"Retry-After": {"NaN"}}, "", 0, false},
		{http.Header{"Retry-After": {"+Inf"}}, "", 5 * time.Minute, true},
		{http.Header{"Retry-After": {"Fri, 02 Jan 2026 03:05:05 GMT"}}, "", time.Minute, true},
		{http.Header{"Retry-After": {"Wed, 01 Jan 2099 00:00:00 GMT"}}, "", 5 * time.Minute, true},
		{http.Header{"Retry-After-Ms": {"250"}, "Retry-After": {"1"}}, "", time.Second, true},
		{http.Header{"Anthropic-Ratelimit-Unified-Status": {"rejected"}, "Anthropic-Ratelimit-Unified-Reset": {fmt.Sprint(now.Unix() + 5400)}}, "", 90 * time.Minute, true},
		{http.Header{}, `{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}`, 34 * time.Second, true},
		{http.Header{}, "", 0, false},
	} {
		got, ok := RetryAfter(c.header, []byte(c.body), now)
		if got != c.want || ok != c.ok {
			t.Errorf("%v %s: %v %v", c.header, c.body, got, ok)
		}
	}
}

func TestRow32ExhaustedLimits(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		header http.Header
		want   time.Duration
	}{
		{http.Header{"Anthropic-Ratelimit-Requests-Remaining": {"0"}, "Anthropic-Ratelimit-Requests-Reset": {"2026-01-02T03:04:35Z"}}, 30 * time.Second},
		{http.Header{"X-Ratelimit-Remaining-Tokens": {"0"}, "X-Ratelimit-Reset-Tokens": {"1m2s"}}, 62 * time.Second},
		{http.Header{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"9"}}, 9 * time.Second},
		{http.Header{"X-Ratelimit-Remaining-Requests": {"-1"}, "X-Ratelimit-Reset-Requests": {"0"}}, 0},
		{http.Header{"X-Ratelimit-Remaining-Requests": {"5"}, "X-Ratelimit-Reset-Requests": {"9"}}, 0},
	} {
		if got, ok := Exhausted(c.header, now); got != c.want || ok != (c.want > 0) {
			t.Errorf("%v: %v %v", c.header, got, ok)
		}
	}
}

// What ends, or pauses, an agent at once depends on its path.
func TestRefusalsByPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path   string
		reason Reason
		status int
		text   string
	}{
		{"/anthropic/v1/messages", NoBudget, 402, "billing_error"},
		{"/openai/v1/responses", NoBudget, 400, `"code":"insufficient_quota"`},
		{"/openai/v1/responses", KeyRefused, 400, `"type":"invalid_request_error"`},
		{"/openai/v1/chat/completions", NoBudget, 401, `"code":"insufficient_quota"`},
		{"/gemini/v1beta/models/g:generateContent", NoBudget, 402, "RESOURCE_EXHAUSTED"},
		{"/openai/v1/responses", NoGrant, 400, "invalid_api_key"},
		{"/openai/v1/chat/completions", NoGrant, 401, "invalid_api_key"},
		{"/anthropic/v1/messages", KeyRefused, 402, "billing_error"},
		{"/openai/v1/responses", Upgrade, 426, "upgrade"},
		{"/openai/v1/chat/completions", Forbidden, 400, "model_not_found"},
		{"/admin", Unlisted, 404, "not_found"},
	} {
		status, h, body := (&Refusal{Reason: c.reason, Message: "the budget trial is used up"}).Answer(StyleOf(c.path), "id")
		if status != c.status || !strings.Contains(string(body), c.text) || h.Get(Marker) != string(c.reason) {
			t.Errorf("%s %s: %d %s", c.path, c.reason, status, body)
		}
		if !strings.Contains(string(body), `"source":"harborgate"`) {
			t.Errorf("%s does not say whose it is", body)
		}
		if stop := h.Get("X-Should-Retry") == "false"; stop == (c.reason == Upgrade) {
			t.Errorf("%s: x-should-retry %v", c.reason, h)
		}
	}
	_, h, body := (&Refusal{Reason: Busy, Message: "wait", After: 1200 * time.Millisecond}).Answer(StyleResponses, "id")
	if h.Get("Retry-After") != "2" || !strings.Contains(string(body), "try again in 2s") || h.Get("X-Should-Retry") != "" {
		t.Errorf("%v %s", h, body)
	}
}
