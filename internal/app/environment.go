package app

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	errs := []error{CheckEnvironment(c.Environment), checkVerifier(c.Verifier)}
	if c.UserAgent != nil {
		errs = append(errs, errors.New("user_agent: simulated users are not built"))
	}
	if len(c.SourceJobs) > 0 {
		errs = append(errs, errors.New("source_jobs: grading earlier jobs again is not built yet"))
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
	errs := []error{CheckEnvironment(c.Environment), checkVerifier(c.Verifier)}
	if c.UserAgent != nil {
		errs = append(errs, errors.New("user_agent: simulated users are not built"))
	}
	if c.SourceTrial != nil {
		errs = append(errs, errors.New("source_trial: grading earlier trials again is not built yet"))
	}
	return errors.Join(errs...)
}

// CheckEnvironment finds what no sandbox could be made with.
func CheckEnvironment(c trials.EnvironmentConfig) error {
	switch {
	case c.ImportPath != nil && *c.ImportPath != "":
		return fmt.Errorf("environment.import_path %q: Python classes cannot be loaded; choose a provider with -e", *c.ImportPath)
	case len(c.ExtraDockerCompose) > 0:
		return errors.New("environment.extra_docker_compose: compose is not built yet")
	case c.Stream:
		return errors.New("environment.stream: SSH into sandboxes is not built")
	case c.OverrideTPU != nil:
		return errors.New("environment.override_tpu: TPUs are not supported")
	}
	return runner.CheckKwargs(c.Kwargs)
}

func checkVerifier(c trials.VerifierConfig) error {
	if c.ImportPath != nil && *c.ImportPath != "" {
		return fmt.Errorf("verifier.import_path %q: Python classes cannot be loaded; use tests/test.sh", *c.ImportPath)
	}
	return nil
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

func (p *Plan) overridden(v tasks.Variable) bool {
	_, env := p.Config.Environment.Env[v.Name]
	_, ver := p.Config.Verifier.Env[v.Name]
	return env || ver
}
