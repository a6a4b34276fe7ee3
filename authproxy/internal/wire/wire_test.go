package wire

import (
	"net/http"
	"strings"
	"testing"
)

func TestMatchListsOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dialect      Dialect
		method, path string
		ok, known    bool
		model        string
	}{
		{Anthropic, "POST", "/v1/messages", true, true, ""},
		{Anthropic, "GET", "/v1/messages", false, true, ""},
		{Anthropic, "POST", "/v1/messages/batches", false, false, ""},
		{Anthropic, "POST", "/api/oauth/claude_cli/create_api_key", false, false, ""},
		{Anthropic, "POST", "/v1/oauth/token", false, false, ""},
		{Anthropic, "GET", "/v1/organizations/me", false, false, ""},
		{Anthropic, "GET", "/v1/files", false, false, ""},
		{OpenAI, "POST", "/v1/responses", true, true, ""},
		{OpenAI, "GET", "/v1/responses/resp_1", false, false, ""},
		{OpenAI, "DELETE", "/v1/responses/resp_1", false, false, ""},
		{OpenAI, "POST", "/v1/files", false, false, ""},
		{OpenAI, "POST", "/v1/batches", false, false, ""},
		{OpenAI, "POST", "/v1/chat/completions/", false, false, ""},
		{Gemini, "POST", "/v1beta/models/gemini-2.5-pro:generateContent", true, true, "gemini-2.5-pro"},
		{Gemini, "POST", "/v1/models/g:streamGenerateContent", true, true, "g"},
		{Gemini, "POST", "/v1beta/models/a:b:generateContent", false, false, ""},
		{Gemini, "POST", "/v1beta/models/..:generateContent", false, false, ""},
		{Gemini, "POST", "/v1beta/models/a/b:generateContent", false, false, ""},
		{Gemini, "POST", "/v1beta/cachedContents", false, false, ""},
		{OpenRouter, "GET", "/v1/key", false, false, ""},
		{OpenRouter, "GET", "/v1/credits", false, false, ""},
	} {
		spec, _ := SpecOf(c.dialect)
		_, model, ok, known := spec.Match(c.method, c.path)
		if ok != c.ok || known != c.known || model != c.model {
			t.Errorf("%s %s %s: %q %v %v", c.dialect, c.method, c.path, model, ok, known)
		}
	}
}

// Attack 3 of the threat model.
func TestAttack03PathConfusion(t *testing.T) {
	t.Parallel()
	for _, p := range []string{
		"", "v1/messages", "//v1/messages", "/v1//messages", "/v1/./messages", "/v1/../messages", "/v1/messages/", "/v1/messages/..",
		"/v1/%2e%2e/admin", "/v1/messages%2f", "/v1%5cmessages", `/v1\messages`, "/v1/messages%00", "/v1/messages;x=1", "/v1/messages\x00",
		"/v1/m\u00e9ssages", "/v1/messages ", "/v1/\tmessages", "/v1/messages#x", "/v1/messages?x", "/%76%31/messages", "/v1/mess\x7fages",
		"/.", "/..", "/", `/v1/"messages"`, "/v1/<messages>", "/v1/{model}", "/v1/messages\r\nX: y", "/v1/mess\nages",
	} {
		if CleanPath(p) {
			t.Errorf("%q passes", p)
		}
	}
	for _, p := range []string{"/v1/messages", "/a/v1beta/models/gemini-2.5-pro:generateContent", "/x@y/z"} {
		if !CleanPath(p) {
			t.Errorf("%q is refused", p)
		}
	}
}

func FuzzRouteMatch(f *testing.F) {
	for _, p := range []string{"/v1/messages", "/v1beta/models/a:generateContent", "/v1/../x", "/v1/models/a:b"} {
		f.Add("POST", p)
	}
	f.Fuzz(func(t *testing.T, method, path string) {
		for _, d := range []Dialect{Anthropic, OpenAI, Gemini, OpenRouter} {
			spec, _ := SpecOf(d)
			r, model, ok, _ := spec.Match(method, path)
			if !ok {
				continue
			}
			if want := strings.Replace(r.Path, "{model}", model, 1); want != path || method != r.Method || !CleanPath(path) {
				t.Errorf("%s: %q %q matched %+v", d, method, path, r)
			}
		}
	})
}

