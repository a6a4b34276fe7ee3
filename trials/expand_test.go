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
		names[p.Config.TrialName] = true
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
	if a, b := planned[0].Config, planned[1].Config; a.TrialName != "t__2222222" || b.TrialName != "t__3333333" || a.JobID != nil {
		t.Errorf("%s and %s, job %v", a.TrialName, b.TrialName, a.JobID)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	a, b := NewJobConfig(), NewJobConfig()
	b.JobName, b.NConcurrentTrials, b.Quiet, b.Retry.MaxRetries, b.JobsDir = "other", 9, true, 3, "elsewhere"
	b.Artifacts = List[ArtifactConfig]{}
	if got, err := Changes(a, b); err != nil || len(got) > 0 {
		t.Errorf("%v, %v: want none", got, err)
	}
	b.Agents = List[AgentConfig]{{Name: ptr("oracle"), ModelName: ptr("m")}}
	b.Timeout = 2
	if got, err := Changes(a, b); err != nil || !slices.Equal(got, []string{"agents", "timeout_multiplier"}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestTrialKey(t *testing.T) {
	t.Parallel()
	key := func(change func(*TrialConfig)) string {
		c := NewTrialConfig(TaskConfig{Path: ptr("t")})
		change(&c)
		k, err := c.Key()
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	same := key(func(*TrialConfig) {})
	if key(func(c *TrialConfig) { c.TrialName, c.TrialsDir, c.JobID = "n", "d", ptr("j") }) != same {
		t.Error("names change the key")
	}
	if key(func(c *TrialConfig) { c.Agent.ModelName = ptr("m") }) == same {
		t.Error("the model does not change the key")
	}
}
