package probe

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"harborgate/authproxy"
	"harborgate/internal/mockllm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "sk-ant-CANARY+probe/0123456789abcdef"

// rig is a proxy of this process before a mock.
func rig(t *testing.T, base string, change func(*authproxy.Upstream)) Proxy {
	t.Helper()
	u := authproxy.Upstream{Dialect: "anthropic", BaseURL: base, Local: true, Attempts: 1, Keys: []authproxy.KeyRef{"env:ONE"}, Models: []string{"m*", "model-1"}}
	if change != nil {
		change(&u)
	}
	p, err := authproxy.New(authproxy.Options{
		Log: slog.New(slog.DiscardHandler),
		Load: func() (authproxy.Config, error) {
			return authproxy.Config{Upstreams: map[string]authproxy.Upstream{"up": u}}, nil
		},
		Sources: authproxy.Sources{LookupEnv: func(name string) (string, bool) { return canary + name, true }},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	if err := p.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	return Own(p)
}

func probe(t *testing.T, p Proxy, model string) Result {
	t.Helper()
	s, err := p.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := Upstream(t.Context(), p, s.Upstreams[0], model)
	if strings.Contains(strings.Join(append(r.Keys, r.Problem, r.Next), " "), "CANARY") {
		t.Errorf("a key is in %+v", r)
	}
	s, err = p.Status(t.Context())
	if err != nil || len(s.Grants) != 0 {
		t.Errorf("a grant was left: %+v %v", s.Grants, err)
	}
	return r
}

func mock(t *testing.T) (*mockllm.Server, string) {
	t.Helper()
	m := mockllm.New()
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	return m, s.URL
}

func TestEachDialectIsAskedInItsOwnWay(t *testing.T) {
	t.Parallel()
	for dialect, path := range map[authproxy.Dialect]string{
		"anthropic": "/v1/messages", "openai": "/v1/chat/completions", "gemini": "/v1beta/models/model-1:generateContent", "openrouter": "/v1/chat/completions",
	} {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			m, base := mock(t)
			if dialect == "openai" || dialect == "openrouter" {
				base += "/v1"
			}
			r := probe(t, rig(t, base, func(u *authproxy.Upstream) { u.Dialect = dialect }), "")
			if !r.OK || r.Model != "model-1" || r.Status != http.StatusOK || r.Problem != "" {
				t.Errorf("%+v", r)
			}
			if q := m.Requests(); len(q) != 1 || q[0].Path != path || len(q[0].Body) > 200 {
				t.Errorf("%+v", q)
			}
		})
	}
}

func TestProblemsAreSaidInWords(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		step mockllm.Step
		want []string
	}{
		"key":         {mockllm.Step{Status: 401}, []string{"no key of it is accepted", "env:ONE is not valid (401)", "harbor auth reload"}},
		"credit":      {mockllm.Step{Status: 402}, []string{"env:ONE has no quota or credit left (402)"}},
		"quota":       {mockllm.Step{Status: 429, Body: []byte(`{"error":{"type":"insufficient_quota","message":"you exceeded your quota"}}`)}, []string{"env:ONE has no quota or credit left (429)"}},
		"model":       {mockllm.Step{Status: 404, Body: []byte(`{"error":{"message":"model: model-1"}}`)}, []string{"does not know the model model-1: model: model-1", "--model"}},
		"limit":       {mockllm.Step{Status: 429, Header: http.Header{"Retry-After": {"3000"}}}, []string{"limit"}},
		"permission":  {mockllm.Step{Status: 403, Body: []byte(`{"error":{"message":"not in your region"}}`)}, []string{"not in your region", "permission"}},
		"overloaded":  {mockllm.Step{Status: 529, Header: http.Header{"Retry-After": {"3000"}}}, []string{"529", "later"}},
		"other":       {mockllm.Step{Status: 418, Body: []byte(`{"error":{"message":"a\nteapot"}}`)}, []string{"418: a teapot", "upstreams.up"}},
		"elsewhere":   {mockllm.Step{Status: 302, Body: []byte("x"), Header: http.Header{"Location": {"https://example.org"}}}, []string{"sends elsewhere"}},
		"echoed keys": {mockllm.Step{Status: 400, Body: []byte(`{"error":{"message":"bad ` + canary + `ONE"}}`)}, []string{"400"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, base := mock(t)
			m.Script(c.step)
			r := probe(t, rig(t, base, nil), "")
			text := strings.Join(append(r.Keys, r.Problem, r.Next), " ")
			if r.OK {
				t.Errorf("%+v", r)
			}
			for _, w := range c.want {
				if !strings.Contains(text, w) {
					t.Errorf("no %q in %+v", w, r)
				}
			}
		})
	}
}

func TestOneOfTwoKeysIsRefused(t *testing.T) {
	t.Parallel()
	m, base := mock(t)
	m.Script(mockllm.Step{Status: 401})
	r := probe(t, rig(t, base, func(u *authproxy.Upstream) { u.Keys = []authproxy.KeyRef{"env:ONE", "env:TWO"}; u.Attempts = 2 }), "")
	if !r.OK || len(r.Keys) != 1 || !strings.Contains(r.Keys[0], "is not valid (401)") {
		t.Errorf("%+v", r)
	}
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	_ = l.Close()
	tls := httptest.NewUnstartedServer(mockllm.New())
	tls.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	tls.StartTLS()
	defer tls.Close()
	for base, want := range map[string]string{
		"http://" + at:                 "nobody listens at " + at,
		"http://no-such-host.invalid/": "no-such-host.invalid",
		tls.URL:                        "whom this host trusts",
	} {
		r := probe(t, rig(t, base, nil), "")
		if r.OK || !strings.Contains(r.Problem, want) || r.Next == "" {
			t.Errorf("%s: %+v", base, r)
		}
	}
}

func TestWhichModelIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		u    authproxy.UpstreamStatus
		want string
	}{
		{authproxy.UpstreamStatus{Dialect: "anthropic", Base: "https://api.anthropic.com"}, "claude-haiku-4-5"},
		{authproxy.UpstreamStatus{Dialect: "openai", Base: "https://api.openai.com/v1"}, "gpt-5-nano"},
		{authproxy.UpstreamStatus{Dialect: "openai", Base: "http://10.0.0.5:8000/v1"}, ""},
		{authproxy.UpstreamStatus{Dialect: "openai", Base: "http://10.0.0.5:8000/v1", Models: []string{"q*", "qwen"}}, "qwen"},
	} {
		if got := choose(c.u); got != c.want {
			t.Errorf("%+v: %q", c.u, got)
		}
	}
	m, base := mock(t)
	r := probe(t, rig(t, base, func(u *authproxy.Upstream) { u.Models = nil }), "")
	if r.OK || !strings.Contains(r.Next, "--model") || len(m.Requests()) != 0 {
		t.Errorf("%+v", r)
	}
	if r := probe(t, rig(t, base, func(u *authproxy.Upstream) { u.Models = nil }), "mine"); !r.OK || r.Model != "mine" {
		t.Errorf("%+v", r)
	}
}
