package authproxy

import (
	"strings"
	"testing"
	"time"
)

// A base URL without the version, or with two, is what most often is wrong.
func TestPathsThatAreNotServedSayWhereTheVersionGoes(t *testing.T) {
	t.Parallel()
	r := start(t)
	for path, want := range map[string]string{
		"/openai/chat/completions":       "/v1/chat/completions is: let the base URL end with /openai/v1",
		"/anthropic/v1/v1/messages":      "let the base URL end with /anthropic, without /v1",
		"/anthropic/v1/no/such":          "this path is not served",
		"/openai/v1/v1/chat/completions": "let the base URL end with /openai, without /v1",
	} {
		if a := r.post(path, ask); a.status != 404 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

func TestAGrantForAPatternThatFitsNoModelIsRefused(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, model := range []string{"*x", "", "a*b", "a**"} {
		spec := GrantSpec{Job: "j", Trial: "t", Phase: "agent", Upstreams: []string{"anthropic"}, Models: []string{model}, Expires: time.Now().Add(time.Hour)}
		if _, _, err := r.proxy.Mint(spec); err == nil || !strings.Contains(err.Error(), "with a final *") {
			t.Errorf("%q: %v", model, err)
		}
	}
}
