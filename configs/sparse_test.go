package configs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harborgate/trials"
)

// sparseOf is a job with some settings; asked are those that somebody named.
func sparseOf(t *testing.T, full, asked func(*trials.JobConfig)) Sparse {
	t.Helper()
	c, given := trials.NewJobConfig(), trials.JobConfig{}
	full(&c)
	asked(&given)
	s, err := NewSparse(c, trials.NewJobConfig(), given, trials.JobConfig{}, "job_name")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSparse(t *testing.T) {
	t.Parallel()
	name, path, cpus := "nop", "tasks", trials.Cores(2)
	settings := func(c *trials.JobConfig) {
		c.JobName, c.NAttempts, c.NConcurrentTrials, c.Timeout = "monday", 1, 8, 2
		c.Environment.OverrideCPUs, c.Environment.Delete = &cpus, false
		c.Environment.Env = trials.Env{"A": "yes", "B": "${C}"}
		c.Agents = trials.List[trials.AgentConfig]{{Name: &name, Kwargs: trials.Object[any]{"x": true}}}
		c.Datasets = trials.List[trials.DatasetConfig]{{Path: &path}}
	}
	s := sparseOf(t, settings, func(c *trials.JobConfig) { c.NAttempts = 1 })
	const wantYAML = `schema_version: 1
n_attempts: 1
timeout_multiplier: 2.0
n_concurrent_trials: 8
environment:
  delete: false
  override_cpus: 2
  env:
    A: "yes"
    B: ${C}
agents:
  - name: nop
    kwargs:
      x: true
datasets:
  - path: tasks
`
	got, err := s.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantYAML, string(got)); diff != "" {
		t.Error(diff)
	}
	asJSON, err := s.JSON()
	if err != nil {
		t.Fatal(err)
	}
	// Both are read back as what they were made from.
	want := trials.NewJobConfig()
	settings(&want)
	want.JobName = ""
	for ext, content := range map[string][]byte{"yaml": got, "json": asJSON} {
		file := filepath.Join(t.TempDir(), "c."+ext)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		back, problems := LoadJob([]string{file})
		if err := problems.Err(); err != nil {
			t.Fatalf("%v\n%s", err, content)
		}
		a, _ := trials.MarshalIndent(want)
		b, _ := trials.MarshalIndent(back)
		if diff := cmp.Diff(string(a), string(b)); diff != "" {
			t.Errorf("%s: %s", ext, diff)
		}
	}
}

func TestSparseOfNothing(t *testing.T) {
	t.Parallel()
	nothing := func(*trials.JobConfig) {}
	got, err := sparseOf(t, nothing, nothing).YAML()
	if err != nil || string(got) != "schema_version: 1\n" {
		t.Errorf("%q %v", got, err)
	}
}
