package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harborgate/internal/app"
	"harborgate/trials"
)

// sharedFlags are those of a job and of a single trial. Values count only where
// the flag was given; see apply.go.
type sharedFlags struct {
	configs                                         []string
	timeout, agentMul, verifierMul, setupMul, build float64
	agent, agentImport, envImport, env              string
	agentKwargs, agentEnv, envKwargs, verifierEnv   []string
	models                                          []string
	effort, baseURL, apiKeyName, apiFormat          string
	toolFiles, skills                               []string
	skipCredentialChecks, installOnly               bool
	forceBuild, delete                              bool
	cpus, memory                                    string
	overrideCPUs                                    float64
	overrideMemory, overrideStorage                 int64
	overrideGPUs                                    int
	mounts                                          string
	artifacts                                       []string
	disableVerification, enableVerification         bool
	extraInstructionPaths, extraInstructions        []string
	includeLogs, excludeLogs                        []string
	verifierIncludeLogs, verifierExcludeLogs        []string
	envFile                                         string
	yes                                             bool
	paths                                           []string
	settings                                        app.Settings
	printConfig                                     bool
	debug                                           bool
	partial                                         bool // no flag: a configuration is written, which may lack tasks
}

// runFlags are those of a job.
type runFlags struct {
	sharedFlags
	jobName, jobsDir           string
	attempts, concurrent       int
	concurrentAgents           int
	quiet                      bool
	maxRetries                 int
	retryInclude, retryExclude []string
	include, exclude           []string
	nTasks                     int
	tasks                      []string
	dryRun, prebuild           bool
	diff                       []string
}

func addSharedFlags(c *cobra.Command, f *sharedFlags) {
	s := section(c)
	s.StringArrayVarP(&f.configs, "config", "c", nil, "job configuration file, JSON or YAML; later ones lie on top (repeatable)")
	s.StringArrayVarP(&f.paths, "path", "p", nil, "task directory, or directory of tasks (repeatable)")
	s.VarP(&once{to: &f.agent, instead: func(_, _ string) string { return "a job with several agents is written as a configuration (-c)" }}, "agent", "a", "agent to run, see harbor agent list (default oracle)")
	s.StringArrayVarP(&f.models, "model", "m", nil, "model of the agent, provider/name; one arm for each (repeatable)")
	s.StringArrayVar(&f.agentKwargs, "ak", nil, "option of the agent, key=value (repeatable)")
	s.StringArrayVar(&f.agentEnv, "ae", nil, "environment variable of the agent, KEY=VALUE (repeatable)")
	s.StringVar(&f.effort, "effort", "", "reasoning effort, option reasoning_effort of every agent")
	s.StringVar(&f.baseURL, "base-url", "", "endpoint of the agent's model, which the auth proxy then asks, instead of its provider's")
	s.StringVar(&f.apiKeyName, "api-key-name", "", "variable of this host, or of --ae, that holds the key of the endpoint; the agent gets a token")
	s.StringVar(&f.apiFormat, "api-format", "", "format of the endpoint: openai_chat_completions, openai_responses, anthropic_messages or google_generate_content (default the agent's or the provider's)")
	s.StringArrayVar(&f.toolFiles, "mcp-config", nil, "file of MCP servers for the agent, JSON, YAML or TOML (repeatable)")
	s.StringArrayVar(&f.skills, "skill", nil, "directory with a skill for the agent, or with several (repeatable)")
	alias(s, "skill", "skills")
	addPlaceFlag(s, &f.env, "provider to run sandboxes on, see harbor env list; several in their order, a,b, or by weight, a=3,b=1; or a pool (default docker)")
	s.StringArrayVar(&f.envKwargs, "ek", nil, "option of the environment, key=value (repeatable)")
	s.StringArrayVar(&f.verifierEnv, "ve", nil, "environment variable of the verifier, KEY=VALUE (repeatable)")
	addEnvironmentFlags(s, f)
	addLimitFlags(s, f)
	s.StringVar(&f.envFile, "env-file", "", "file of variables to load, KEY=VALUE lines")
	s.BoolVarP(&f.yes, "yes", "y", false, "do not ask before tasks get variables of this host")
	addModelFlags(s, f)
	s.StringArrayVar(&f.artifacts, "artifact", nil, "path in the sandbox to keep, instead of the configured ones (repeatable)")
	s.BoolVar(&f.disableVerification, "disable-verification", false, "do not run the tests")
	s.BoolVar(&f.enableVerification, "enable-verification", false, "run the tests (the default)")
	s.BoolVar(&f.installOnly, "install-only", false, "only start the environment and set up the agent")
	s.StringArrayVar(&f.extraInstructionPaths, "extra-instruction-path", nil, "file to append to every instruction (repeatable)")
	s.StringArrayVar(&f.extraInstructions, "extra-instruction", nil, "text to append to every instruction (repeatable)")
	s.BoolVar(&f.skipCredentialChecks, "skip-credential-checks", false, "do not look for the agent's credentials first")
	s.BoolVar(&f.printConfig, "print-config", false, "print the resulting configuration as JSON and exit")
	s.BoolVar(&f.debug, "debug", false, "log everything")
	s.StringVar(&f.agentImport, "agent-import-path", "", "custom agent class (refused: Python)")
	s.StringVar(&f.envImport, "environment-import-path", "", "custom environment class (refused: Python)")
	hide(s, "agent-import-path", "environment-import-path")
	alias(s, "ak", "agent-kwarg")
	alias(s, "ae", "agent-env")
	alias(s, "ek", "environment-kwarg")
	alias(s, "ve", "verifier-env")
	alias(s, "mounts", "mounts-json")
	addRefused(s)
}