func TestOutboundIsAnAllowList(t *testing.T) {
	t.Parallel()
	spec, _ := SpecOf(Anthropic)
	in := http.Header{
		"Anthropic-Beta":        {"a,b", "c"}, // two lines, byte for byte
		"Anthropic-Version":     {"2023-06-01"},
		"X-Claude-Code-Session": {"s"},
		"Content-Type":          {"application/json"},
		"Accept-Encoding":       {"br, zstd"},
		"X-Api-Key":             {"t"},
		"Authorization":         {"Bearer t"},
		"Cookie":                {"c"},
		"Connection":            {"close, X-Api-Key, Anthropic-Beta"},
		"X-Forwarded-For":       {"1.2.3.4"},
		"x_api_key":             {"t"},
		"Openai-Organization":   {"o"},
		"Proxy-Authorization":   {"p"},
		"Te":                    {"trailers"},
		"Idempotency-Key":       {"i"},
		"Expect":                {"100-continue"},
	}
	out := spec.Outbound(in)
	want := []string{"Accept-Encoding", "Anthropic-Beta", "Anthropic-Version", "Content-Type", "User-Agent", "X-Claude-Code-Session"}
	if len(out) != len(want) {
		t.Errorf("out: %v", out)
	}
	for _, name := range want {
		if _, ok := out[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	if got := out["Anthropic-Beta"]; len(got) != 2 || got[0] != "a,b" || got[1] != "c" {
		t.Errorf("betas: %q", got)
	}
	if out.Get("Accept-Encoding") != "identity" {
		t.Error("the answer may come compressed")
	}
}

func FuzzHeaderPolicy(f *testing.F) {
	f.Add("X-Api-Key", "secret")
	f.Add("x_api_key", "secret")
	f.Add("Connection", "close, X-Api-Key")
	f.Fuzz(func(t *testing.T, name, value string) {
		h := http.Header{}
		h.Set(name, value)
		for _, d := range []Dialect{Anthropic, OpenAI, Gemini, OpenRouter} {
			spec, _ := SpecOf(d)
			for got := range spec.Outbound(h) {
				lower := strings.ToLower(got)
				for _, bad := range []string{"authorization", "api-key", "api_key", "cookie", "connection", "forwarded", "upgrade", "transfer-encoding", "content-length", "host", "trailer"} {
					if strings.Contains(lower, bad) && !strings.HasPrefix(lower, "anthropic-") && !strings.HasPrefix(lower, "x-c") && !strings.HasPrefix(lower, "x-stainless-") {
						t.Errorf("%s: %q passes", d, got)
					}
				}
			}
		}
	})
}

// Attack 34 of the threat model.
func TestAttack34ResponseHeaders(t *testing.T) {
	t.Parallel()
	in := http.Header{
		"Content-Type": {"text/event-stream"}, "Request-Id": {"req_1"}, "Retry-After": {"7"},
		"Set-Cookie": {"a=b"}, "Www-Authenticate": {"Basic"}, "Authentication-Info": {"x"}, "Alt-Svc": {"h3"}, "Location": {"http://evil"},
		"Server-Timing": {"x"}, "Anthropic-Organization-Id": {"org"}, "Openai-Organization": {"org"}, "Access-Control-Allow-Origin": {"*"},
		"Strict-Transport-Security": {"x"}, "X-Ratelimit-Remaining-Tokens": {"1"}, "Anthropic-Ratelimit-Requests-Limit": {"1"},
		Marker: {"budget"}, "Connection": {"close"}, "Content-Length": {"3"},
	}
	out := Inbound(in)
	if len(out) != 3 || out.Get("Content-Type") == "" || out.Get("Request-Id") == "" || out.Get("Retry-After") != "7" {
		t.Errorf("out: %v", out)
	}
}

func TestCheckHeader(t *testing.T) {
	t.Parallel()
	for _, h := range []http.Header{
		{"X-Api-Key": {"a", "a"}},
		{"Authorization": {"Bearer a", "Bearer b"}},
		{"Content-Type": {"a", "b"}},
		{"Content-Encoding": {"gzip"}},
	} {
		if CheckHeader(h) == nil {
			t.Errorf("%v passes", h)
		}
	}
	if err := CheckHeader(http.Header{"Content-Encoding": {"identity"}, "Anthropic-Beta": {"a", "b"}}); err != nil {
		t.Error(err)
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	gemini, _ := SpecOf(Gemini)
	out, keys, err := gemini.Query("alt=sse&key=t&evil=1&key=u")
	if out != "alt=sse" || len(keys) != 2 || err != nil {
		t.Errorf("%q %q %v", out, keys, err)
	}
	if _, _, err := gemini.Query("key=vt&key=2;alt=sse"); err == nil {
		t.Error("a query that reads in two ways passes")
	}
	anthropic, _ := SpecOf(Anthropic)
	if out, _, _ := anthropic.Query("beta=true&alt=sse"); out != "beta=true" {
		t.Error(out)
	}
}

func TestCredentialsOfEverySlot(t *testing.T) {
	t.Parallel()
	h := http.Header{"X-Api-Key": {"a"}, "Api-Key": {"b"}, "X-Goog-Api-Key": {"c"}, "Authorization": {"bearer  d", "Basic e"}}
	if got := strings.Join(Credentials(h), "|"); got != "a|b|c|d|Basic e" {
		t.Error(got)
	}
}

func TestSpecsAreWhole(t *testing.T) {
	t.Parallel()
	for _, d := range []Dialect{Anthropic, OpenAI, Gemini, OpenRouter} {
		s, ok := SpecOf(d)
		if !ok || s.Default == "" || len(s.Routes) == 0 {
			t.Errorf("%s: %+v", d, s)
		}
		for _, r := range s.Routes {
			if r.Cost == Billed && r.Format == Meta {
				t.Errorf("%s %s is billed and has no meter", r.Method, r.Path)
			}
			if !strings.HasPrefix(r.Path, s.Version) {
				t.Errorf("%s does not begin with %s", r.Path, s.Version)
			}
		}
	}
	for _, d := range []Dialect{"vertex", "bedrock"} {
		if Unsupported(d) == "" {
			t.Errorf("nothing is said about %s", d)
		}
	}
}
