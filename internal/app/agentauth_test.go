package app

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestAgentAuthNamesAndNeverShows(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, "", `upstreams: {main: {dialect: openai, keys: ["env:MAIN", "command:/bin/echo secret-argument"]}}`)
	lookup := r.app.opt.Lookup
	r.app.opt.Lookup = func(name string) (string, bool) {
		if name == "OPENAI_API_KEY" || name == "GEMINI_API_KEY" {
			return realKey, true
		}
		return lookup(name)
	}
	got, err := r.app.AgentAuth(t.Context(), "codex")
	if err != nil || got.Service != "" || len(got.Upstreams) != 1 || got.Upstreams[0].From != "config.yaml" || !slices.Equal(got.Upstreams[0].Keys, []string{"env:MAIN", "command:/bin/echo"}) {
		t.Errorf("%+v %v", got, err)
	}
	if i := slices.IndexFunc(got.Variables, func(v AuthVariable) bool { return v.Name == "OPENAI_API_KEY" }); i < 0 || !got.Variables[i].Set || got.Variables[i].Used {
		t.Errorf("variables %+v", got.Variables)
	}
	text, err := json.Marshal(got)
	if err != nil || strings.Contains(string(text), realKey) || strings.Contains(string(text), "secret-argument") || strings.Contains(string(text), "GEMINI") {
		t.Errorf("%s %v", text, err)
	}
	if none, err := r.app.AgentAuth(t.Context(), "oracle"); err != nil || none.Models || len(none.Variables)+len(none.Upstreams) != 0 {
		t.Errorf("%+v %v", none, err)
	}
	if _, err := r.app.AgentAuth(t.Context(), "codecs"); err == nil || !strings.Contains(err.Error(), "is not known") {
		t.Errorf("got %v", err)
	}
}

func TestAgentAuthOfAService(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, "", "")
	socket := r.serve()
	got, err := r.app.AgentAuth(t.Context(), "claude-code")
	if err != nil || got.Service != socket || len(got.Upstreams) != 1 || got.Upstreams[0].From != "service" {
		t.Errorf("%+v %v", got, err)
	}
	if i := slices.IndexFunc(got.Variables, func(v AuthVariable) bool { return v.Used }); i >= 0 {
		t.Errorf("the service does not use %+v of this process", got.Variables[i])
	}
}
