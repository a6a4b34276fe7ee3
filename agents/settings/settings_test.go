package settings

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"gopkg.in/yaml.v3"
)

const proxy = "http://127.0.0.1:8741"

func four() []Provider {
	return []Provider{
		{Name: "a", Dialect: "anthropic", Base: proxy + "/a", Models: []Model{{ID: "claude-x", Context: 200000, Output: 64000}}},
		{Name: "o", Dialect: "openai", Base: proxy + "/o", Models: []Model{{ID: "gpt: 'x'"}}},
		{Name: "r", Dialect: "openai", Responses: true, Base: proxy + "/r", Models: []Model{{ID: "gpt-6"}}},
		{Name: "g", Dialect: "gemini", Base: proxy + "/g", Models: []Model{{ID: "gemini-x"}}},
	}
}

var (
	byName = Key{Variable: "TOKEN"}
	byText = Key{Text: "hgt_1_2"}
)

func want(t *testing.T, got any, wanted string) {
	t.Helper()
	var w any
	if err := json.Unmarshal([]byte(wanted), &w); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var g any
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func read(t *testing.T, unmarshal func([]byte, any) error, doc string, err error) any {
	t.Helper()
	var out any
	if err == nil {
		err = unmarshal([]byte(doc), &out)
	}
	if err != nil {
		t.Fatalf("%v in %s", err, doc)
	}
	return out
}

func TestPiAndOmp(t *testing.T) {
	t.Parallel()
	const wanted = `{"providers":{
		"a":{"baseUrl":"http://127.0.0.1:8741/a","apiKey":"KEY","api":"anthropic-messages","models":[{"id":"claude-x","contextWindow":200000,"maxTokens":64000}]},
		"o":{"baseUrl":"http://127.0.0.1:8741/o/v1","apiKey":"KEY","api":"openai-completions","models":[{"id":"gpt: 'x'"}]},
		"r":{"baseUrl":"http://127.0.0.1:8741/r/v1","apiKey":"KEY","api":"openai-responses","models":[{"id":"gpt-6"}]},
		"g":{"baseUrl":"http://127.0.0.1:8741/g/v1beta","apiKey":"KEY","api":"google-generative-ai","models":[{"id":"gemini-x"}]}}}`
	for _, c := range []struct {
		make      func([]Provider, Key) (string, error)
		unmarshal func([]byte, any) error
		key       Key
		want      string
	}{
		{Pi, json.Unmarshal, byName, "$TOKEN"}, {Pi, json.Unmarshal, byText, "hgt_1_2"},
		{Omp, yaml.Unmarshal, byName, "TOKEN"}, {Omp, yaml.Unmarshal, byText, "hgt_1_2"},
	} {
		doc, err := c.make(four(), c.key)
		want(t, read(t, c.unmarshal, doc, err), strings.ReplaceAll(wanted, "KEY", c.want))
	}
}

func TestOmpIsCheckedBeforeItIsShown(t *testing.T) {
	t.Parallel()
	for _, all := range [][]Provider{nil, {{Name: "a", Dialect: "openai", Base: proxy}}, {{Name: "a/b", Base: proxy}}, {{Name: "a", Base: "no url", Models: []Model{{ID: "m"}}}}, {{Name: "a", Base: proxy, Models: []Model{{}}}}} {
		if doc, err := Omp(all, byText); err == nil {
			t.Errorf("%+v: %s", all, doc)
		}
	}
	for _, doc := range []string{"", "[]", "providers: {}", "providers: {a: {baseURL: x}}", "providers: {a: {baseUrl: 'http://x', apiKey: '!rm', api: openai-completions, models: [{id: m}]}}", "providers: {a: {baseUrl: 'http://x', apiKey: k, api: chat, models: [{id: m}]}}"} {
		if CheckOmp([]byte(doc)) == nil {
			t.Errorf("%s is taken", doc)
		}
	}
}

func TestModelNameThatYAMLDoesNotGiveBackIsRefused(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"\n2", "a\x1b[2J"} {
		doc, err := Omp([]Provider{{Name: "a", Dialect: "openai", Base: proxy, Models: []Model{{ID: id}}}}, byText)
		if err == nil || strings.Contains(err.Error(), id) {
			t.Errorf("%q: %v %s", id, err, doc)
		}
	}
}

func TestTokenThatYAMLDoesNotGiveBackIsRefused(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"\nk\n", "a\x00"} {
		doc, err := Omp([]Provider{{Name: "a", Dialect: "openai", Base: proxy, Models: []Model{{ID: "m"}}}}, Key{Text: token})
		if err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("%q: %v %s", token, err, doc)
		}
	}
}

