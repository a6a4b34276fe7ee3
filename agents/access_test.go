package agents

import (
	"maps"
	"testing"
)

func TestAccessAsVariables(t *testing.T) {
	t.Parallel()
	a := Access{URL: "http://127.0.0.1:7", Token: "hgt", Upstreams: []Upstream{
		{Name: "main", Dialect: "openai"}, {Name: "other", Dialect: "openai", Keys: []string{"JUDGE_KEY"}}, {Name: "g", Dialect: "gemini"},
	}}
	want := map[string]string{
		"OPENAI_BASE_URL": "http://127.0.0.1:7/main/v1", "OPENAI_API_BASE": "http://127.0.0.1:7/main/v1", "OPENAI_API_KEY": "hgt",
		"GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:7/g", "GEMINI_API_KEY": "hgt", "JUDGE_KEY": "hgt",
	}
	if got := a.Env(); !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}
