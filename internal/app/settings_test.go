package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"harborgate/agents/settings"
	"harborgate/authproxy"
)

func offered() []Offer {
	at := func(name, dialect string, models ...string) Offer {
		o := Offer{Upstream: name, Dialect: dialect, BaseURL: "http://h:1/" + name}
		for _, m := range models {
			o.Models = append(o.Models, authproxy.Model{ID: m})
		}
		return o
	}
	return []Offer{at("anthropic", "anthropic", "claude-x"), at("dead", "openai"), at("house", "openai", "meta/llama", "gpt-5"), at("openai", "openai", "gpt-5", "gpt-6"), at("g", "gemini", "gemini-x")}
}

func formatNamed(t *testing.T, name string) SettingsFormat {
	t.Helper()
	all := SettingsFormats()
	i := slices.IndexFunc(all, func(f SettingsFormat) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("no format %s", name)
	}
	return all[i]
}

func TestSettingsOfOffers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		format, model string
		want          []string // parts of the settings, or of the error
		not           string
		fails         bool
	}{
		"omp":                      {"models.yml", "", []string{"harbor-anthropic:", "harbor-house:", "harbor-openai:", "harbor-g:", "id: meta/llama", "apiKey: T"}, "dead", false},
		"codex":                    {"codex", "", []string{`model_provider = 'harbor-house'`}, "harbor-anthropic", false},
		"codex, a model":           {"codex", "gpt-6", []string{`model = 'gpt-6'`, `model_provider = 'harbor-openai'`}, "", false},
		"codex, of an upstream":    {"codex", "openai/gpt-5", []string{`model = 'gpt-5'`, `model_provider = 'harbor-openai'`}, "", false},
		"a name with a slash":      {"codex", "house/meta/llama", []string{`model = 'meta/llama'`, `model_provider = 'harbor-house'`}, "", false},
		"a whole name":             {"opencode", "meta/llama", []string{`"model": "harbor-house/meta/llama"`}, "", false},
		"claude":                   {"claude", "", []string{`"http://h:1/anthropic"`, "printenv T"}, "", false},
		"gemini":                   {"gemini", "gemini-x", []string{`"name": "gemini-x"`, "export GOOGLE_GEMINI_BASE_URL='http://h:1/g'", `export GEMINI_API_KEY="$T"`}, "OPENAI", false},
		"qwen, two upstreams":      {"qwen", "", []string{"has room for one upstream: name one of house, openai"}, "", true},
		"qwen, a model tells":      {"qwen", "gpt-6", []string{"export OPENAI_BASE_URL='http://h:1/openai/v1'"}, "", false},
		"env":                      {"env", "", []string{"export OPENAI_BASE_URL='http://h:1/house/v1'", "export ANTHROPIC_BASE_URL='http://h:1/anthropic'"}, "dead", false},
		"env, a model comes first": {"env", "openai/gpt-6", []string{"export OPENAI_BASE_URL='http://h:1/openai/v1'"}, "", false},
		"no such model":            {"codex", "claude-x", []string{"no upstream with model claude-x for Codex, which speaks openai, openrouter"}, "", true},
	} {
		text, beside, err := SettingsQuery{formatNamed(t, c.format), settings.Key{Variable: "T"}, c.model}.Settings(offered())
		got := text + beside
		if err != nil {
			got = err.Error()
		}
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
		for _, part := range c.want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %q is not in\n%s", name, part, got)
			}
		}
		if c.not != "" && strings.Contains(got, c.not) {
			t.Errorf("%s: %q is in\n%s", name, c.not, got)
		}
	}
	if _, _, err := (SettingsQuery{formatNamed(t, "codex"), settings.Key{Variable: "T"}, ""}).Settings([]Offer{{Upstream: "o", Dialect: "openai", Models: []authproxy.Model{{ID: "m"}}}}); err == nil || !strings.Contains(err.Error(), "auth.listen") {
		t.Errorf("got %v", err)
	}
}

