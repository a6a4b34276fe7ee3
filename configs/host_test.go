package configs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func env(m map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := m[name]
		return v, ok
	}
}

func TestHostPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env    map[string]string
		want   string
		chosen bool
	}{
		{map[string]string{"HARBOR_CONFIG": "/x.yaml", "XDG_CONFIG_HOME": "/cfg", "HOME": "/h"}, "/x.yaml", true},
		{map[string]string{"XDG_CONFIG_HOME": "/cfg", "HOME": "/h"}, "/cfg/harborgate/config.yaml", false},
		{map[string]string{"XDG_CONFIG_HOME": "relative", "HOME": "/h"}, "/h/.config/harborgate/config.yaml", false},
		{map[string]string{"HARBOR_CONFIG": "", "HOME": "/h"}, "/h/.config/harborgate/config.yaml", false},
	} {
		if got, chosen := HostPath(env(c.env)); got != c.want || chosen != c.chosen {
			t.Errorf("%v: %s %v, want %s %v", c.env, got, chosen, c.want, c.chosen)
		}
	}
}

func TestLoadHostWithoutFile(t *testing.T) {
	t.Parallel()
	h, problems := LoadHost(env(map[string]string{"HOME": t.TempDir()}), Types{})
	if len(problems) > 0 || h.Version != 1 || h.Providers != nil {
		t.Errorf("%+v, %v", h, problems)
	}
	_, problems = LoadHost(env(map[string]string{"HARBOR_CONFIG": filepath.Join(t.TempDir(), "none.yaml")}), Types{})
	if problems.Err() == nil {
		t.Error("a chosen file that is missing is no error")
	}
}

const goodHost = `
version: 1
jobs_dirs: [/srv/jobs, ~/jobs]
providers:
  docker:
    limits: {sandboxes: 8, memory_mb: 8192, creates_per_sec: 2.5}
  pool-2:
    type: daytona
    options: {api_key: "env:DAYTONA_API_KEY", target: eu, wait_sec: 5, ratio: 0.5}
upstreams:
  main: {dialect: anthropic, keys: ["env:ANTHROPIC_API_KEY", "file:/run/key"]}
budgets: {job: 10}
auth: {listen: "127.0.0.1:0"}
`

func TestLoadHost(t *testing.T) {
	t.Parallel()
	file := files(t, "config.yaml", goodHost)[0]
	h, problems := LoadHost(env(map[string]string{"HARBOR_CONFIG": file, "HOME": "/home/u"}), Types{})
	if len(problems) > 0 {
		t.Fatal(brief(problems))
	}
	pool := h.Providers["pool-2"]
	switch {
	case len(h.JobsDirs) != 2 || h.JobsDirs[1] != "/home/u/jobs":
		t.Errorf("jobs dirs %v", h.JobsDirs)
	case h.Providers["docker"].Type != "docker" || pool.Type != "daytona":
		t.Errorf("providers %+v", h.Providers)
	case h.Providers["docker"].Limits != Limits{Sandboxes: 8, MemoryMiB: 8192, CreatesPerSec: 2.5}:
		t.Errorf("limits %+v", h.Providers["docker"].Limits)
	case !h.Gateway.IsZero() || h.Auth.IsZero() || h.Upstreams["main"].IsZero():
		t.Errorf("blocks %+v", h)
	}
	options := struct {
		APIKey  string  `json:"api_key"`
		Target  string  `json:"target"`
		WaitSec int     `json:"wait_sec"`
		Ratio   float64 `json:"ratio"`
		Region  string  `json:"region"`
	}{Region: "default"}
	if err := pool.Options.Decode(&options); err != nil {
		t.Fatal(err)
	}
	if options.APIKey != "env:DAYTONA_API_KEY" || options.Target != "eu" || options.WaitSec != 5 || options.Ratio != 0.5 || options.Region != "default" {
		t.Errorf("options %+v", options)
	}
}

