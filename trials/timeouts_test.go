package trials

import (
	"fmt"
	"math"
	"testing"

	"harborgate/tasks"
)

// TestB026Timeouts walks all combinations of task value, override, cap and
// multipliers, and computes the expected limit by hand.
func TestB026Timeouts(t *testing.T) {
	t.Parallel()
	task := ptr(600.0)
	for _, c := range []struct {
		task                    *float64
		override, limit, factor *Float
		general                 Float
		want                    float64
		origin                  string
	}{
		{task, nil, nil, nil, 1, 600, "task.toml agent.timeout_sec 600 s"},
		{task, nil, nil, nil, 2, 1200, "task.toml agent.timeout_sec 600 s × timeout_multiplier 2"},
		{task, nil, nil, ptr(Float(0.5)), 4, 300, "task.toml agent.timeout_sec 600 s × agent_timeout_multiplier 0.5"},
		{task, nil, nil, ptr(Float(1)), 4, 600, "task.toml agent.timeout_sec 600 s"},
		{task, ptr(Float(30)), nil, nil, 1, 30, "agent.override_timeout_sec 30 s"},
		{task, ptr(Float(30)), nil, nil, 4, 120, "agent.override_timeout_sec 30 s × timeout_multiplier 4"},
		{task, ptr(Float(0)), nil, nil, 1, 600, "task.toml agent.timeout_sec 600 s"},
		{task, ptr(Float(30)), ptr(Float(60)), nil, 1, 30, "agent.override_timeout_sec 30 s"},
		{task, ptr(Float(90)), ptr(Float(60)), nil, 1, 60, "agent.max_timeout_sec 60 s"},
		{task, ptr(Float(90)), ptr(Float(60)), nil, 2, 120, "agent.max_timeout_sec 60 s × timeout_multiplier 2"},
		{task, nil, ptr(Float(60)), ptr(Float(0.5)), 4, 30, "agent.max_timeout_sec 60 s × agent_timeout_multiplier 0.5"},
		{task, nil, ptr(Float(0)), nil, 1, 600, "task.toml agent.timeout_sec 600 s"},
		{task, nil, ptr(Float(600)), nil, 1, 600, "task.toml agent.timeout_sec 600 s"},
		{nil, nil, nil, nil, 4, 0, "no limit: task.toml agent.timeout_sec is not set"},
		{nil, nil, ptr(Float(60)), nil, 1, 0, "no limit: task.toml agent.timeout_sec is not set"},
		{nil, ptr(Float(30)), ptr(Float(60)), ptr(Float(0.1)), 1, 3, "agent.override_timeout_sec 30 s × agent_timeout_multiplier 0.1"},
	} {
		config := NewTrialConfig(TaskConfig{})
		config.Timeout, config.AgentTimeout = c.general, c.factor
		config.Agent.OverrideTimeoutSec, config.Agent.MaxTimeoutSec = c.override, c.limit
		got := EffectiveTimeouts(tasks.Config{Agent: tasks.Agent{TimeoutSec: c.task}}, nil, config).Agent
		if math.Abs(got.Seconds-c.want) > 1e-9 || got.Origin != c.origin {
			t.Errorf("%+v: %v s by %q", c, got.Seconds, got.Origin)
		}
	}
}

func TestTimeoutsOfAllPhases(t *testing.T) {
	t.Parallel()
	task, problems := tasks.ParseConfig("task.toml", []byte(`
[agent]
timeout_sec = 100
[verifier]
timeout_sec = 50
[environment]
build_timeout_sec = 300
[[steps]]
name = "one"
[[steps]]
name = "two"
agent.timeout_sec = 7
verifier.timeout_sec = 8
`))
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	config := NewTrialConfig(TaskConfig{})
	config.Timeout = 2
	config.EnvironmentBuild, config.AgentSetup, config.VerifierTimeout = ptr(Float(3)), ptr(Float(0.5)), ptr(Float(10))
	seconds := func(x Timeouts) string {
		return fmt.Sprint(x.EnvironmentStart.Seconds, x.AgentSetup.Seconds, x.Agent.Seconds, x.Verifier.Seconds)
	}
	for want, got := range map[string]Timeouts{
		"900 180 200 500":  EffectiveTimeouts(task, nil, config),
		"900 180 200 6000": EffectiveTimeouts(task, &task.Steps[0], config),
		"900 180 14 80":    EffectiveTimeouts(task, &task.Steps[1], config),
	} {
		if seconds(got) != want {
			t.Errorf("%s, want %s", seconds(got), want)
		}
	}
	config.Agent.OverrideSetupTimeoutSec = ptr(Float(1200))
	got := EffectiveTimeouts(task, &task.Steps[1], config)
	if got.AgentSetup.Seconds != 600 || got.Verifier.Origin != "task.toml steps.two.verifier.timeout_sec 8 s × verifier_timeout_multiplier 10" {
		t.Errorf("%+v", got)
	}
	if len(got.Map()) != 4 || got.Map()["agent_execution"] != got.Agent {
		t.Errorf("map %+v", got.Map())
	}
}
