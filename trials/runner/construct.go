package runner

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"harborgate/agents"
	"harborgate/internal/redact"
	"harborgate/providers"
	"harborgate/tasks"
	"harborgate/trials"
)

// kwargs are the options of the environment that this program knows (--ek).
type kwargs struct {
	// autoMounting mounts the log directories from the host instead of copying.
	autoMounting bool
	// keepAgentProcesses leaves what the agent started running during
	// verification, for tasks whose tests talk to a server that it started.
	keepAgentProcesses bool
}

// EnvironmentOptions documents the kwargs, for `harbor env list` and errors.
var environmentOptions = map[string]func(*kwargs) *bool{
	"auto_mounting":        func(k *kwargs) *bool { return &k.autoMounting },
	"keep_agent_processes": func(k *kwargs) *bool { return &k.keepAgentProcesses },
}

// CheckKwargs reports environment options that do not exist or have a wrong
// value; the runner refuses such a trial, the CLI does before anything runs.
func CheckKwargs(given map[string]any) error {
	_, err := parseKwargs(given)
	return err
}

func parseKwargs(given map[string]any) (kwargs, error) {
	var k kwargs
	for _, name := range slices.Sorted(maps.Keys(given)) {
		field, ok := environmentOptions[name]
		if !ok {
			return k, fmt.Errorf("environment option %q is not known: there are %s", name,
				strings.Join(slices.Sorted(maps.Keys(environmentOptions)), ", "))
		}
		v, ok := given[name].(bool)
		if !ok {
			return k, fmt.Errorf("environment option %s=%v must be true or false", name, given[name])
		}
		*field(&k) = v
	}
	return k, nil
}

// environment is what commands get to see, resolved against the host.
type environment struct {
	public   map[string]string // of the sandbox itself, visible to anybody who inspects it
	secret   map[string]string // of each command, also those of the agent
	agent    map[string]string
	verifier map[string]string
	solution map[string]string
	// replaced are upstreams by the variables in which a credential was asked for.
	replaced map[trials.Phase]map[string]string
}

// construct does all that needs no sandbox: whatever is wrong here concerns this
// trial alone and costs nothing.
func (x *run) construct() *trials.Failure {
	err := x.t.Sink.Begin(x.t.Config, x.t.Lock)
	x.t.Lock = nil // it is written, and not small
	if err != nil {
		return trials.NewFailure(trials.PhaseQueue, x.hostCause(err), "", err.Error())
	}
	if x.t.Invalid != nil {
		return trials.NewFailure(trials.PhaseQueue, trials.CauseInvalidTask, "", x.t.Invalid.Error())
	}
	if x.t.Unsupported != "" {
		x.res.Harborgate.Provider = "" // it runs at none
	}
	if msg := cmp.Or(x.t.Unsupported, Unsupported(x.r.opt.Provider.Info(), x.t.Task, *x.t.Config)); msg != "" {
		return trials.NewFailure(trials.PhaseQueue, trials.CauseUnsupported, "Unsupported", msg)
	}
	steps := []func() error{x.readKwargs, x.readEnvironment}
	if x.t.Source == nil {
		steps = append(steps, x.readTools, x.makeAgent, x.readInstruction)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return invalid(err)
		}
	}
	return nil
}

func invalid(err error) *trials.Failure {
	cause := trials.CauseInvalidConfig
	var missing *tasks.MissingVariablesError
	if errors.As(err, &missing) {
		cause = trials.CauseVariable
	}
	return trials.NewFailure(trials.PhaseQueue, cause, "", err.Error())
}

// Unsupported says what a trial needs and cannot get from a provider, or its agent
// cannot use, "" when nothing.
func Unsupported(p providers.Info, task *tasks.Task, cfg trials.TrialConfig) string {
	can := p.Can
	var features []tasks.Feature
	if can.HasNetwork(providers.NetworkNone) {
		features = append(features, tasks.FeatureNoNetwork)
	}
	var needs []string
	for _, n := range task.Unsupported(features...) {
		needs = append(needs, n.String())
	}
	c := cfg.Environment
	if p := c.CPUEnforcementPolicy; p == "request" || p == "guarantee" {
		needs = append(needs, "--cpus "+p)
	}
	if p := c.MemoryEnforcementPolicy; p == "request" || p == "guarantee" {
		needs = append(needs, "--memory "+p)
	}
	if len(c.ExtraAllowedHosts)+len(cfg.Agent.ExtraAllowedHosts)+len(cfg.Verifier.ExtraAllowedHosts) > 0 {
		needs = append(needs, "an allow list (extra_allowed_hosts)")
	}
	if c.OverrideGPUs != nil && *c.OverrideGPUs > 0 {
		needs = append(needs, "GPUs (--override-gpus)")
	}
	why := unusable(task, cfg.Agent)
	if len(needs) > 0 {
		why = append(why, fmt.Sprintf("provider %s cannot run this task yet, it needs %s", p.Name, strings.Join(needs, " and ")))
	}
	return strings.Join(why, "; ")
}