// The YAML library's strict mode does not reach blocks that are decoded later.
func TestBlocksAreStrict(t *testing.T) {
	t.Parallel()
	h, problems := LoadHost(env(map[string]string{"HARBOR_CONFIG": files(t, "config.yaml", goodHost)[0], "HOME": "/h"}), Types{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var wrong struct {
		APIKey  string `json:"api_key"`
		Targets string `json:"targets"`
		WaitSec string `json:"wait_sec"`
	}
	err := h.Providers["pool-2"].Options.Decode(&wrong)
	if err == nil {
		t.Fatal("unknown keys were accepted")
	}
	for _, want := range []string{
		"config.yaml:9:47: providers.pool-2.options.target is not a known key (did you mean targets?)",
		"config.yaml:9:59: providers.pool-2.options.wait_sec must be a string, not 5",
		"providers.pool-2.options.ratio is not a known key",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	var into struct{ Timeout time.Duration }
	if err := h.Gateway.Decode(&into); err != nil {
		t.Errorf("an empty block: %v", err)
	}
}

func TestHostProblems(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"version: 2\n":                                "config.yaml:1:1 error unknown-version: version 2 is not known",
		"provider: {}\n":                              "config.yaml:1:1 error unknown-key: provider is not a known key (did you mean providers?)",
		"providers: {Docker: {}}\n":                   "config.yaml:1:13 error bad-name: \"Docker\" cannot be the name of a provider",
		"providers: {d: {limit: {}}}\n":               "config.yaml:1:17 error unknown-key: providers.d.limit is not a known key (did you mean limits?)",
		"providers: {d: {limits: {cpu: 1}}}":          "config.yaml:1:26 error unknown-key: providers.d.limits.cpu is not a known key (did you mean cpus?)",
		"providers: {d: {limits: {cpus: -1}}}":        "config.yaml:1:26 error bad-value: providers.d.limits.cpus is -1, less than 0",
		"providers: {d: {limits: {create_burst: 3}}}": "config.yaml:1:26 error bad-value: providers.d.limits.create_burst limits nothing without creates_per_sec",
		"jobs_dirs: [jobs]\n":                         "config.yaml:1:13 error relative-path: \"jobs\" is not an absolute path",
		"auth: 5\n":                                   "config.yaml:1:1 error wrong-type: auth must be a mapping, not 5",
		"upstreams: {a: {keys: [sk-1]}}\n":            "config.yaml:1:24 error literal-secret: upstreams.a.keys[0] holds a secret itself",
		"providers: {d: {options: {apiKey: x}}}\n":    "config.yaml:1:27 error literal-secret: providers.d.options.apiKey holds a secret itself",
	} {
		_, problems := parseHost("config.yaml", []byte(content), "/h", Types{})
		if got := brief(problems); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", content, got, want)
		}
	}
	for _, content := range []string{"", "version: 1\n", "providers: {d: {options: {ssh_key_path: /k, key_name: n, secrets: {A: org-secret}, max_tokens: 5}}}\n"} {
		if _, problems := parseHost("config.yaml", []byte(content), "/h", Types{}); len(problems) > 0 {
			t.Errorf("%q: %s", content, brief(problems))
		}
	}
}

func TestResolveSecret(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("s3cret\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lookup := env(map[string]string{"A": "value", "EMPTY": ""})
	for reference, want := range map[string]string{"env:A": "value", "file:" + file: "s3cret"} {
		if got, err := ResolveSecret(reference, lookup); err != nil || got != want {
			t.Errorf("%s: %q, %v", reference, got, err)
		}
	}
	for _, reference := range []string{"env:B", "env:EMPTY", "file:relative", "file:/does/not/exist", "file:" + empty, "sk-literal"} {
		got, err := ResolveSecret(reference, lookup)
		if err == nil || got != "" {
			t.Errorf("%s: %q was accepted", reference, got)
		}
		if err != nil && strings.Contains(err.Error(), "sk-literal") {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
}

func FuzzHost(f *testing.F) {
	f.Add([]byte(goodHost))
	f.Add([]byte("providers: {a: {options: null, limits: {cpus: 1e400}}}\nauth: {a: .nan}\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		h, problems := parseHost("config.yaml", content, "/h", Types{})
		if problems.Err() != nil {
			return
		}
		for name, p := range h.Providers {
			var options map[string]any
			if err := p.Options.Decode(&options); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	})
}
