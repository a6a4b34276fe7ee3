package trials

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestExpandOrder(t *testing.T) {
	t.Parallel()
	job := NewJobConfig()
	job.JobName, job.NAttempts = "j", 2
	job.Agents = List[AgentConfig]{{Name: ptr("a1")}, {Name: ptr("a2")}}
	tasks := []TaskConfig{{Path: ptr("d/t1")}, {Name: ptr("org/t2")}}
	planned, err := Expand(job, "id", tasks, rand.NewChaCha8([32]byte{}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	names := map[string]bool{}
	for _, p := range planned {
		got = append(got, fmt.Sprintf("%d %s %s", p.Attempt, p.Config.Task.Reference(), p.Config.Agent.AgentName()))
		names[p.Name] = true
		if p.Config.TrialsDir != "jobs/j" || *p.Config.JobID != "id" {
			t.Errorf("%+v", p.Config)
		}
	}
	want := []string{
		"1 d/t1 a1", "1 d/t1 a2", "1 org/t2 a1", "1 org/t2 a2",
		"2 d/t1 a1", "2 d/t1 a2", "2 org/t2 a1", "2 org/t2 a2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("order %q, want %q", got, want)
	}
	if len(names) != len(want) {
		t.Errorf("%d different names of %d", len(names), len(want))
	}
}

func TestExpandDrawsAgainForATakenName(t *testing.T) {
	t.Parallel()
	job := NewJobConfig()
	job.NAttempts = 2
	random := bytes.NewReader(append(make([]byte, 14), 1, 1, 1, 1, 1, 1, 1))
	planned, err := Expand(job, "", []TaskConfig{{Path: ptr("t")}}, random)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := planned[0].Own(), planned[1].Own(); a.TrialName != "t__2222222" || b.TrialName != "t__3333333" || a.JobID != nil {
		t.Errorf("%s and %s, job %v", a.TrialName, b.TrialName, a.JobID)
	}
}

// B120: what changes no verdict may change; the rest is named, with both values.
func TestB120Changes(t *testing.T) {
	t.Parallel()
	changes := func(change func(*JobConfig)) []Change {
		a, b := NewJobConfig(), NewJobConfig()
		change(&b)
		got, err := Changes(a, b)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := changes(func(c *JobConfig) {
		c.JobName, c.NConcurrentTrials, c.Quiet, c.Retry.MaxRetries, c.JobsDir = "other", 9, true, 3, "elsewhere"
		c.Artifacts, c.Agents[0].NConcurrent, c.Agents[0].ConcurrencyGroup = List[ArtifactConfig]{}, ptr(2), ptr("g")
		c.Environment.Type = ptr("other")
		c.Environment.Delete, c.Metrics, c.Debug = false, List[MetricConfig]{{Type: "max"}}, true
	}); len(got) > 0 {
		t.Errorf("%v: want none", got)
	}
	for name, c := range map[string]struct {
		change func(*JobConfig)
		want   Change
		grows  bool
	}{
		"model":      {func(c *JobConfig) { c.Agents[0].ModelName = ptr("m") }, Change{"agents[0].model_name", "null", `"m"`}, false},
		"arm":        {func(c *JobConfig) { c.Agents = List[AgentConfig]{} }, Change{"agents", "", "[]"}, false},
		"timeout":    {func(c *JobConfig) { c.Timeout = 2 }, Change{"timeout_multiplier", "1", "2"}, false},
		"variable":   {func(c *JobConfig) { c.Environment.Env = Env{"A": "b"} }, Change{"environment.env", "", `{"A":"b"}`}, false},
		"verifier":   {func(c *JobConfig) { c.Verifier.Disable = true }, Change{"verifier.disable", "false", "true"}, false},
		"attempts":   {func(c *JobConfig) { c.NAttempts = 3 }, Change{"n_attempts", "1", "3"}, true},
		"more tasks": {func(c *JobConfig) { c.Datasets = List[DatasetConfig]{{Path: ptr("d")}} }, Change{"datasets", "[]", ""}, true},
	} {
		got := changes(c.change)
		if len(got) != 1 || got[0].Key != c.want.Key || got[0].Grows() != c.grows ||
			c.want.Was != "" && got[0].Was != c.want.Was || c.want.Now != "" && got[0].Now != c.want.Now {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := changes(func(c *JobConfig) { c.Timeout = 2 })[0].String(); got != "timeout_multiplier was 1 and is now 2" {
		t.Error(got)
	}
}

func TestArm(t *testing.T) {
	t.Parallel()
	arm := func(change func(*AgentConfig)) string {
		a := NewJobConfig().Agents[0]
		change(&a)
		k, err := a.Arm()
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	same := arm(func(*AgentConfig) {})
	if arm(func(a *AgentConfig) { a.Name, a.NConcurrent = nil, ptr(3) }) != same {
		t.Error("what the default is, or how many run at once, changes the arm")
	}
	if arm(func(a *AgentConfig) { a.ModelName = ptr("m") }) == same {
		t.Error("the model does not change the arm")
	}
}