func FuzzOmp(f *testing.F) {
	f.Add("0", "0", "\nk\n")
	f.Add("name", "model", "token")
	f.Add("a: b", "#x\ny", "'\"\x00")
	f.Add("true", "1e3", "~")
	f.Add("0", "\n2", "k")
	f.Fuzz(func(t *testing.T, name, model, token string) {
		doc, err := Omp([]Provider{{Name: name, Dialect: "openai", Base: proxy, Models: []Model{{ID: model}}}}, Key{Text: token})
		if err != nil {
			return
		}
		var c catalog
		if err := yaml.Unmarshal([]byte(doc), &c); err != nil || c.Providers[name].APIKey != token || c.Providers[name].Models[0].ID != model {
			t.Errorf("%q %q %q became %s (%v)", name, model, token, doc, err)
		}
	})
}

func TestCodex(t *testing.T) {
	t.Parallel()
	doc, err := Codex(four()[1:3], byName, "gpt-6")
	want(t, read(t, toml.Unmarshal, doc, err), `{"model":"gpt-6","model_provider":"o","model_providers":{
		"o":{"name":"o","base_url":"http://127.0.0.1:8741/o/v1","env_key":"TOKEN","wire_api":"responses"},
		"r":{"name":"r","base_url":"http://127.0.0.1:8741/r/v1","env_key":"TOKEN","wire_api":"responses"}}}`)
	if _, err := Codex(four()[1:3], byText, ""); err == nil {
		t.Error("a token was written")
	}
}

func TestOpenCode(t *testing.T) {
	t.Parallel()
	doc, err := OpenCode(four(), byName, "a/claude-x")
	want(t, read(t, json.Unmarshal, doc, err), `{"$schema":"https://opencode.ai/config.json","autoupdate":false,"share":"disabled","model":"a/claude-x","small_model":"a/claude-x","provider":{
		"a":{"npm":"@ai-sdk/anthropic","name":"a","options":{"baseURL":"http://127.0.0.1:8741/a/v1","apiKey":"{env:TOKEN}"},"models":{"claude-x":{"name":"claude-x","limit":{"context":200000,"output":64000}}}},
		"o":{"npm":"@ai-sdk/openai-compatible","name":"o","options":{"baseURL":"http://127.0.0.1:8741/o/v1","apiKey":"{env:TOKEN}"},"models":{"gpt: 'x'":{"name":"gpt: 'x'"}}},
		"r":{"npm":"@ai-sdk/openai","name":"r","options":{"baseURL":"http://127.0.0.1:8741/r/v1","apiKey":"{env:TOKEN}"},"models":{"gpt-6":{"name":"gpt-6"}}},
		"g":{"npm":"@ai-sdk/google","name":"g","options":{"baseURL":"http://127.0.0.1:8741/g/v1beta","apiKey":"{env:TOKEN}"},"models":{"gemini-x":{"name":"gemini-x"}}}}}`)
}

func TestClaudeGeminiAndQwen(t *testing.T) {
	t.Parallel()
	doc, err := Claude(four()[0], byName, "claude-x")
	want(t, read(t, json.Unmarshal, doc, err), `{"env":{"ANTHROPIC_BASE_URL":"http://127.0.0.1:8741/a"},"apiKeyHelper":"printenv TOKEN","model":"claude-x"}`)
	doc, err = Claude(four()[0], byText, "")
	want(t, read(t, json.Unmarshal, doc, err), `{"env":{"ANTHROPIC_BASE_URL":"http://127.0.0.1:8741/a","ANTHROPIC_AUTH_TOKEN":"hgt_1_2"}}`)
	doc, err = Gemini("gemini-x")
	want(t, read(t, json.Unmarshal, doc, err), `{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},"general":{"enableAutoUpdate":false},"model":{"name":"gemini-x"}}`)
	doc, err = Qwen("")
	want(t, read(t, json.Unmarshal, doc, err), `{"security":{"auth":{"selectedType":"openai"}},"privacy":{"usageStatisticsEnabled":false},"general":{"enableAutoUpdate":false}}`)
}

func TestVariablesAreOnesForAShell(t *testing.T) {
	t.Parallel()
	lines := Variables(map[string]string{"A_URL": "http://x/'; echo $HOME", "A_KEY": "$TOKEN"}, byName)
	out, err := exec.CommandContext(t.Context(), "sh", "-c", "TOKEN=hgt_1\n"+lines+`printf '%s|%s' "$A_URL" "$A_KEY"`).Output()
	if err != nil || string(out) != "http://x/'; echo $HOME|hgt_1" {
		t.Errorf("%s became %s %v", lines, out, err)
	}
}
