package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"harborgate/configs"
	"harborgate/tasks"
	"harborgate/trials"
)

// apply puts the flags that were given on top of a job configuration.
func (f *runFlags) apply(s *pflag.FlagSet, c *trials.JobConfig) error {
	set(s, &c.JobName, f.jobName, "job-name")
	set(s, &c.JobsDir, f.jobsDir, "jobs-dir")
	set(s, &c.NAttempts, f.attempts, "n-attempts")
	if c.JobName == "" {
		c.JobName = freeJobName(c.JobsDir)
	}
	f.applyMultipliers(s, &c.Multipliers)
	c.InstallOnly = c.InstallOnly || f.installOnly
	c.SkipCredentialChecks = c.SkipCredentialChecks || f.skipCredentialChecks
	if given(s, "artifact") {
		c.Artifacts = artifactList(f.artifacts)
	}
	set(s, &c.ExtraInstructionPaths, f.extraInstructionPaths, "extra-instruction-path")
	set(s, &c.ExtraInstructions, f.extraInstructions, "extra-instruction")
	c.Agents = f.arms(s, c.Agents)
	f.applyOperation(s, c)
	var errs []error
	for i := range c.Agents {
		errs = append(errs, f.applyAgent(s, &c.Agents[i]))
	}
	errs = append(errs, f.applyEnvironment(s, &c.Environment), f.applyVerifier(s, &c.Verifier), f.applyTasks(s, c))
	if c.InstallOnly {
		c.Verifier.Disable = true
	}
	return errors.Join(errs...)
}

// freeJobName is the time, with a number when another job began in this second.
func freeJobName(dir string) string {
	name := trials.JobName(time.Now())
	for i := 1; ; i++ {
		try := name
		if i > 1 {
			try = fmt.Sprintf("%s-%d", name, i)
		}
		if _, err := os.Lstat(filepath.Join(dir, try)); err != nil {
			return try
		}
	}
}

func (f *sharedFlags) applyMultipliers(s *pflag.FlagSet, m *trials.Multipliers) {
	set(s, &m.Timeout, trials.Float(f.timeout), "timeout-multiplier")
	setFloat(s, &m.AgentTimeout, f.agentMul, "agent-timeout-multiplier")
	setFloat(s, &m.VerifierTimeout, f.verifierMul, "verifier-timeout-multiplier")
	setFloat(s, &m.AgentSetup, f.setupMul, "agent-setup-timeout-multiplier")
	setFloat(s, &m.EnvironmentBuild, f.build, "environment-build-timeout-multiplier")
}

// arms rebuilds the agents when one is named: one for each model.
func (f *sharedFlags) arms(s *pflag.FlagSet, agents []trials.AgentConfig) []trials.AgentConfig {
	if !given(s, "agent") {
		if given(s, "model") {
			return withModels(agents, f.models)
		}
		return agents
	}
	blank := trials.NewJobConfig().Agents[0]
	blank.Name = &f.agent
	return withModels([]trials.AgentConfig{blank}, f.models)
}

// withModels multiplies agents by models; without models they stay as they are.
func withModels(agents []trials.AgentConfig, models []string) []trials.AgentConfig {
	if len(models) == 0 {
		return agents
	}
	var out []trials.AgentConfig
	for _, a := range agents {
		for _, m := range models {
			a.ModelName = &m
			out = append(out, a)
		}
	}
	return out
}

func (f *sharedFlags) applyAgent(s *pflag.FlagSet, a *trials.AgentConfig) error {
	if given(s, "agent-import-path") {
		return refusedError{"agent-import-path", "Python classes cannot be loaded; use -a command --ak script=…"}
	}
	kw, err := kwargs("--ak", f.agentKwargs)
	if err != nil {
		return err
	}
	if given(s, "effort") {
		kw["reasoning_effort"] = f.effort
	}
	env, err := variables("--ae", f.agentEnv)
	if err != nil {
		return err
	}
	a.Kwargs, a.Env = merged(a.Kwargs, kw), merged(a.Env, env)
	setPtr(s, &a.BaseURL, f.baseURL, "base-url")
	setPtr(s, &a.ModelAPIKeyName, f.apiKeyName, "api-key-name")
	setPtr(s, &a.ModelAPIFormat, f.apiFormat, "api-format")
	for _, file := range f.toolFiles {
		servers, err := configs.LoadTools(file)
		if err != nil {
			return usageError{fmt.Errorf("--mcp-config: %w", err)}
		}
		a.MCPServers = append(slices.Clone(a.MCPServers), servers...)
	}
	a.Skills = append(slices.Clone(a.Skills), f.skills...)
	for i, dir := range a.Skills {
		if abs, err := filepath.Abs(dir); err == nil { // the job may go on from elsewhere
			a.Skills[i] = abs
		}
	}
	a.IncludeLogs = append(a.IncludeLogs, f.includeLogs...)
	a.ExcludeLogs = append(a.ExcludeLogs, f.excludeLogs...)
	return nil
}

// checkEnv refuses a list of providers that cannot be one.
func checkEnv(text string) error {
	if _, err := configs.ParseChoices(text); err != nil {
		return usageError{fmt.Errorf("-e: %w", err)}
	}
	return nil
}