// addEnvironmentFlags are about the sandbox.
func addEnvironmentFlags(s *pflag.FlagSet, f *sharedFlags) {
	s.BoolVar(&f.forceBuild, "force-build", false, "build images anew, without cache")
	s.BoolVar(&f.delete, "delete", true, "delete sandboxes afterwards")
	negation(s, "force-build", "no-force-build", "use cached and ready images")
	negation(s, "delete", "no-delete", "keep images (sandboxes always go)")
	s.StringVar(&f.cpus, "cpus", "", "how CPU wishes are enforced: auto, limit or ignore")
	s.StringVar(&f.memory, "memory", "", "how memory wishes are enforced: auto, limit or ignore")
	s.Float64Var(&f.overrideCPUs, "override-cpus", 0, "CPU cores of every sandbox")
	s.Int64Var(&f.overrideMemory, "override-memory-mb", 0, "memory of every sandbox in MiB")
	s.Int64Var(&f.overrideStorage, "override-storage-mb", 0, "disk of every sandbox in MiB, where the provider limits it")
	s.IntVar(&f.overrideGPUs, "override-gpus", 0, "GPUs of every sandbox")
	s.StringVar(&f.mounts, "mounts", "", "host directories to mount, JSON array of {type, source, target, read_only}")
}

// addLimitFlags are about time and about what is kept.
func addLimitFlags(s *pflag.FlagSet, f *sharedFlags) {
	s.Float64Var(&f.timeout, "timeout-multiplier", 1, "factor of all time limits")
	s.Float64Var(&f.agentMul, "agent-timeout-multiplier", 1, "factor of the agent's time limit, instead of the general one")
	s.Float64Var(&f.verifierMul, "verifier-timeout-multiplier", 1, "factor of the verifier's time limit")
	s.Float64Var(&f.setupMul, "agent-setup-timeout-multiplier", 1, "factor of the agent set-up's time limit")
	s.Float64Var(&f.build, "environment-build-timeout-multiplier", 1, "factor of the environment's time limit")
	s.StringArrayVar(&f.includeLogs, "agent-include-logs", nil, "glob of agent logs to keep (repeatable)")
	s.StringArrayVar(&f.excludeLogs, "agent-exclude-logs", nil, "glob of agent logs to leave out (repeatable)")
	s.StringArrayVar(&f.verifierIncludeLogs, "verifier-include-logs", nil, "glob of verifier files to keep (repeatable)")
	s.StringArrayVar(&f.verifierExcludeLogs, "verifier-exclude-logs", nil, "glob of verifier files to leave out (repeatable)")
}

func addRunFlags(c *cobra.Command, f *runFlags) {
	addSharedFlags(c, &f.sharedFlags)
	s := section(c)
	s.StringVar(&f.jobName, "job-name", "", "name of the job's directory (default: the time)")
	s.StringVarP(&f.jobsDir, "jobs-dir", "o", "", "directory of jobs (default jobs)")
	addJobBudgetFlag(s, &f.sharedFlags)
	s.IntVarP(&f.attempts, "n-attempts", "k", 0, "attempts per task and agent (default 1)")
	addOperationFlags(s, f)
	s.StringArrayVarP(&f.include, "include-task-name", "i", nil, "glob of task names to take (repeatable)")
	s.StringArrayVarP(&f.exclude, "exclude-task-name", "x", nil, "glob of task names to leave out (repeatable)")
	s.IntVarP(&f.nTasks, "n-tasks", "l", 0, "take only the first of the tasks")
	s.StringArrayVar(&f.tasks, "tasks", nil, "task directory or glob of them, like -p (repeatable)")
	s.BoolVar(&f.dryRun, "dry-run", false, "check everything, run nothing")
	s.BoolVar(&f.prebuild, "prebuild", false, "make all images before the first trial begins, and say how many")
	s.StringArrayVar(&f.diff, "diff", nil, "earlier job, by path, name or id: run only what it does not have (repeatable)")
}

// section is the flag set of a command, for registration.
func section(c *cobra.Command) *pflag.FlagSet { return c.Flags() }

// alias makes another name for a flag, kept out of the help.
func alias(s *pflag.FlagSet, name, other string) {
	f := *s.Lookup(name)
	f.Name, f.Shorthand, f.Hidden = other, "", true
	f.Usage = "same as --" + name
	s.AddFlag(&f)
}

// negation makes --no-x out of --x.
func negation(s *pflag.FlagSet, name, no, usage string) {
	s.AddFlag(&pflag.Flag{Name: no, Usage: usage, NoOptDefVal: "true", Value: inverse{s.Lookup(name)}, DefValue: "false"})
}

// inverse sets another boolean flag to the opposite.
type inverse struct{ of *pflag.Flag }

func (i inverse) String() string   { return "false" }
func (i inverse) Type() string     { return "bool" }
func (i inverse) IsBoolFlag() bool { return true }

func (i inverse) Set(s string) error {
	i.of.Changed = true
	if s == "false" {
		return i.of.Value.Set("true")
	}
	return i.of.Value.Set("false")
}

func hide(s *pflag.FlagSet, names ...string) {
	for _, n := range names {
		s.Lookup(n).Hidden = true
	}
}

// given reports whether a flag or one of its other names was used.
func given(s *pflag.FlagSet, names ...string) bool {
	for _, n := range names {
		if f := s.Lookup(n); f != nil && f.Changed {
			return true
		}
	}
	return false
}

func set[T any](s *pflag.FlagSet, to *T, value T, names ...string) {
	if given(s, names...) {
		*to = value
	}
}

func setPtr[T any](s *pflag.FlagSet, to **T, value T, names ...string) {
	if given(s, names...) {
		*to = &value
	}
}

func setFloat(s *pflag.FlagSet, to **trials.Float, value float64, name string) {
	if given(s, name) {
		f := trials.Float(value)
		*to = &f
	}
}
