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
		"NO_PROXY": "localhost,127.0.0.1,::1", "no_proxy": "localhost,127.0.0.1,::1",
	}
	if got := a.Env(); !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// A proxy that an image names in its environment would see the token.
func TestTheWayToModelsLeadsThroughNoProxyOfTheImage(t *testing.T) {
	t.Parallel()
	for exempt, want := range map[string]string{
		",":                             "localhost,127.0.0.1,::1",
		"mirror.example,127.0.0.1,":     "localhost,127.0.0.1,::1,mirror.example",
		"a.example b.example,a.example": "localhost,127.0.0.1,::1,a.example,b.example",
		"*,*":                           "*",
	} {
		env := Access{Exempt: exempt}.Env()
		if env["NO_PROXY"] != want || env["no_proxy"] != want {
			t.Errorf("%q: got %v", exempt, env)
		}
	}
}