func (f *sharedFlags) applyEnvironment(s *pflag.FlagSet, c *trials.EnvironmentConfig) error {
	if given(s, "environment-import-path") {
		return refusedError{"environment-import-path", "Python classes cannot be loaded; use -e with one of `harbor env list`"}
	}
	if given(s, "env") {
		if err := checkEnv(f.env); err != nil {
			return err
		}
		c.Type, c.ImportPath = &f.env, nil
	}
	kw, err := kwargs("--ek", f.envKwargs)
	if err != nil {
		return err
	}
	c.Kwargs = merged(c.Kwargs, kw)
	set(s, &c.ForceBuild, f.forceBuild, "force-build", "no-force-build")
	set(s, &c.Delete, f.delete, "delete", "no-delete")
	set(s, &c.CPUEnforcementPolicy, f.cpus, "cpus")
	set(s, &c.MemoryEnforcementPolicy, f.memory, "memory")
	setPtr(s, &c.OverrideCPUs, trials.Cores(f.overrideCPUs), "override-cpus")
	setPtr(s, &c.OverrideMemoryMiB, f.overrideMemory, "override-memory-mb")
	setPtr(s, &c.OverrideStorageMiB, f.overrideStorage, "override-storage-mb")
	setPtr(s, &c.OverrideGPUs, f.overrideGPUs, "override-gpus")
	if given(s, "mounts", "mounts-json") {
		m, err := mounts(f.mounts)
		if err != nil {
			return err
		}
		c.Mounts = &m
	}
	return nil
}

func mounts(text string) (m trials.List[trials.VolumeConfig], err error) {
	if err = json.Unmarshal([]byte(text), &m); err != nil {
		return nil, fmt.Errorf(`--mounts: want a JSON array like [{"type":"bind","source":"/data","target":"/data"}]: %w`, err)
	}
	return m, nil
}

func (f *sharedFlags) applyVerifier(s *pflag.FlagSet, c *trials.VerifierConfig) error {
	env, err := variables("--ve", f.verifierEnv)
	if err != nil {
		return err
	}
	c.Env = merged(c.Env, env)
	c.Disable = c.Disable || f.disableVerification
	c.IncludeLogs = append(c.IncludeLogs, f.verifierIncludeLogs...)
	c.ExcludeLogs = append(c.ExcludeLogs, f.verifierExcludeLogs...)
	return nil
}

func artifactList(sources []string) trials.List[trials.ArtifactConfig] {
	out := trials.List[trials.ArtifactConfig]{}
	for _, s := range sources {
		out = append(out, trials.ArtifactConfig{Source: s})
	}
	return out
}

// applyTasks replaces the configured tasks by those of -p and --tasks: a
// directory that is a task becomes one, any other a data set.
func (f *runFlags) applyTasks(s *pflag.FlagSet, c *trials.JobConfig) error {
	paths, err := f.taskPaths()
	if err != nil {
		return err
	}
	if len(paths) > 0 {
		c.Tasks, c.Datasets = nil, nil
	}
	filtered := given(s, "include-task-name", "exclude-task-name", "n-tasks")
	for _, p := range paths {
		p = named(p)
		if _, err := os.Stat(filepath.Join(p, tasks.ConfigFile)); err == nil && !filtered {
			c.Tasks = append(c.Tasks, trials.TaskConfig{Path: &p})
			continue
		}
		c.Datasets = append(c.Datasets, trials.DatasetConfig{Path: &p})
	}
	if len(c.Tasks) == 0 && len(c.Datasets) == 0 && !f.partial {
		return fmt.Errorf("there is nothing to run: give a task directory or a directory of tasks with -p, or a configuration with -c")
	}
	if !filtered {
		return nil
	}
	if len(c.Datasets) == 0 {
		return fmt.Errorf("-i, -x and -l choose among the tasks of a directory: give one with -p")
	}
	for i := range c.Datasets {
		d := &c.Datasets[i]
		setList(s, &d.TaskNames, f.include, "include-task-name")
		setList(s, &d.ExcludeTaskNames, f.exclude, "exclude-task-name")
		setPtr(s, &d.NTasks, f.nTasks, "n-tasks")
	}
	return nil
}

// named turns a path that ends in a dot into one that ends in a name: trials are
// called by it.
func named(p string) string {
	if base := filepath.Base(p); base == "." || base == ".." {
		if abs, err := filepath.Abs(p); err == nil {
			return abs
		}
	}
	return p
}

func setList(s *pflag.FlagSet, to **trials.List[string], values []string, name string) {
	if given(s, name) {
		l := trials.List[string](values)
		*to = &l
	}
}

// taskPaths are those of -p, then the matches of --tasks.
func (f *runFlags) taskPaths() ([]string, error) {
	out := f.paths
	for _, pattern := range f.tasks {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("--tasks %s: %w", pattern, err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("--tasks %s: nothing matches", pattern)
		}
		out = append(out, found...)
	}
	return out, nil
}

// kwargs reads key=value where the value is JSON if it can be, one of Python's
// three words, or text.
func kwargs(flag string, pairs []string) (map[string]any, error) {
	out := map[string]any{}
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		k, v = strings.TrimSpace(k), strings.TrimSpace(v)
		if !ok || k == "" {
			return nil, fmt.Errorf("%s %q: want key=value", flag, p)
		}
		out[k] = kwargValue(v)
	}
	return out, nil
}

func kwargValue(v string) any {
	var parsed any
	if json.Unmarshal([]byte(v), &parsed) == nil {
		return parsed
	}
	switch v {
	case "True":
		return true
	case "False":
		return false
	case "None":
		return nil
	}
	return v
}

// variables reads KEY=VALUE; the value stays as it is.
func variables(flag string, pairs []string) (map[string]string, error) {
	out := map[string]string{}
	for i, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if k = strings.TrimSpace(k); !ok || k == "" {
			return nil, fmt.Errorf("%s number %d: want KEY=VALUE; it is not repeated here, because it may be a key", flag, i+1)
		}
		out[k] = v
	}
	return out, nil
}

// merged puts b on top of a copy of a.
func merged[M ~map[string]V, V any](a M, b map[string]V) M {
	if len(b) == 0 {
		return a
	}
	out := M{}
	for k, v := range a {
		out[k] = v
	}
	for k, v := range b {
		out[k] = v
	}
	return out
}
