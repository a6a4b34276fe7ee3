package trials

import (
	"fmt"
	"strconv"

	"harborgate/tasks"
)

// DefaultAgentSetupSec is how long an agent may take to install itself.
const DefaultAgentSetupSec = 360.0

// Timeouts are the time limits that hold for one trial.
type Timeouts struct {
	EnvironmentStart Limit
	AgentSetup       Limit
	Agent            Limit
	Verifier         Limit
}

// Map returns the limits under the names of the phases.
func (t Timeouts) Map() map[string]Limit {
	return map[string]Limit{
		string(PhaseEnvironmentSetup): t.EnvironmentStart,
		string(PhaseAgentSetup):       t.AgentSetup,
		string(PhaseAgentExecution):   t.Agent,
		string(PhaseVerifier):         t.Verifier,
	}
}

// EffectiveTimeouts computes the limits of a trial: the override or the task's
// own value, at most the cap, times the phase's multiplier or else the general
// one. step, when not nil, is the step whose values stand before the task's. A
// Limit of 0 seconds is none; its Origin says why.
func EffectiveTimeouts(task tasks.Config, step *tasks.Step, c TrialConfig) Timeouts {
	agent := chain{
		{"agent.override_timeout_sec", positive(c.Agent.OverrideTimeoutSec)},
		{"task.toml agent.timeout_sec", task.Agent.TimeoutSec},
	}
	verifier := chain{
		{"verifier.override_timeout_sec", positive(c.Verifier.OverrideTimeoutSec)},
		{"task.toml verifier.timeout_sec", &task.Verifier.TimeoutSec},
	}
	if step != nil {
		agent = chain{agent[0], {fmt.Sprintf("task.toml steps.%s.agent.timeout_sec", step.Name), step.Agent.TimeoutSec}, agent[1]}
		verifier[1] = source{fmt.Sprintf("task.toml steps.%s.verifier.timeout_sec", step.Name), &step.Verifier.TimeoutSec}
	}
	setup := chain{
		{"agent.override_setup_timeout_sec", (*float64)(c.Agent.OverrideSetupTimeoutSec)},
		{"default", ptr(DefaultAgentSetupSec)},
	}
	build := chain{{"task.toml environment.build_timeout_sec", &task.Environment.BuildTimeoutSec}}
	m := c.Multipliers
	return Timeouts{
		EnvironmentStart: build.limit(source{}, m.of("environment_build_timeout_multiplier", m.EnvironmentBuild)),
		AgentSetup:       setup.limit(source{}, m.of("agent_setup_timeout_multiplier", m.AgentSetup)),
		Agent: agent.limit(source{"agent.max_timeout_sec", positive(c.Agent.MaxTimeoutSec)},
			m.of("agent_timeout_multiplier", m.AgentTimeout)),
		Verifier: verifier.limit(source{"verifier.max_timeout_sec", positive(c.Verifier.MaxTimeoutSec)},
			m.of("verifier_timeout_multiplier", m.VerifierTimeout)),
	}
}

// source is a value and where it was written. nil is not written.
type source struct {
	name  string
	value *float64
}

// chain is a list of sources; the first that is set counts.
type chain []source

func (c chain) limit(maximum, factor source) Limit {
	for _, s := range c {
		if s.value == nil {
			continue
		}
		seconds, origin := *s.value, fmt.Sprintf("%s %s s", s.name, number(*s.value))
		if maximum.value != nil && *maximum.value < seconds {
			seconds, origin = *maximum.value, fmt.Sprintf("%s %s s", maximum.name, number(*maximum.value))
		}
		if *factor.value != 1 {
			seconds *= *factor.value
			origin += fmt.Sprintf(" × %s %s", factor.name, number(*factor.value))
		}
		return Limit{Seconds: seconds, Origin: origin}
	}
	return Limit{Origin: "no limit: " + c[len(c)-1].name + " is not set"}
}

// of returns the multiplier of a phase.
func (m Multipliers) of(name string, own *Float) source {
	if own != nil {
		return source{name, (*float64)(own)}
	}
	return source{"timeout_multiplier", ptr(float64(m.Timeout))}
}

// positive treats zero as not set, as Harbor does for overrides and caps.
func positive(f *Float) *float64 {
	if f == nil || *f == 0 {
		return nil
	}
	return (*float64)(f)
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
