package authproxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// lister answers each request as answer says, and remembers the latest.
type lister struct {
	*httptest.Server
	latest *http.Request
}

func listing(t *testing.T, answer http.HandlerFunc) *lister {
	t.Helper()
	l := &lister{}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.latest = r
		answer(w, r)
	}))
	t.Cleanup(l.Close)
	return l
}

func at(base string) change {
	return with(func(u *Upstream) { u.BaseURL = base })
}

func TestModelsAreAskedOfTheUpstream(t *testing.T) {
	t.Parallel()
	for dialect, want := range map[string]struct{ uri, header, value string }{
		"anthropic":  {"/v1/models?limit=1000", "X-Api-Key", canary},
		"openai":     {"/models", "Authorization", "Bearer " + canary},
		"gemini":     {"/v1beta/models?pageSize=1000", "X-Goog-Api-Key", canary},
		"openrouter": {"/models", "Authorization", "Bearer " + canary},
	} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			l := listing(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, `{"data":[{"id":"gpt-5"},{"id":"gpt-6"},{"id":"other"}]}`)
			})
			r := start(t, at(l.URL), with(func(u *Upstream) { u.Models = []string{"gpt-*"} }))
			got, err := r.proxy.Models(t.Context(), dialect)
			if err != nil || len(got) != 2 || got[0].ID != "gpt-5" {
				t.Errorf("%v %v", got, err)
			}
			if l.latest.URL.RequestURI() != want.uri || l.latest.Header.Get(want.header) != want.value || l.latest.Method != http.MethodGet {
				t.Errorf("%s %s %v", l.latest.Method, l.latest.URL, l.latest.Header)
			}
		})
	}
}

func TestModelsThatCannotBeAskedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"refused": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, canary, http.StatusUnauthorized) }, "401"},
		"no list": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "no list of models"},
		"echoed key": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"data":[{"id":"`+canary+`"}]}`)
		}, "has the key in it"},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://example.org/", http.StatusFound)
		}, "302"},
		"cut": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "cannot be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, at(listing(t, c.answer).URL))
			got, err := r.proxy.Models(t.Context(), "openai")
			if err == nil || got != nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "upstream openai") {
				t.Fatalf("%v %v", got, err)
			}
			r.noCanary("error", err.Error())
		})
	}
	r := start(t)
	if _, err := r.proxy.Models(t.Context(), "nobody"); err == nil || !strings.Contains(err.Error(), `no upstream "nobody"`) {
		t.Errorf("got %v", err)
	}
}