// unusable says what a task has for agents that the one of a trial cannot use.
func unusable(task *tasks.Task, a trials.AgentConfig) (why []string) {
	for _, n := range agents.Lacks(a, task.AgentNeeds()) {
		why = append(why, fmt.Sprintf("agent %s cannot use what this task has for it, %s: choose another agent (`harbor agent list` has what they can)", a.AgentName(), n))
	}
	return why
}

func (x *run) readKwargs() (err error) {
	x.kwargs, err = parseKwargs(x.t.Config.Environment.Kwargs)
	return err
}

func (x *run) readEnvironment() error {
	task, cfg := x.t.Task.Config, x.t.Config
	var errs []error
	var secrets []string
	resolve := func(env map[string]string, where string) map[string]string {
		out, err := tasks.ResolveEnv(env, where, x.r.opt.Lookup)
		errs = append(errs, err)
		secrets = append(secrets, secretsOf(env, out)...)
		return out
	}
	all := resolve(task.Environment.Env, "task.toml [environment.env]")
	job := resolve(cfg.Environment.Env, "environment.env")
	merged := mergeEnv(all, job)
	merged = x.guard(trials.PhaseAgentExecution, nil, merged)
	if r := x.env.replaced[trials.PhaseAgentExecution]; r != nil { // all commands have the sandbox's environment
		x.env.replaced[trials.PhaseVerifier] = maps.Clone(r)
	}
	x.env.public, x.env.secret = split(merged, task.Environment.Env, cfg.Environment.Env)
	x.env.verifier = x.guard(trials.PhaseVerifier, nil,
		mergeEnv(resolve(task.Verifier.Env, "task.toml [verifier.env]"), resolve(cfg.Verifier.Env, "verifier.env")))
	if x.t.Source == nil {
		x.env.agent = x.guard(trials.PhaseAgentExecution, &cfg.Agent, resolve(cfg.Agent.Env, "agent env"))
	}
	if x.t.Source == nil && cfg.Agent.AgentName() == "oracle" {
		x.env.solution = x.guard(trials.PhaseAgentExecution, nil, resolve(task.Solution.Env, "task.toml [solution.env]"))
	}
	x.hide(secrets...)
	return errors.Join(errs...)
}

// hide keeps values out of everything that is written about the trial.
func (x *run) hide(values ...string) {
	x.hidden = append(x.hidden, values...)
	x.secrets = redact.New(x.hidden...)
	x.t.Sink.Hide(values...)
}

// secretsOf are the values that must not show in logs and results: those of
// variables that are called like secrets, here or on the host.
func secretsOf(source, resolved map[string]string) []string {
	var out []string
	for k, v := range resolved {
		t, ok := tasks.ParseTemplate(source[k])
		if trials.Sensitive(k) || ok && trials.Sensitive(t.Name) {
			out = append(out, v)
		}
	}
	return out
}

func (x *run) guard(p trials.Phase, agent *trials.AgentConfig, env map[string]string) map[string]string {
	if x.r.opt.Credentials == nil {
		return env
	}
	out, replaced, notes := x.r.opt.Credentials.Guard(p, agent, env)
	for _, n := range notes {
		x.note(n.Code, n.Message)
	}
	if len(replaced) > 0 {
		if x.env.replaced == nil {
			x.env.replaced = map[trials.Phase]map[string]string{}
		}
		x.env.replaced[p] = mergeEnv(x.env.replaced[p], replaced)
	}
	return out
}

// split keeps values that came from the host, or are called like a secret, out
// of what the provider shows.
func split(env map[string]string, sources ...map[string]string) (public, secret map[string]string) {
	public, secret = map[string]string{}, map[string]string{}
	for k, v := range env {
		hidden := trials.Sensitive(k)
		for _, src := range sources {
			hidden = hidden || tasks.IsTemplate(src[k])
		}
		if hidden {
			secret[k] = v
		} else {
			public[k] = v
		}
	}
	return public, secret
}

func mergeEnv(layers ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range layers {
		maps.Copy(out, m)
	}
	return out
}

func (x *run) makeAgent() (err error) {
	x.agent, err = agents.New(agents.Input{Config: x.t.Config.Agent, SolutionEnv: x.env.solution, Tools: x.tools})
	if err == nil {
		x.res.AgentInfo = x.agent.Info()
	}
	return err
}

// readInstruction joins the task's instruction with what the job adds: files
// first, then strings.
func (x *run) readInstruction() error {
	text, err := x.t.Task.Instruction(nil)
	if err != nil {
		return err
	}
	parts := []string{text}
	for _, p := range x.t.Config.ExtraInstructionPaths {
		b, err := os.ReadFile(p)
		if err != nil {
			return fmt.Errorf("extra instruction: %w", err)
		}
		parts = append(parts, string(b))
	}
	x.instruction = strings.Join(append(parts, x.t.Config.ExtraInstructions...), "\n\n")
	return nil
}
