package configs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harborgate/tasks"
	"harborgate/trials"
)

// files writes configurations and returns their paths in order. A name says the
// format: "a.yaml".
func files(t testing.TB, pairs ...string) []string {
	t.Helper()
	dir := t.TempDir()
	var out []string
	for i := 0; i < len(pairs); i += 2 {
		p := filepath.Join(dir, pairs[i])
		if err := os.WriteFile(p, []byte(pairs[i+1]), 0o600); err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// brief is one problem per line, with the file's base name.
func brief(ps tasks.Problems) string {
	var lines []string
	for _, p := range ps {
		s := fmt.Sprintf("%s:%d:%d %s %s: %s", filepath.Base(p.File), p.Line, p.Column, p.Severity, p.Code, p.Message)
		if strings.HasPrefix(p.Next, "did you mean") {
			s += " (" + p.Next + ")"
		}
		lines = append(lines, s)
	}
	return strings.Join(lines, "\n")
}

func load(t *testing.T, pairs ...string) trials.JobConfig {
	t.Helper()
	c, problems := LoadJob(files(t, pairs...))
	if len(problems) > 0 {
		t.Fatal(brief(problems))
	}
	return c
}

func TestGoldenJobConfigRoundTrip(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("testdata/job-config.json")
	if err != nil {
		t.Fatal(err)
	}
	// YAML is a superset of JSON as far as this file goes.
	for _, name := range []string{"c.json", "c.yaml", "c.yml"} {
		got, err := trials.MarshalIndent(load(t, name, string(want)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, got) {
			t.Errorf("%s (-want +got):\n%s", name, cmp.Diff(string(want), string(got)))
		}
	}
}

func TestNoFilesIsTheDefault(t *testing.T) {
	t.Parallel()
	c, problems := LoadJob(nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	got, _ := trials.MarshalIndent(c)
	want, _ := trials.MarshalIndent(trials.NewJobConfig())
	if !bytes.Equal(got, want) {
		t.Errorf("got %s", got)
	}
}

func TestYAMLForms(t *testing.T) {
	t.Parallel()
	c := load(t, "c.yaml", `
job_name: 2026-01-01
n_attempts: "3"
timeout_multiplier: 2
debug: yes
quiet: off
retry:
  max_retries: 2
environment:
  env: {A: "1", B: "x=y"}
  override_cpus: 0.5
  override_memory_mb: 1_024
  kwargs: {a: 1.0, b: 1, c: true, d: null, e: text}
agents:
  - &base {name: oracle, kwargs: {x: 1}}
  - <<: *base
    name: nop
artifacts: [/a, {source: /b, destination: c}]
`)
	switch {
	case c.JobName != "2026-01-01", c.NAttempts != 3, c.Timeout != 2, !c.Debug, c.Quiet, c.Retry.MaxRetries != 2:
		t.Errorf("%+v", c)
	case float64(*c.Environment.OverrideCPUs) != 0.5, *c.Environment.OverrideMemoryMiB != 1024:
		t.Errorf("%+v", c.Environment)
	case len(c.Agents) != 2, c.Agents[1].AgentName() != "nop", fmt.Sprint(c.Agents[1].Kwargs["x"]) != "1":
		t.Errorf("%+v", c.Agents)
	case c.Artifacts[0].Source != "/a", *c.Artifacts[1].Destination != "c":
		t.Errorf("%+v", c.Artifacts)
	}
	kwargs, err := c.Environment.Kwargs.MarshalJSON()
	if err != nil || string(kwargs) != `{"a":1.0,"b":1,"c":true,"d":null,"e":"text"}` {
		t.Errorf("%s, %v", kwargs, err)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, content, want string }{
		"all at once": {"c.yaml", `
n_attempt: 3
n_concurrent_trials: many
agents:
  - name: oracle
    overide_timeout_sec: 5
retry:
  max_retrys: 1
nonsense: true
`, `c.yaml:6:5 error unknown-key: agents[0].overide_timeout_sec is not a known key (did you mean override_timeout_sec?)
c.yaml:2:1 error unknown-key: n_attempt is not a known key (did you mean n_attempts?)
c.yaml:3:1 error wrong-type: n_concurrent_trials must be a whole number, not the text "many"
c.yaml:9:1 error unknown-key: nonsense is not a known key
c.yaml:8:3 error unknown-key: retry.max_retrys is not a known key (did you mean max_retries?)`},
		"json": {"c.json", "{\n  \"n_attempts\": 0,\n  \"agents\": [{\"nam\": 1}]\n}",
			`c.json:3:15 error unknown-key: agents[0].nam is not a known key (did you mean name?)`},
		"values": {"c.json", "{\n  \"n_attempts\": 0,\n  \"timeout_multiplier\": -1\n}",
			"c.json:2:3 error bad-value: n_attempts: 0 is less than 1\n" +
				"c.json:3:3 error bad-value: timeout_multiplier: -1 is not a positive number"},
		"types": {"c.yaml", "agents: {}\nquiet: 3\njob_name: 5\nartifacts: [1]\nenvironment:\n  env: {A: 1}\nn_attempts:\ntimeout_multiplier: .nan\n",
			`c.yaml:1:1 error wrong-type: agents must be a list, not a mapping
c.yaml:4:13 error wrong-type: artifacts[0] must be a mapping, not 1
c.yaml:6:9 error wrong-type: environment.env.A must be a string, not 1
c.yaml:3:1 error wrong-type: job_name must be a string, not 5
c.yaml:7:1 error empty-value: n_attempts is empty
c.yaml:2:1 error wrong-type: quiet must be true or false, not 3
c.yaml:8:1 error wrong-type: timeout_multiplier must be a number, not NaN`},
		"doubles":       {"c.yaml", "quiet: true\nquiet: false\n", "c.yaml:2:1 error syntax: key quiet is given twice"},
		"json double":   {"c.json", `{"a": 1, "a": 2}`, "c.json:1:10 error syntax: key a is given twice"},
		"yaml syntax":   {"c.yaml", "a: [1\nb: 2\n", "c.yaml:1:1 error syntax: line 1: did not find expected ',' or ']'"},
		"json syntax":   {"c.json", "{\n\"a\": 1,\n}", "c.json:3:1 error syntax: not valid JSON: invalid character '}' looking for beginning of object key string"},
		"json end":      {"c.json", `{"a": [`, "c.json:1:8 error syntax: not valid JSON: the document ends too early"},
		"json more":     {"c.json", `{} {}`, "c.json:1:5 error syntax: not valid JSON: there is text after the document"},
		"two documents": {"c.yaml", "a: 1\n---\nb: 2\n", "c.yaml:0:0 error syntax: the file holds more than one document"},
		"loop":          {"c.yaml", "a: &a [*a]\n", "c.yaml:1:8 error syntax: alias *a contains itself"},
		"list":          {"c.yaml", "- a\n", "c.yaml:1:1 error wrong-type: the document must be a mapping at its top, not a list"},
		"format":        {"c.toml", "a = 1", "c.toml:0:0 error unknown-format: the format of a file called *.toml is not known"},
		"schema":        {"c.yaml", "schema_version: 2\n", "c.yaml:1:1 error bad-value: job config: schema_version 2 is not known, want 1"},
		"python plugins": {"c.yaml", "plugins: [a]\norchestrator: {quiet: true}\n",
			"c.yaml:2:1 warning old-form: orchestrator: its keys now stand at the top level\n" +
				"c.yaml:1:1 warning old-form: plugins: they are Python code and are ignored"},
	} {
		_, problems := LoadJob(files(t, c.file, c.content))
		if got := brief(problems); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func TestUnreadableSources(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"https://example.org/c.yaml": "configurations are not read from https addresses",
		"/does/not/exist.yaml":       "cannot read it: no such file or directory",
	} {
		_, problems := LoadJob([]string{source})
		if len(problems) != 1 || problems[0].Message != want || problems[0].File != source {
			t.Errorf("%s: %v", source, problems)
		}
	}
}

// An alias in an alias in an alias must not use up the memory.
func TestAliasesAreBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	_, problems := LoadJob(files(t, "c.yaml", b.String()))
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "too large") {
		t.Errorf("%v", problems)
	}
}

func TestLayers(t *testing.T) {
	t.Parallel()
	c := load(t,
		"a.yaml", `
n_attempts: 2
agents: [{name: a, kwargs: {x: 1}}]
artifacts: [/one]
extra_instructions: [first]
tasks: [{path: t}]
retry: {include_exceptions: [A], max_retries: 1, exclude_exceptions: [X]}
environment: {import_path: null, type: docker, kwargs: {a: 1, b: 2}, env: {A: "1"}, extra_allowed_hosts: [a.org]}
`,
		"b.json", `{"agents": [{"name": "b"}], "artifacts": ["/two"], "extra_instructions": ["second"], "tasks": [],
			"retry": {"include_exceptions": ["B"], "exclude_exceptions": []},
			"environment": {"kwargs": {"b": 3}, "env": {"B": "2"}, "extra_allowed_hosts": ["b.org"]}}`,
		"c.yml", "tasks: [{path: u}]\nenvironment: {type: daytona}\n",
	)
	b, err := trials.MarshalIndent(c)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, a := range c.Agents {
		names = append(names, a.AgentName())
	}
	for what, pair := range map[string][2]any{
		"attempts":     {c.NAttempts, 2},
		"agents":       {fmt.Sprint(names), "[a b]"},
		"artifacts":    {len(c.Artifacts), 1},
		"instructions": {fmt.Sprint(c.ExtraInstructions), "[first second]"},
		"tasks":        {fmt.Sprint(len(c.Tasks), " ", c.Tasks[0]), "1 u"},
		"include":      {fmt.Sprint(*c.Retry.IncludeExceptions), "[A B]"},
		"exclude":      {len(*c.Retry.ExcludeExceptions), 0},
		"retries":      {c.Retry.MaxRetries, 1},
		"type":         {*c.Environment.Type, "daytona"},
		"kwargs":       {fmt.Sprint(c.Environment.Kwargs), "map[a:1 b:3]"},
		"env":          {fmt.Sprint(c.Environment.Env), "map[A:1 B:2]"},
		"hosts":        {fmt.Sprint(c.Environment.ExtraAllowedHosts), "[a.org b.org]"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %v, want %v in %s", what, pair[0], pair[1], b)
		}
	}
}

func TestLaterLayerReplacesTheOtherMember(t *testing.T) {
	t.Parallel()
	_, problems := LoadJob(files(t, "a.yaml", "environment: {type: docker}\n", "b.yaml", "environment: {import_path: 'm:C'}\n"))
	if got := brief(problems); !strings.HasPrefix(got, "b.yaml:1:15 error bad-value: environment.import_path") {
		t.Error(got)
	}
	c := load(t, "a.yaml", "environment: {import_path: 'm:C'}\n", "b.yaml", "environment: {type: docker}\n")
	if c.Environment.ImportPath != nil || *c.Environment.Type != "docker" {
		t.Errorf("%+v", c.Environment)
	}
}

// A problem with the merged value is reported where the value came from.
func TestProblemsNameTheirLayer(t *testing.T) {
	t.Parallel()
	_, problems := LoadJob(files(t,
		"a.yaml", "agents: [{name: a}]\nn_attempts: 0\n",
		"b.yaml", "\nagents:\n  - name: b\n    n_concurrent: 9\n",
	))
	want := "a.yaml:2:1 error bad-value: n_attempts: 0 is less than 1\n" +
		"b.yaml:4:5 error bad-value: agents[1].n_concurrent: 9 is more than n_concurrent_trials, 4"
	if got := brief(problems); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestLoadTrial(t *testing.T) {
	t.Parallel()
	c, problems := LoadTrial(files(t, "c.yaml", "task: {path: tasks/x}\nagent: {name: nop}\ntrial_name: t1\n"))
	if len(problems) > 0 || c.TrialName != "t1" || c.Agent.AgentName() != "nop" || c.Task.Reference() != "tasks/x" {
		t.Errorf("%+v, %v", c, problems)
	}
	_, problems = LoadTrial(files(t, "c.yaml", "task: {path: tasks/x}\nagents: []\n"))
	if got := brief(problems); got != "c.yaml:2:1 error unknown-key: agents is not a known key (did you mean agent?)" {
		t.Error(got)
	}
}

func FuzzLoadJob(f *testing.F) {
	golden, err := os.ReadFile("testdata/job-config.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add("c.json", golden)
	f.Add("c.yaml", golden)
	f.Add("c.yaml", []byte("a: &a {<<: *a}\nb: [*a]\nagents: [{<<: {name: x}}]\n"))
	f.Add("c.yaml", []byte("environment: {env: [A=1], kwargs: {x: .inf}}\norchestrator: {retry: 1}\n? [a]\n: b\n"))
	f.Add("c.json", []byte(`{"agents":[null,{"env":["x"]}],"retry":{"exclude_exceptions":[]}}`))
	f.Fuzz(func(t *testing.T, name string, content []byte) {
		d := parse(name, content)
		s := &stack{root: map[string]any{}, at: map[string]place{}}
		if layer := d.layer(reflect.TypeFor[trials.JobConfig]()); layer != nil {
			s.add(layer, d.at)
		}
		c, problems := decode(s, d.problems, trials.DecodeJob, trials.JobConfig.Validate)
		if problems.Err() != nil {
			return
		}
		if _, err := trials.MarshalIndent(c); err != nil {
			t.Fatalf("a good configuration cannot be written: %v", err)
		}
	})
}
