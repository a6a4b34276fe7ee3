package authproxy

import (
	"net/http"
	"strings"
	"testing"

	"harborgate/internal/mockllm"
)

// Searches by the provider cost extra: under a budget of money they need a price, and
// are part of what a request may come to.
func TestSearchesOfTheProviderAreWithinTheBudget(t *testing.T) {
	t.Parallel()
	search := price("1", "10")
	search.Search = usd(t, "0.01")
	r := start(t, with(func(u *Upstream) { u.Prices = map[string]Price{"m": price("1", "10"), "s": search} }))
	r.mock.Always(func(mockllm.Request) mockllm.Step { return mockllm.Step{Text: "x"} })
	tight := func(trial, money string) {
		r.token, _ = r.mint(GrantSpec{Trial: trial, Trials: Sum{Money: usd(t, money)}})
	}
	anthropic := func(model, tool string) (path, body string) {
		return messages, `{"model":"` + model + `","max_tokens":100,"messages":[],"tools":[` + tool + `]}`
	}
	responses := func(tool string) (path, body string) {
		return "/openai/v1/responses", `{"model":"m","max_output_tokens":100,"input":[],"tools":[` + tool + `]}`
	}
	check := func(status int, words string) func(path, body string) {
		return func(path, body string) {
			t.Helper()
			if a := r.post(path, body); a.status != status || !strings.Contains(a.body, words) {
				t.Errorf("%s: %d %s, want %d %s", body, a.status, a.body, status, words)
			}
			r.record(1)
		}
	}
	tight("no price", "1")
	check(http.StatusForbidden, "search")(anthropic("m", `{"type":"web_search_20250305","name":"web_search"}`))
	check(http.StatusForbidden, "search")(anthropic("m", `{"type":"web\u005fsearch_20250305","type":"custom","name":"x"}`))
	check(http.StatusBadRequest, "search")(responses(`{"type":"web_search_preview"}`))
	check(http.StatusForbidden, "search")("/gemini/v1beta/models/m:generateContent", `{"contents":[],"tools":[{"googleSearch":{}}]}`)
	check(http.StatusOK, "")(anthropic("m", `{"name":"web_search","description":"a search of the client's","input_schema":{"type":"object"}}`))
	tight("a price", "0.05")
	check(http.StatusPaymentRequired, "may come to about 0.1")(anthropic("s", `{"type":"web_search_20250305","name":"web_search"}`))
	check(http.StatusOK, "")(anthropic("s", `{"type":"web_search_20250305","name":"web_search","max_uses":3}`))
	r.token, _ = r.mint(GrantSpec{Trial: "no budget"})
	check(http.StatusOK, "")(anthropic("m", `{"type":"web_search_20250305","name":"web_search"}`))
}
