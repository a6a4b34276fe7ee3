package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"harborgate/configs"
)

func configured(t *testing.T, text string) configs.Host {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h, problems := configs.LoadHost(variables(map[string]string{"HARBOR_CONFIG": file, "HOME": "/h"}), configs.Types{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return h
}

func variables(m map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := m[name]
		return v, ok
	}
}

func TestProxyConfigOfTheEnvironmentAlone(t *testing.T) {
	t.Parallel()
	c, err := ProxyConfig(configs.Host{}, variables(map[string]string{
		"ANTHROPIC_API_KEY": "sk-ant-1", "GOOGLE_API_KEY": "g", "OPENAI_API_KEY": "", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
	}))
	if err != nil {
		t.Fatal(err)
	}
	a, g := c.Upstreams["anthropic"], c.Upstreams["gemini"]
	switch {
	case len(c.Upstreams) != 2:
		t.Errorf("upstreams %v", c.Upstreams)
	case a.Keys[0] != "env:ANTHROPIC_API_KEY" || a.BaseURL != "http://127.0.0.1:9" || !a.Local:
		t.Errorf("anthropic %+v", a)
	case g.Keys[0] != "env:GOOGLE_API_KEY" || g.Local:
		t.Errorf("gemini %+v", g)
	}
}

func TestProxyConfigOfTheFileComesFirst(t *testing.T) {
	t.Parallel()
	h := configured(t, `
upstreams:
  main: {dialect: anthropic, keys: ["credential:a"], limits: {max_wait: 3s}, prices: {"*": {input: 1.5, output: 2}}}
budgets: {job: 10, day: 0.5}
`)
	c, err := ProxyConfig(h, variables(map[string]string{"ANTHROPIC_API_KEY": "sk-ant-1", "OPENAI_API_KEY": "sk-2"}))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Upstreams) != 2 || c.Upstreams["main"].Limits.MaxWait.Seconds() != 3 || c.Upstreams["openai"].Keys == nil {
		t.Errorf("upstreams %+v", c.Upstreams)
	}
	if c.Budgets.Job.String() != "10" || c.Budgets.Day.String() != "0.5" {
		t.Errorf("budgets %+v", c.Budgets)
	}
}

func TestProxyConfigMistakes(t *testing.T) {
	t.Parallel()
	h := configured(t, `
upstreams:
  a: {dialect: anthropic, keys: ["env:A"], modles: [x]}
  b: {dialect: vertex, keys: ["env:A"]}
budgets: {week: 3}
`)
	_, err := ProxyConfig(h, variables(nil))
	if err == nil {
		t.Fatal("mistakes were accepted")
	}
	for _, want := range []string{"config.yaml: upstreams.a: modles is not a known key (did you mean models?)", "config.yaml: upstreams.b: dialect: Vertex AI", "config.yaml: budgets: week is not a known key"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

// A public host in plain HTTP would show the key to the network.
func TestProxyConfigPlainPublicBaseURL(t *testing.T) {
	t.Parallel()
	_, err := ProxyConfig(configs.Host{}, variables(map[string]string{"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "http://llm.example.com/v1"}))
	if err == nil || !strings.Contains(err.Error(), "OPENAI_BASE_URL in the environment: base_url: plain http") {
		t.Errorf("got %v", err)
	}
}
