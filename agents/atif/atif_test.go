package atif

import (
	"encoding/json"
	"strings"
	"testing"
)

func ptr[T any](v T) *T { return &v }

func TestRunBecomesATrajectory(t *testing.T) {
	t.Parallel()
	var r Run
	r.Add(Step{Source: User, Message: "do it"})
	r.Add(Step{Source: FromAgent, ToolCalls: []ToolCall{{"c1", "bash", json.RawMessage(`{"command":"ls"}`)}, {"c2", "odd", json.RawMessage(`"text"`)}}, Metrics: &Metrics{Prompt: ptr(int64(10)), Cached: ptr(int64(3))}})
	r.Observe("c1", "a.txt")
	r.Observe("nobody's", "lost")
	r.Add(Step{Source: FromAgent, Message: "done", Metrics: &Metrics{Prompt: ptr(int64(5)), Completion: ptr(int64(2))}})
	traj := r.Trajectory(Agent{Name: "a", Version: "1"}, Metrics{Completion: ptr(int64(9))})
	var b strings.Builder
	if err := traj.Write(&b); err != nil {
		t.Fatal(err)
	}
	f := traj.FinalMetrics
	if *f.Prompt != 15 || *f.Completion != 9 || *f.Cached != 3 || f.Steps != 3 || f.CostUSD != nil {
		t.Errorf("sums: %s", b.String())
	}
	if strings.Contains(b.String(), "lost") || !strings.Contains(b.String(), `"input": "text"`) || strings.Contains(b.String(), "null") {
		t.Errorf("got %s", b.String())
	}
	if *r.steps[2].Metrics.Prompt != 5 {
		t.Error("summing changed a step")
	}
}

func TestWhatTheFormatForbidsIsNamed(t *testing.T) {
	t.Parallel()
	valid := func() *Trajectory {
		return &Trajectory{SchemaVersion: Version, Agent: Agent{Name: "a", Version: "1"}, Steps: []Step{
			{ID: 1, Source: User}, {ID: 2, Source: FromAgent, ToolCalls: []ToolCall{{"c", "f", json.RawMessage("{}")}}, Observation: &Observation{[]Result{{"c", "x"}}}},
		}}
	}
	if err := valid().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Trajectory){
		"lacks":            func(t *Trajectory) { t.Agent.Version = "" },
		"no steps":         func(t *Trajectory) { t.Steps = nil },
		"step_id is 7":     func(t *Trajectory) { t.Steps[1].ID = 7 },
		`source is "tool"`: func(t *Trajectory) { t.Steps[0].Source = "tool" },
		"what agents have": func(t *Trajectory) { t.Steps[0].Reasoning = "hm" },
		"no object":        func(t *Trajectory) { t.Steps[1].ToolCalls[0].Arguments = json.RawMessage("[]") },
		"did not make":     func(t *Trajectory) { t.Steps[1].Observation.Results[0].Call = "d" },
	} {
		traj := valid()
		spoil(traj)
		if err := traj.Write(new(strings.Builder)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