func TestSettingsReplaceOnlyTheirOwn(t *testing.T) {
	t.Parallel()
	a := newApp(t, hostOf(t, nil))
	path := filepath.Join(t.TempDir(), "new", "models.yml")
	for _, text := range []string{"one", "two"} {
		if err := a.WriteSettings(path, text); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(path)
		if got, rerr := os.ReadFile(path); err != nil || rerr != nil || string(got) != text || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s %v %v", got, fi.Mode(), rerr)
		}
	}
	put(t, path, "mine")
	if err := a.WriteSettings(path, "three"); err == nil || !strings.Contains(err.Error(), "harbor did not write") {
		t.Errorf("got %v", err)
	}
	if err := a.WriteSettings(path, "mine"); err != nil { // nothing is lost
		t.Error(err)
	}
	put(t, path, "")
	if err := a.WriteSettings(path, "mine"); err != nil {
		t.Errorf("an empty file: %v", err)
	}
	if err := a.WriteSettings(filepath.Dir(path), "x"); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a directory: %v", err)
	}
	dangling := filepath.Join(t.TempDir(), "dangling")
	if err := os.Symlink("/no/such/file", dangling); err != nil {
		t.Fatal(err)
	}
	if err := a.WriteSettings(dangling, "x"); err == nil || !strings.Contains(err.Error(), "is a link") {
		t.Errorf("a dangling link: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := a.WriteSettings(link, "mine"); err == nil {
		t.Error("a link was replaced")
	}
	if got, err := os.ReadFile(path); string(got) != "mine" || err != nil {
		t.Errorf("%s %v", got, err)
	}
}

func TestSettingsWithoutListsNeedNoAnswer(t *testing.T) {
	t.Parallel()
	down := Offer{Upstream: "g", Dialect: "gemini", BaseURL: "http://h:1/g", Problem: "it cannot be reached"}
	for _, model := range []string{"", "g/gemini-9"} {
		_, beside, err := (SettingsQuery{formatNamed(t, "gemini"), settings.Key{Variable: "T"}, model}).Settings([]Offer{down})
		if err != nil || !strings.Contains(beside, "http://h:1/g") {
			t.Errorf("%q: %q %v", model, beside, err)
		}
	}
	if _, _, err := (SettingsQuery{formatNamed(t, "models.json"), settings.Key{Variable: "T"}, ""}).Settings([]Offer{down}); err == nil {
		t.Error("a list of no models was written")
	}
}

func TestProxyAddressIsCheckedAndNotRepeated(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{"": true, "http://h:1": true, "foo": false, "http://u:pass5c1e@b:1": false, "http://h?x=1": false, "ftp://h": false} {
		if err := (OfferQuery{URL: text}).Check(); (err == nil) != ok || err != nil && strings.Contains(err.Error(), "pass5c1e") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestOffersOfTheService(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, "", `upstreams:
  one: {dialect: anthropic, base_url: "UPSTREAM", keys: ["env:ANTHROPIC_API_KEY"], local: true}
  two: {dialect: openai, base_url: "UPSTREAM/v1", keys: ["env:ANTHROPIC_API_KEY"], local: true, models: ["x-*"]}
  three: {dialect: openai, base_url: "http://127.0.0.1:1/v1", keys: ["env:ANTHROPIC_API_KEY"], local: true, models: [known, "x-*"]}
`)
	check := func(offers []Offer, err error) {
		t.Helper()
		if err != nil || len(offers) != 3 {
			t.Fatalf("%+v %v", offers, err)
		}
		one, three, two := offers[0], offers[1], offers[2]
		if one.Problem != "" || len(one.Models) != 1 || one.Models[0].ID != "mock" || two.Problem != "" || len(two.Models) != 0 ||
			!strings.HasPrefix(three.Problem, "upstream three: it cannot be reached") || len(three.Models) != 1 || three.Models[0].ID != "known" {
			t.Errorf("%+v", offers)
		}
		if text, err := json.Marshal(offers); err != nil || strings.Contains(string(text), realKey) {
			t.Errorf("%s %v", text, err)
		}
	}
	check(r.app.AuthModels(t.Context(), OfferQuery{}))
	r.serve()
	check(r.app.AuthModels(t.Context(), OfferQuery{URL: "http://h:1/"}))
	if _, err := r.app.AuthModels(t.Context(), OfferQuery{Upstreams: []string{"four"}}); err == nil || !strings.Contains(err.Error(), `no upstream "four": there are one, three, two`) {
		t.Errorf("got %v", err)
	}
	if _, err := r.app.AuthModels(t.Context(), OfferQuery{Grant: "0123"}); err == nil || !strings.Contains(err.Error(), "auth token create") {
		t.Errorf("got %v", err)
	}
	if _, err := r.app.AuthModels(t.Context(), OfferQuery{URL: "build:1"}); err == nil {
		t.Error("an address without scheme is taken")
	}
}
