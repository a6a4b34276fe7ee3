package app

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"harborgate/configs"
	"harborgate/providers"
	"harborgate/tasks"
	"harborgate/trials"
	"harborgate/trials/runner"
	"harborgate/trials/stats"
)

// EnvironmentName is the provider that a configuration asks for.
func EnvironmentName(c trials.EnvironmentConfig) string {
	if c.Type == nil || *c.Type == "" {
		return "docker"
	}
	return *c.Type
}

// CheckJob finds what no trial of a job could do, so that nothing is silently
// left out.
func CheckJob(c trials.JobConfig) error {
	errs := []error{
		CheckEnvironment(c.Environment), checkVerifier(c.Verifier), checkInstructions(c.ExtraInstructionPaths), checkSources(c.SourceJobs),
	}
	if c.UserAgent != nil {
		errs = append(errs, errors.New("user_agent: simulated users are not built"))
	}
	for _, a := range c.Agents {
		errs = append(errs, checkEndpoint(a))
	}
	for i, m := range c.Metrics {
		if !stats.IsMetric(m.Type) {
			errs = append(errs, fmt.Errorf("metrics[%d].type %q: it must be one of %s (scripts are not run)", i, m.Type, strings.Join(stats.Metrics(), ", ")))
		}
	}
	return errors.Join(errs...)
}

// CheckTrial does the same for a single trial.
func CheckTrial(c trials.TrialConfig) error {
	errs := []error{CheckEnvironment(c.Environment), checkVerifier(c.Verifier), checkInstructions(c.ExtraInstructionPaths), checkEndpoint(c.Agent)}
	if c.UserAgent != nil {
		errs = append(errs, errors.New("user_agent: simulated users are not built"))
	}
	if s := c.SourceTrial; s != nil && (s.Action != actionRegrade || s.Type != sourceLocal || s.Path == nil) {
		errs = append(errs, errors.New("source_trial: only trials on this host can be graded again: action regrade, type local, and a path"))
	}
	return errors.Join(errs...)
}

// CheckEnvironment finds what no sandbox could be made with.
func CheckEnvironment(c trials.EnvironmentConfig) error {
	if _, err := configs.ParseChoices(EnvironmentName(c)); err != nil {
		return err
	}
	switch {
	case c.ImportPath != nil && *c.ImportPath != "":
		return fmt.Errorf("environment.import_path %q: Python classes cannot be loaded; choose a provider with -e", *c.ImportPath)
	case len(c.ExtraDockerCompose) > 0:
		return errors.New("environment.extra_docker_compose: compose is not built yet")
	case c.Stream:
		return errors.New("environment.stream: SSH into sandboxes is not built")
	case c.OverrideTPU != nil:
		return errors.New("environment.override_tpu: TPUs are not supported")
	case c.OverrideGPUs != nil && *c.OverrideGPUs > 0:
		return errors.New("environment.override_gpus: GPUs are not supported yet")
	case c.CPUEnforcementPolicy == "request" || c.CPUEnforcementPolicy == "guarantee":
		return fmt.Errorf("environment.cpu_enforcement_policy %q (--cpus): a limit is all that can be enforced; use auto, limit or ignore", c.CPUEnforcementPolicy)
	case c.MemoryEnforcementPolicy == "request" || c.MemoryEnforcementPolicy == "guarantee":
		return fmt.Errorf("environment.memory_enforcement_policy %q (--memory): a limit is all that can be enforced; use auto, limit or ignore", c.MemoryEnforcementPolicy)
	}
	if err := checkMounts(c.Mounts); err != nil {
		return err
	}
	return runner.CheckKwargs(c.Kwargs)
}

// checkMounts looks at the host's side of mounts before any trial does.
func checkMounts(mounts *trials.List[trials.VolumeConfig]) error {
	if mounts == nil {
		return nil
	}
	for _, m := range *mounts {
		if m.Type != "bind" {
			return fmt.Errorf("environment.mounts: %s: type %q is not supported, only bind is", m.Target, m.Type)
		}
		if _, err := os.Stat(m.Source); err != nil {
			return fmt.Errorf("environment.mounts: %s: %w: make it, or correct the source", m.Target, err)
		}
	}
	return nil
}

func checkInstructions(paths []string) error {
	for _, p := range paths {
		if fi, err := os.Stat(p); err != nil || !fi.Mode().IsRegular() {
			return fmt.Errorf("extra_instruction_paths: %s is no readable file", p)
		}
	}
	return nil
}

func checkVerifier(c trials.VerifierConfig) error {
	if c.ImportPath != nil && *c.ImportPath != "" {
		return fmt.Errorf("verifier.import_path %q: Python classes cannot be loaded; use tests/test.sh", *c.ImportPath)
	}
	return nil
}

// Unsupported says what a planned trial needs and cannot get from a provider, ""
// when nothing.
func Unsupported(p providers.Info, t PlannedTrial) string {
	return runner.Unsupported(p, t.Task.Task, *t.Config)
}

// WantedVariable is a variable of the host that tasks ask for and would get.
type WantedVariable struct {
	Name  string
	Where string // the first place that uses it
	Tasks int
}

// Variables lists what the plan's tasks would get to know of the host: variables
// that are set. Those that a job sets itself are not the host's.
func (p *Plan) Variables(lookup func(string) (string, bool)) []WantedVariable {
	oracle := slices.ContainsFunc(p.Config.Agents, func(a trials.AgentConfig) bool { return a.AgentName() == "oracle" })
	found := map[string]*WantedVariable{}
	seen := map[*plannedTask]bool{}
	for _, t := range p.Trials {
		if seen[t.Task] {
			continue
		}
		seen[t.Task] = true
		mine := map[string]bool{}
		for _, v := range t.Task.Variables(oracle) {
			if _, set := lookup(v.Name); !set || mine[v.Name] || p.overridden(v) {
				continue
			}
			mine[v.Name] = true
			if found[v.Name] == nil {
				found[v.Name] = &WantedVariable{Name: v.Name, Where: v.Where}
			}
			found[v.Name].Tasks++
		}
	}
	var out []WantedVariable
	for _, name := range slices.Sorted(maps.Keys(found)) {
		out = append(out, *found[name])
	}
	return out
}

// overridden reports whether the job sets a variable itself. Headers of tool servers
// are no variables.
func (p *Plan) overridden(v tasks.Variable) bool {
	if strings.Contains(v.Where, "mcp_servers") {
		return false
	}
	_, env := p.Config.Environment.Env[v.Name]
	_, ver := p.Config.Verifier.Env[v.Name]
	return env || ver
}
