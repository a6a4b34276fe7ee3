package tasks

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func ptr[T any](v T) *T { return &v }

// parse reads a task.toml and fails on errors.
func parse(t *testing.T, toml string) Config {
	t.Helper()
	c, problems := ParseConfig("task.toml", []byte(toml))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEmptyConfigHasTheDefaults(t *testing.T) {
	t.Parallel()
	want := Config{
		SchemaVersion: "1.4",
		Verifier:      Verifier{TimeoutSec: 600},
		Environment: Environment{
			Network: Network{Mode: NetworkPublic}, BuildTimeoutSec: 600, OS: Linux,
		},
	}
	if diff := cmp.Diff(want, parse(t, "")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFullConfig(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/full.toml")
	if err != nil {
		t.Fatal(err)
	}
	got, problems := ParseConfig("full.toml", content)
	if len(problems) > 0 {
		t.Fatal(brief(problems))
	}
	check := &Healthcheck{Command: "true", IntervalSec: 1, TimeoutSec: 2, StartPeriodSec: 0, StartIntervalSec: 4, Retries: 5}
	want := Config{
		SchemaVersion: "1.4", Source: "somewhere", RewardStrategy: RewardFinal,
		Artifacts: []Artifact{
			{Source: "/app/a"},
			{Source: "/app/b", Destination: "b/c", Exclude: []string{"*.o"}},
			{Source: "/db/dump", Service: "db"},
		},
		Package: &Package{
			Name: "org/full", Version: "1.2.3", Description: "All of it.",
			Authors: []Author{{Name: "A", Email: "a@example.org"}, {Name: "B"}}, Keywords: []string{"k"},
		},
		Metadata: map[string]any{"anything": map[string]any{"timeout_secs": int64(1)}},
		Verifier: Verifier{
			TimeoutSec: 30, Env: map[string]string{"K": "${K:-v}"}, User: "1000",
			Network: Network{Mode: NetworkNone}, Mode: VerifierSeparate,
			Environment: &Environment{
				Network: Network{Mode: NetworkPublic}, BuildTimeoutSec: 60, OS: Linux, Image: "img:1", CPUs: ptr(0.5), MemoryMiB: ptr(int64(256)),
			},
			Collect: []Collect{
				{Command: "dump", Service: "db", TimeoutSec: 5, User: "root"},
				{Command: "sync", Service: "main", TimeoutSec: 60},
			},
		},
		Agent: Agent{TimeoutSec: ptr(100.0), User: "agent", Network: Network{Mode: NetworkAllowList, Hosts: []string{"api.example.org"}}},
		Environment: Environment{
			Network:         Network{Mode: NetworkAllowList, Hosts: []string{"example.org", "*.example.org", "10.0.0.0/8", "2001:db8::1"}},
			BuildTimeoutSec: 300, Image: "debian:bookworm-slim", OS: Windows, CPUs: ptr(2.0),
			MemoryMiB: ptr(int64(4096)), StorageMiB: ptr(int64(10240)), GPUs: 1, GPUTypes: []string{"A100"},
			TPU: &TPU{Type: "v5", Topology: "2x2"},
			MCPServers: []MCPServer{
				{Name: "s", Transport: "stdio", Command: "serve", Args: []string{"-x"}},
				{Name: "h", Transport: "streamable-http", URL: "http://h", Headers: map[string]string{"Authorization": "${T}"}},
			},
			Env: map[string]string{"A": "1"}, SkillsDir: "/skills", Healthcheck: check, Workdir: `C:\app`,
		},
		Solution: Solution{Env: map[string]string{"S": "${S}"}},
		Steps: []Step{
			{
				Name: "one", Agent: Agent{TimeoutSec: ptr(10.0)}, Verifier: Verifier{TimeoutSec: 20, Mode: VerifierShared},
				MinReward: map[string]float64{"reward": 0.5}, Healthcheck: check, Artifacts: []Artifact{{Source: "/x"}},
			},
			{Name: "two", Verifier: Verifier{TimeoutSec: 600}, MinReward: map[string]float64{"a": 1, "b": 0.5}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestB086SchemaVersions(t *testing.T) {
	t.Parallel()
	for toml, want := range map[string]string{
		``:                                            "1.4",
		`version = "1.0"`:                             "1.0|1:1 info deprecated-key: version is an old form",
		`schema_version = "1.0"`:                      "1.0",
		`schema_version = "1.1"`:                      "1.1",
		`schema_version = "1.2"`:                      "1.2",
		`schema_version = "1.3"`:                      "1.3",
		`schema_version = "1.4"`:                      "1.4",
		`schema_version = " 1.4 "`:                    "1.4",
		`schema_version = "1"`:                        "1",
		`schema_version = 1.1`:                        "1.1|1:1 warning unquoted-version: schema_version is a number",
		`schema_version = 1`:                          "1.0|1:1 warning unquoted-version: schema_version is a number",
		"version = \"1.1\"\nschema_version = \"1.1\"": "1.1",
		"version = \"1.0\"\nschema_version = \"1.1\"": `|1:1 error version-conflict: version is "1.0" but schema_version is "1.1"`,
		`schema_version = "1.10"`:                     "1.10|1:1 warning newer-version: schema_version 1.10 is newer than 1.4, the newest that this program knows; no key that it does not know",
		"schema_version = \"1.9\"\nx = 1\n[environment]\ncpu = 2": "1.9|1:1 warning newer-version: schema_version 1.9 is newer than 1.4, the newest that this program knows; ignored: environment.cpu, x",
		`schema_version = "2.0"`:                                  "|1:1 error unknown-version: schema_version 2.0 has a major version that this program does not know",
		`version = "2.0"`:                                         "|1:1 info deprecated-key: version is an old form\n1:1 error unknown-version: version 2.0 has a major version that this program does not know",
		`schema_version = "0.1"`:                                  "|1:1 error unknown-version: schema_version 0.1 has a major version that this program does not know",
		`schema_version = "new"`:                                  `|1:1 error bad-version: schema_version "new" is not of the form major.minor`,
		`schema_version = true`:                                   "|1:1 error wrong-type: schema_version must be a string, not true or false",
	} {
		c, problems := ParseConfig("task.toml", []byte(toml))
		version, report, _ := strings.Cut(want, "|")
		if got := brief(problems); got != report || version != "" && c.SchemaVersion != version {
			t.Errorf("%s: version %s, problems\n%s\nwant\n%s", toml, c.SchemaVersion, got, report)
		}
	}
}

func TestB072Sizes(t *testing.T) {
	t.Parallel()
	const old = "2:1 warning deprecated-size: environment.memory is an old form"
	for line, want := range map[string]struct {
		mib    int64 // 0 is none
		report string
	}{
		`memory = "2G"`:                     {2048, old},
		`memory = "0.5G"`:                   {512, old},
		`memory = "512M"`:                   {512, old},
		`memory = "2048K"`:                  {2, old},
		`memory = "4g"`:                     {4096, old},
		`memory = " 4G "`:                   {4096, old},
		`memory = "4GB"`:                    {0, `2:1 error bad-size: environment.memory size "4GB" does not end with K, M or G`},
		`memory = "4Gi"`:                    {0, `2:1 error bad-size: environment.memory size "4Gi" does not end with K, M or G`},
		`memory = "4096"`:                   {0, `2:1 error bad-size: environment.memory size "4096" does not end with K, M or G`},
		`memory = "-1G"`:                    {0, `2:1 error bad-size: environment.memory size "-1G" is not between 1 MiB and 1 EiB`},
		`memory = "0x1G"`:                   {0, `2:1 error bad-size: environment.memory size "0x1G" is not a number followed by K, M or G`},
		`memory = "1K"`:                     {0, `2:1 error bad-size: environment.memory size "1K" is not between 1 MiB and 1 EiB`},
		`memory = "infG"`:                   {0, `2:1 error bad-size: environment.memory size "infG" is not a number followed by K, M or G`},
		`memory = ""`:                       {0, `2:1 error bad-size: environment.memory size "" is empty`},
		`memory = 4096`:                     {0, "2:1 error wrong-type: environment.memory must be a string, not a number"},
		"memory = \"2G\"\nmemory_mb = 2048": {2048, old},
		"memory = \"2G\"\nmemory_mb = 4096": {2048, old + "\n2:1 error size-conflict: environment.memory is 2048 MiB but environment.memory_mb is 4096"},
		`memory_gb = 4`:                     {0, "2:1 error misspelt-key: environment.memory_gb is not a known key"},
		`memory_mb = 4096.0`:                {4096, ""},
		`memory_mb = "4096"`:                {4096, "2:1 warning quoted-number: environment.memory_mb is a number in quotes"},
		`memory_mb = 0`:                     {0, "2:1 error bad-number: environment.memory_mb is 0"},
		`memory_mb = -1`:                    {0, "2:1 error bad-number: environment.memory_mb is -1"},
		`memory_mb = 0.5`:                   {0, "2:1 error bad-number: environment.memory_mb is 0.5"},
		``:                                  {0, ""},
	} {
		c, problems := ParseConfig("task.toml", []byte("[environment]\n"+line))
		var got int64
		if c.Environment.MemoryMiB != nil {
			got = *c.Environment.MemoryMiB
		}
		if report := brief(problems); report != want.report || got != want.mib {
			t.Errorf("%s: %d MiB, problems\n%s\nwant %d\n%s", line, got, report, want.mib, want.report)
		}
	}
}

func TestB066BlankImage(t *testing.T) {
	t.Parallel()
	for _, image := range []string{"", "  "} {
		c := parse(t, "[environment]\ndocker_image = \""+image+"\"")
		if c.Environment.Image != "" {
			t.Errorf("image %q", c.Environment.Image)
		}
	}
	task, problems := load(t, "[environment]\ndocker_image = \"\"\n")
	if task == nil {
		t.Fatal(problems)
	}
	if p, ok := task.Dockerfile(); !ok || filepath.Base(p) != "Dockerfile" {
		t.Error("the Dockerfile does not count")
	}
}

func TestNetworkForms(t *testing.T) {
	t.Parallel()
	for toml, want := range map[string]Network{
		`allow_internet = true`:                                      {Mode: NetworkPublic},
		`allow_internet = false`:                                     {Mode: NetworkNone},
		`network_mode = "no-network"`:                                {Mode: NetworkNone},
		"network_mode = \"allowlist\"\nallowed_hosts = [\"A.org.\"]": {Mode: NetworkAllowList, Hosts: []string{"a.org"}},
		"network_mode = \"public\"\nallow_internet = false":          {Mode: NetworkPublic},
		"network_mode = \"allowlist\"\nallow_internet = true\n":      {Mode: NetworkAllowList},
	} {
		if got := parse(t, "[environment]\n"+toml).Environment.Network; !cmp.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", toml, got, want)
		}
	}
}

// Everything wrong with a document is reported at once, in its place.
func TestConfigProblems(t *testing.T) {
	t.Parallel()
	for toml, want := range map[string]string{
		"[agent]\ntimeout_secs = 5":                           "2:1 error misspelt-key: agent.timeout_secs is not a known key",
		"[agent]\ntimeout = 5":                                "2:1 error misspelt-key: agent.timeout is not a known key",
		"[agent]\ntimeoutSec = 5":                             "2:1 error misspelt-key: agent.timeoutSec is not a known key",
		"[enviroment]\ncpus = 1":                              "1:2 error misspelt-key: enviroment is not a known key",
		"environment.cpu = 1":                                 "1:13 error misspelt-key: environment.cpu is not a known key",
		"environment = {cpus = 1, netwrok_mode = \"public\"}": "1:26 error misspelt-key: environment.netwrok_mode is not a known key",
		"[metadata]\ntimeout_secs = 5\ncpu = 1":               "",
		"difficulty = \"hard\"\ntags = []\n[[steps]]\nname = \"a\"\ninherit_prior_session = true": "5:1 warning unknown-key: steps[0].inherit_prior_session is not a known key and is ignored\n" +
			"1:1 warning unknown-key: difficulty is not a known key and is ignored\n2:1 warning unknown-key: tags is not a known key and is ignored",
		"[task]\nname = \"a/b\"\nworkstream = \"x\"\n[solution]\ntimeout_sec = 60.0": "3:1 warning unknown-key: task.workstream is not a known key and is ignored\n" +
			"5:1 warning unknown-key: solution.timeout_sec is not a known key and is ignored",
		"[task]\nname = \"{org}/{name}\"":    `2:1 error bad-value: task.name "{org}/{name}" is not the name of a package`,
		"[task]\nname = \"a/b..c\"":          `2:1 error bad-value: task.name "a/b..c" is not the name of a package`,
		"[task]\nversion = \"\"":             "1:2 error missing-key: task.name is missing\n2:1 error bad-value: task.version is empty",
		"[verifier]\ntimeout_sec = nan":      "2:1 error bad-number: verifier.timeout_sec is NaN",
		"[verifier]\ntimeout_sec = 0":        "2:1 error bad-number: verifier.timeout_sec is 0",
		"[agent]\ntimeout_sec = -1":          "2:1 error bad-number: agent.timeout_sec is -1",
		"[agent]\ntimeout_sec = inf":         "2:1 error bad-number: agent.timeout_sec is +Inf",
		"[agent]\ntimeout_sec = true":        "2:1 error wrong-type: agent.timeout_sec must be a number, not true or false",
		"[agent]\ntimeout_sec = \"60\"":      "2:1 warning quoted-number: agent.timeout_sec is a number in quotes",
		"[agent]\nuser = 1.5":                "2:1 error wrong-type: agent.user must be a user name or number, not a number",
		"[environment]\nos = \"macos\"":      `2:1 error bad-value: environment.os is "macos"`,
		"[environment]\nworkdir = \"app\"":   `2:1 error relative-workdir: environment.workdir "app" is not an absolute path`,
		"[environment]\ncpus = 0":            "2:1 error bad-number: environment.cpus is 0",
		"[environment.env]\nA = 1":           "2:1 error wrong-type: environment.env.A must be a string, not a number",
		"[environment.env]\n\"A=B\" = \"1\"": "2:1 error bad-name: environment.env.A=B is not the name of an environment variable",
		"[environment]\nallowed_hosts = []":  `2:1 error hosts-without-allowlist: environment.allowed_hosts is given without network_mode = "allowlist"`,
		"[agent]\nallowed_hosts = []":        `2:1 error hosts-without-allowlist: agent.allowed_hosts is given without network_mode = "allowlist"`,
		"[agent]\nnetwork_mode = \"allowlist\"\nallowed_hosts = [\"a.org\", \"https://b.org\"]": `3:27 error bad-host: agent.allowed_hosts[1] host "https://b.org" is none: write a host name, *.name, an IP address or a CIDR, without scheme, port or path`,
		"[environment]\nallow_internet = false\nnetwork_mode = \"public\"":                      "2:1 warning network-conflict: environment.allow_internet is ignored because network_mode or allowed_hosts is given",
		"[verifier]\nenvironment_mode = \"shared\"\n[verifier.environment]\ncpus = 1":           `3:11 error shared-verifier-environment: verifier.environment cannot be given with environment_mode = "shared"`,
		"[[verifier.collect]]\nservice = \"db\"":                                                "1:12 error missing-key: verifier.collect[0].command is missing",
		"artifacts = [\"/a/../b\", 5, {destination = \"x\"}]":                                   "1:14 error bad-artifact: artifacts[0] artifact source \"/a/../b\" contains \"..\"\n1:25 error wrong-type: artifacts[1] must be a path or a table, not a number\n1:28 error missing-key: artifacts[2].source is missing\n1:28 error bad-artifact: artifacts[2] artifact has no source",
		"[[steps]]\nname = \"a\"\n[[steps]]\nname = \"A\"":                                      `4:1 error duplicate-step: steps[1].name "A" is the same directory name as that of step "a"`,
		"[[steps]]\nname = \"a/b\"":                                                             `2:1 error bad-name: steps[0].name "a/b" contains one of / \ : * ? " < > | or a control character`,
		"[[steps]]\nname = \"..\"":                                                              `2:1 error bad-name: steps[0].name ".." is not the name of a directory`,
		"[[steps]]\nmin_reward = 1":                                                             "1:3 error missing-key: steps[0].name is missing",
		"steps = [{name = \"a\"}, 5]":                                                           "1:24 error wrong-type: steps[1] must be a table, not a number",
		"[[environment.mcp_servers]]\nname = \"m\"":                                             "1:15 error missing-key: environment.mcp_servers[0].url is missing, and transport sse needs it",
		"[environment]\nhealthcheck = {}":                                                       "2:1 error missing-key: environment.healthcheck.command is missing",
		"multi_step_reward_strategy = \"sum\"":                                                  `1:1 error bad-value: multi_step_reward_strategy is "sum"`,
		"agent = 5":                                                                             "1:1 error wrong-type: agent must be a table, not a number",
		"source = 2026-01-01":                                                                   "1:1 error wrong-type: source must be a string, not a date or time",
		"a = 1\na = 2":                                                                          "2:1 error toml-syntax: not valid TOML: key a is already defined",
		"name = {{name}}":                                                                       "1:9 error toml-syntax: not valid TOML: invalid character at start of key: U+007B '{'",
	} {
		_, problems := ParseConfig("task.toml", []byte(toml))
		if got := brief(problems); got != want {
			t.Errorf("%s\ngot\n%s\nwant\n%s", toml, got, want)
		}
		for _, p := range problems {
			if p.Next == "" {
				t.Errorf("%s: no next step in %+v", toml, p)
			}
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	paths, err := filepath.Glob("testdata/golden/*/task.toml")
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range append(paths, "testdata/full.toml") {
		content, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	for _, s := range []string{
		"a.b.c = {d = [[{e = 1}], [2]]}\n[[a.x]]\n[a.x.y]\n[[a.x]]\n",
		"[environment]\nmemory = \"1e9G\"\nallowed_hosts = [\"::ffff:1.2.3.4/96\", \"*.\"]\n",
		"[[steps]]\nname = \"\\u0000\"\nmin_reward = {a = \"1\"}\n",
		"artifacts = [{source = \"\"}, [], \"x\"]\n\"\" = 1\n'a.b' = 2\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		c, problems := ParseConfig("task.toml", content)
		lines := 1 + strings.Count(string(content), "\n")
		for _, p := range problems {
			if p.Line < 0 || p.Line > lines || p.Message == "" || p.Code == "" {
				t.Fatalf("problem %+v in %d lines", p, lines)
			}
		}
		if problems.Err() == nil && (c.Verifier.TimeoutSec <= 0 || c.Environment.BuildTimeoutSec <= 0 || c.Environment.Network.Mode == "") {
			t.Fatalf("a good document without its defaults: %+v", c)
		}
	})
}
