package tasks

import (
	"fmt"
	"path/filepath"
	"slices"
)

// Feature is something that not every place can do.
type Feature string

// Features of the sandbox and of the runner.
const (
	FeatureCompose       Feature = "compose"
	FeatureSteps         Feature = "steps"
	FeatureAllowList     Feature = "allowlist"
	FeatureNoNetwork     Feature = "no-network"
	FeatureNetworkSwitch Feature = "network-switch" // other networks in other phases of one sandbox
	FeatureGPU           Feature = "gpu"
	FeatureTPU           Feature = "tpu"
	FeatureWindows       Feature = "windows"
	FeatureSidecars      Feature = "sidecars" // artifacts or collect hooks of compose services
)

// Features of the agent.
const (
	FeatureMCP        Feature = "mcp-servers"
	FeatureSkills     Feature = "skills"
	FeatureTrajectory Feature = "prior-trajectory"
)

// Need is a feature that a task needs, and why.
type Need struct {
	Feature Feature
	Why     string // "environment/docker-compose.yaml starts several services"
}

func (n Need) String() string { return string(n.Feature) + ": " + n.Why }

// Needs lists what the sandbox and the runner must be able to do, each feature
// once.
func (t *Task) Needs() []Need {
	var out []Need
	add := func(f Feature, format string, args ...any) {
		if !slices.ContainsFunc(out, func(n Need) bool { return n.Feature == f }) {
			out = append(out, Need{f, fmt.Sprintf(format, args...)})
		}
	}
	if p, ok := t.ComposeFile(); ok {
		add(FeatureCompose, "environment/%s describes several services", filepath.Base(p))
	}
	if n := len(t.Config.Steps); n > 0 {
		add(FeatureSteps, "the task has %d steps", n)
	}
	for _, e := range t.environments() {
		e.needs(add)
	}
	for _, p := range t.phases() {
		p.needs(add, t.Config.Environment.Network)
	}
	for _, list := range t.artifactLists() {
		for _, a := range list {
			if a.Sidecar() {
				add(FeatureSidecars, "artifact %s is of service %s", a.Source, a.Service)
			}
		}
	}
	return out
}

// Unsupported returns the needs that are not among the features that the caller
// can do.
func (t *Task) Unsupported(can ...Feature) []Need {
	return slices.DeleteFunc(t.Needs(), func(n Need) bool { return slices.Contains(can, n.Feature) })
}

// AgentNeeds lists what the agent must be able to do. Agents that do not think
// (oracle, nop) may ignore it.
func (t *Task) AgentNeeds() []Need {
	var out []Need
	if n := len(t.Config.Environment.MCPServers); n > 0 {
		out = append(out, Need{FeatureMCP, fmt.Sprintf("environment.mcp_servers lists %d tool servers", n)})
	}
	if d := t.Config.Environment.SkillsDir; d != "" {
		out = append(out, Need{FeatureSkills, "environment.skills_dir is " + d})
	}
	dirs := []string{t.Dir}
	for i := range t.Config.Steps {
		dirs = append(dirs, t.stepDir(&t.Config.Steps[i]))
	}
	for _, d := range dirs {
		if p, ok := existing(d, TrajectoryFile); ok {
			out = append(out, Need{FeatureTrajectory, p + " holds earlier work"})
			break
		}
	}
	return out
}

type namedEnvironment struct {
	name string
	*Environment
}

// environments lists every sandbox that the task describes.
func (t *Task) environments() []namedEnvironment {
	out := []namedEnvironment{{"environment", &t.Config.Environment}}
	if e := t.Config.Verifier.Environment; e != nil {
		out = append(out, namedEnvironment{"verifier.environment", e})
	}
	for i := range t.Config.Steps {
		s := &t.Config.Steps[i]
		if e := s.Verifier.Environment; e != nil {
			out = append(out, namedEnvironment{fmt.Sprintf("steps.%s.verifier.environment", s.Name), e})
		}
	}
	return out
}

func (e namedEnvironment) needs(add func(Feature, string, ...any)) {
	switch e.Network.Mode {
	case NetworkAllowList:
		add(FeatureAllowList, "%s.network_mode is allowlist", e.name)
	case NetworkNone:
		add(FeatureNoNetwork, "%s.network_mode is no-network", e.name)
	case NetworkPublic:
	}
	if e.GPUs > 0 {
		add(FeatureGPU, "%s.gpus is %d", e.name, e.GPUs)
	}
	if e.TPU != nil {
		add(FeatureTPU, "%s.tpu is %s %s", e.name, e.TPU.Type, e.TPU.Topology)
	}
	if e.OS == Windows {
		add(FeatureWindows, "%s.os is windows", e.name)
	}
}

// phase is a part of a trial with a network of its own.
type phase struct {
	name     string
	network  Network
	collect  []Collect
	separate bool // it has a sandbox of its own
}

func (t *Task) phases() []phase {
	out := []phase{
		{name: "agent", network: t.Config.Agent.Network},
		{
			name: "verifier", network: t.Config.Verifier.Network, collect: t.Config.Verifier.Collect,
			separate: t.VerifierMode(nil) == VerifierSeparate,
		},
	}
	for i := range t.Config.Steps {
		s := &t.Config.Steps[i]
		out = append(out,
			phase{name: "steps." + s.Name + ".agent", network: s.Agent.Network},
			phase{
				name: "steps." + s.Name + ".verifier", network: s.Verifier.Network, collect: s.Verifier.Collect,
				separate: t.VerifierMode(s) == VerifierSeparate,
			})
	}
	return out
}

func (p phase) needs(add func(Feature, string, ...any), environment Network) {
	switch p.network.Mode {
	case NetworkAllowList:
		add(FeatureAllowList, "%s.network_mode is allowlist", p.name)
	case NetworkNone:
		add(FeatureNoNetwork, "%s.network_mode is no-network", p.name)
	case NetworkPublic:
	}
	if p.network.Mode != "" && p.network.Mode != environment.Mode && !p.separate {
		add(FeatureNetworkSwitch, "%s.network_mode is %s but environment.network_mode is %s", p.name, p.network.Mode, environment.Mode)
	}
	for _, c := range p.collect {
		if c.Service != MainService {
			add(FeatureSidecars, "%s.collect runs a command in service %s", p.name, c.Service)
		}
	}
}

func (t *Task) artifactLists() [][]Artifact {
	out := [][]Artifact{t.Config.Artifacts}
	for _, s := range t.Config.Steps {
		out = append(out, s.Artifacts)
	}
	return out
}
