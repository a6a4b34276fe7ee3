package trials

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func golden(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "golden", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// compact drops the white space, which some recordings changed.
func compact(t testing.TB, b []byte) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return out.String()
}

func noEnv(string) (string, bool) { return "", false }

func TestJobConfigIsHarbors(t *testing.T) {
	t.Parallel()
	want := golden(t, "job-config.json")

	c := NewJobConfig()
	c.JobName = "success"
	c.Tasks = List[TaskConfig]{{Path: ptr("tasks/hello-ok")}}
	got, err := MarshalIndent(c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("built (-want +got):\n%s", diff)
	}

	read, err := ReadJobConfig(want)
	if err != nil {
		t.Fatal(err)
	}
	if got, err = MarshalIndent(read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("read and written (-want +got):\n%s", diff)
	}
	if errs := read.Validate(); len(errs) > 0 {
		t.Error(errs)
	}
}

func TestTrialConfigIsHarbors(t *testing.T) {
	t.Parallel()
	want := golden(t, "trial-config.json")
	job := NewJobConfig()
	job.JobName = "success"
	const id = "22e3846c-205f-4b6b-b03b-ac6239a79917"
	task := TaskConfig{Path: ptr("tasks/hello-ok")}
	planned, err := Expand(job, id, []TaskConfig{task}, bytes.NewReader(make([]byte, 100)))
	if err != nil {
		t.Fatal(err)
	}
	c := planned[0].Own()
	c.TrialName = "hello-ok__te86zKT"
	got, err := MarshalIndent(c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("expanded (-want +got):\n%s", diff)
	}

	read, err := ReadTrialConfig(want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, read, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}

func TestRedactedTrialConfigIsHarbors(t *testing.T) {
	t.Parallel()
	want := golden(t, "trial-config-redacted.json")
	c, err := ReadTrialConfig(want)
	if err != nil {
		t.Fatal(err)
	}
	c.Agent.Env = Env{"ANTHROPIC_API_KEY": "sk-abcdefghijklmnop"}
	got, err := MarshalIndent(c.Redacted(noEnv))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(compact(t, want), compact(t, got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if c.Agent.Env["ANTHROPIC_API_KEY"] != "sk-abcdefghijklmnop" {
		t.Error("redaction changed the original")
	}
}

func TestJobConfigWithSourceJobIsHarbors(t *testing.T) {
	t.Parallel()
	want := bytes.Replace(golden(t, "job-config-regrade.json"),
		[]byte(`"<elided: same shape as success/>"`), excludesOf(t), 1)
	c, err := ReadJobConfig(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := MarshalIndent(c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(compact(t, want), compact(t, got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// excludesOf is the list that other recordings leave out.
func excludesOf(t *testing.T) []byte {
	t.Helper()
	var c struct {
		Retry struct {
			Exclude json.RawMessage `json:"exclude_exceptions"`
		} `json:"retry"`
	}
	if err := json.Unmarshal(golden(t, "job-config.json"), &c); err != nil {
		t.Fatal(err)
	}
	return c.Retry.Exclude
}

func TestConfigKeepsSpelling(t *testing.T) {
	t.Parallel()
	const doc = `{
		"environment": {"kwargs": {"a": 1.0, "b": 1, "c": "<&>", "d": [2.50]}, "override_cpus": 2.0, "env": {"A": "1"}},
		"artifacts": ["/a", {"source": "/b"}, {"source": "/c", "destination": "c"}],
		"verifier": {"kwargs": {"x": 1}},
		"retry": {"exclude_exceptions": null, "include_exceptions": ["B", "A", "B"]},
		"agents": [{"name": "nop", "mcp_servers": [{"name": "m", "transport": "http", "url": "u"}]}]
	}`
	c, err := ReadJobConfig([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	b, err := MarshalIndent(c)
	if err != nil {
		t.Fatal(err)
	}
	got := compact(t, b)
	for _, want := range []string{
		`"kwargs":{"a":1.0,"b":1,"c":"<&>","d":[2.50]}`,
		`"override_cpus":2,`,
		`"env":{"A":"1"},"kwargs"`,
		`"artifacts":["/a",{"source":"/b","destination":null,"exclude":[],"service":null},{"source":"/c","destination":"c","exclude":[],"service":null}]`,
		`"verifier":{"override_timeout_sec":null,"max_timeout_sec":null,"kwargs":{"x":1},"disable":false}`,
		`"include_exceptions":["A","B"],"exclude_exceptions":null`,
		`"mcp_servers":[{"name":"m","transport":"streamable-http","url":"u","command":null,"args":[]}]`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
}

func TestReadOldJobConfig(t *testing.T) {
	t.Parallel()
	const doc = `{
		"job_name": "old", "plugins": [], "n_attempts": "2",
		"orchestrator": {"type": "local", "n_concurrent_trials": 8, "quiet": true, "retry": {"max_retries": 3}},
		"environment": {"mounts_json": [{"type": "bind", "source": "/a", "target": "/b"}],
			"env": ["A=1", "B = x=y"], "suppress_override_warnings": true},
		"datasets": [{"name": "d", "registry": {"url": "https://example.org/r.json", "name": "x"}}]
	}`
	var m map[string]any
	if err := json.Unmarshal([]byte(doc), &m); err != nil {
		t.Fatal(err)
	}
	if notes := MigrateJob(m); len(notes) != 6 {
		t.Errorf("%d notes, want 6: %q", len(notes), notes)
	}
	m["n_attempts"] = 2
	c, err := DecodeJob(m)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case c.NConcurrentTrials != 8 || !c.Quiet || c.Retry.MaxRetries != 3:
		t.Errorf("orchestrator was not moved: %+v", c)
	case len(*c.Retry.ExcludeExceptions) != 30:
		t.Errorf("excludes: %v", c.Retry.ExcludeExceptions)
	case len(*c.Environment.Mounts) != 1:
		t.Errorf("mounts: %v", c.Environment.Mounts)
	case !cmp.Equal(c.Environment.Env, Env{"A": "1", "B": "x=y"}):
		t.Errorf("env: %v", c.Environment.Env)
	case *c.Datasets[0].RegistryURL != "https://example.org/r.json":
		t.Errorf("datasets: %+v", c.Datasets[0])
	}
}

func TestOrchestratorDoesNotOverwrite(t *testing.T) {
	t.Parallel()
	c, err := ReadJobConfig([]byte(`{"n_concurrent_trials": 2, "orchestrator": {"n_concurrent_trials": 8}}`))
	if err != nil {
		t.Fatal(err)
	}
	if c.NConcurrentTrials != 2 {
		t.Errorf("n_concurrent_trials is %d, want 2", c.NConcurrentTrials)
	}
	if c, err = ReadJobConfig([]byte(`{"orchestrator": {}}`)); err != nil || c.NConcurrentTrials != 4 {
		t.Errorf("n_concurrent_trials is %d, want 4 (%v)", c.NConcurrentTrials, err)
	}
}

func TestReadRefusesUnknownSchema(t *testing.T) {
	t.Parallel()
	if _, err := ReadJobConfig([]byte(`{"schema_version": 2}`)); err == nil {
		t.Error("a job config of version 2 was read")
	}
	if _, err := ReadTrialConfig([]byte(`{"schema_version": 2, "task": {"path": "x"}}`)); err == nil {
		t.Error("a trial config of version 2 was read")
	}
}

func TestInstallOnlyDisablesVerification(t *testing.T) {
	t.Parallel()
	c, err := ReadJobConfig([]byte(`{"install_only": true}`))
	if err != nil || !c.Verifier.Disable {
		t.Errorf("disable is %v, %v", c.Verifier.Disable, err)
	}
}

func FuzzReadJobConfig(f *testing.F) {
	f.Add(golden(f, "job-config.json"))
	f.Add([]byte(`{"orchestrator": {"retry": null}, "datasets": [null, {"registry": {}}], "environment": {"env": ["A"]}}`))
	f.Add([]byte(`{"agents": [], "artifacts": [{"source": "a"}, "b"], "retry": {"exclude_exceptions": null}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		c, err := ReadJobConfig(doc)
		if err != nil {
			return
		}
		first, err := MarshalIndent(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ReadJobConfig(first)
		if err != nil {
			t.Fatalf("%v: reading back %s", err, first)
		}
		second, err := MarshalIndent(again)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%v: not stable:\n%s\n%s", err, first, second)
		}
	})
}
