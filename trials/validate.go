package trials

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"harborgate/tasks"
)

// FieldError is one thing wrong with a configuration.
type FieldError struct {
	Path    string // "agents[1].n_concurrent"
	Message string // what is wrong and, where it is not obvious, what to do
}

func (e FieldError) Error() string { return e.Path + ": " + e.Message }

// fieldErrors collects; its methods add an error when the claim does not hold.
type fieldErrors []FieldError

func (e *fieldErrors) require(ok bool, path, format string, args ...any) {
	if !ok {
		*e = append(*e, FieldError{path, fmt.Sprintf(format, args...)})
	}
}

// Validate returns everything that is wrong with a job configuration by itself:
// nothing outside of it is looked at.
func (c JobConfig) Validate() []FieldError {
	var e fieldErrors
	if c.JobName != "" {
		err := CheckName(c.JobName)
		e.require(err == nil, "job_name", "%v", err)
		e.require(!strings.HasPrefix(c.JobName, "-"), "job_name", "name %q begins with a dash: no command could be given it", c.JobName)
	}
	within(&e, "n_attempts", &c.NAttempts, "JobConfig.n_attempts")
	within(&e, "n_concurrent_trials", &c.NConcurrentTrials, "JobConfig.n_concurrent_trials")
	c.Multipliers.check(&e)
	c.Retry.validate(&e)
	c.Environment.validate(&e)
	c.Verifier.validate(&e)
	for i, m := range c.Metrics {
		path := fmt.Sprintf("metrics[%d]", i)
		e.word(path+".type", m.Type, "MetricConfig.type")
		_, hasScript := m.Kwargs["script_path"]
		e.require(m.Type != "uv-script" || hasScript, path+".kwargs", "uv-script needs script_path")
	}
	for i, a := range c.Agents {
		a.validate(&e, fmt.Sprintf("agents[%d]", i), c.NConcurrentTrials)
	}
	c.validatePools(&e)
	for i, d := range c.Datasets {
		d.validate(&e, fmt.Sprintf("datasets[%d]", i))
	}
	for i, t := range c.Tasks {
		t.validate(&e, fmt.Sprintf("tasks[%d]", i))
	}
	validateArtifacts(&e, c.Artifacts)
	c.validateSources(&e)
	return e
}

// Validate returns everything that is wrong with a trial configuration.
func (c TrialConfig) Validate() []FieldError {
	var e fieldErrors
	if c.TrialName != "" {
		err := CheckName(c.TrialName)
		e.require(err == nil, "trial_name", "%v", err)
	}
	c.Multipliers.check(&e)
	c.Environment.validate(&e)
	c.Verifier.validate(&e)
	c.Agent.validate(&e, "agent", math.MaxInt)
	c.Task.validate(&e, "task")
	validateArtifacts(&e, c.Artifacts)
	return e
}

func (m Multipliers) check(e *fieldErrors) {
	for _, f := range []struct {
		path  string
		value *Float
	}{
		{"timeout_multiplier", &m.Timeout},
		{"agent_timeout_multiplier", m.AgentTimeout},
		{"verifier_timeout_multiplier", m.VerifierTimeout},
		{"agent_setup_timeout_multiplier", m.AgentSetup},
		{"environment_build_timeout_multiplier", m.EnvironmentBuild},
	} {
		within(e, f.path, f.value, "Multipliers."+f.path)
	}
}

func (c RetryConfig) validate(e *fieldErrors) {
	within(e, "retry.max_retries", &c.MaxRetries, "RetryConfig.max_retries")
	within(e, "retry.wait_multiplier", &c.WaitMultiplier, "RetryConfig.wait_multiplier")
	within(e, "retry.min_wait_sec", &c.MinWaitSec, "RetryConfig.min_wait_sec")
	within(e, "retry.max_wait_sec", &c.MaxWaitSec, "RetryConfig.max_wait_sec")
}

func (c EnvironmentConfig) validate(e *fieldErrors) {
	e.require(c.ImportPath == nil, "environment.import_path",
		"environments written in Python cannot be loaded; name a provider with environment.type")
	e.word("environment.cpu_enforcement_policy", c.CPUEnforcementPolicy, "EnvironmentConfig.cpu_enforcement_policy")
	e.word("environment.memory_enforcement_policy", c.MemoryEnforcementPolicy, "EnvironmentConfig.memory_enforcement_policy")
	within(e, "environment.override_cpus", c.OverrideCPUs, "EnvironmentConfig.override_cpus")
	within(e, "environment.override_memory_mb", c.OverrideMemoryMiB, "EnvironmentConfig.override_memory_mb")
	within(e, "environment.override_storage_mb", c.OverrideStorageMiB, "EnvironmentConfig.override_storage_mb")
	within(e, "environment.override_gpus", c.OverrideGPUs, "EnvironmentConfig.override_gpus")
	for i, m := range deref(c.Mounts) {
		path := fmt.Sprintf("environment.mounts[%d]", i)
		e.word(path+".type", m.Type, "VolumeConfig.type")
		e.require(m.Source != "", path+".source", "it is missing")
		e.require(strings.HasPrefix(m.Target, "/"), path+".target", "%q is not an absolute path", m.Target)
	}
	e.hosts("environment.extra_allowed_hosts", c.ExtraAllowedHosts)
}

func (e *fieldErrors) hosts(path string, hosts []string) {
	for i, h := range hosts {
		_, err := tasks.ParseHost(h)
		e.require(err == nil, fmt.Sprintf("%s[%d]", path, i), "%v", err)
	}
}

func (c VerifierConfig) validate(e *fieldErrors) {
	within(e, "verifier.override_timeout_sec", c.OverrideTimeoutSec, "VerifierConfig.override_timeout_sec")
	within(e, "verifier.max_timeout_sec", c.MaxTimeoutSec, "VerifierConfig.max_timeout_sec")
	e.require(c.ImportPath == nil, "verifier.import_path", "verifiers written in Python cannot be loaded")
	e.hosts("verifier.extra_allowed_hosts", c.ExtraAllowedHosts)
}

// variableName is what a shell can export.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (a AgentConfig) validate(e *fieldErrors, path string, concurrent int) {
	within(e, path+".override_timeout_sec", a.OverrideTimeoutSec, "AgentConfig.override_timeout_sec")
	within(e, path+".override_setup_timeout_sec", a.OverrideSetupTimeoutSec, "AgentConfig.override_setup_timeout_sec")
	within(e, path+".max_timeout_sec", a.MaxTimeoutSec, "AgentConfig.max_timeout_sec")
	e.require(a.ModelAPIKeyName == nil || variableName.MatchString(*a.ModelAPIKeyName), path+".model_api_key_name",
		"it is no name of a variable: export the key in one, and give its name (--api-key-name)")
	if a.ModelAPIFormat != nil {
		e.word(path+".model_api_format", *a.ModelAPIFormat, "AgentConfig.model_api_format")
	}
	n := a.NConcurrent
	within(e, path+".n_concurrent", n, "AgentConfig.n_concurrent")
	e.require(n == nil || *n <= concurrent, path+".n_concurrent", "%d is more than n_concurrent_trials, %d", deref(n), concurrent)
	e.require(a.ConcurrencyGroup == nil || n != nil, path+".concurrency_group", "it needs n_concurrent")
	e.hosts(path+".extra_allowed_hosts", a.ExtraAllowedHosts)
	for _, name := range slices.Sorted(maps.Keys(a.Kwargs)) {
		for _, at := range exposed(path+".kwargs."+name, name, a.Kwargs[name]) {
			e.require(false, at, "it is called like a credential, and would stand in the job's files: where the agent knows references, write {env:VARIABLE} and add --ae VARIABLE='${VARIABLE}'")
		}
	}
	for i, s := range a.MCPServers {
		s.validate(e, fmt.Sprintf("%s.mcp_servers[%d]", path, i))
	}
}

func (s MCPServerConfig) validate(e *fieldErrors, path string) {
	e.require(s.Name != "", path+".name", "it is missing")
	e.word(path+".transport", s.Transport, "MCPServerConfig.transport")
	http, url, command := s.Transport != "stdio", deref(s.URL), deref(s.Command)
	switch {
	case url == "" && command == "":
		e.require(false, path, "it has neither a command (stdio) nor a url (sse, streamable-http)")
	case url != "" && command != "":
		e.require(false, path, "it has a command and a url: a server is started or reached, not both")
	default:
		e.require(!http || url != "", path+".url", "transport %s needs it", s.Transport)
		e.require(http || command != "", path+".command", "transport stdio needs it")
	}
	e.require(http || len(s.Headers) == 0, path+".headers", "transport stdio has none")
	for _, key := range s.Headers.Keys() {
		e.require(!Sensitive(key) || tasks.IsTemplate(s.Headers[key]), path+".headers."+key,
			"a credential must be ${VARIABLE} as a whole, never its value, nor a part beside it: `export HEADER=\"Bearer $TOKEN\"` and write ${HEADER}")
	}
}

// validatePools wants agents of one group to agree on their number.
func (c JobConfig) validatePools(e *fieldErrors) {
	sizes := map[string]int{}
	for i, a := range c.Agents {
		if a.ConcurrencyGroup == nil || a.NConcurrent == nil {
			continue
		}
		first, known := sizes[*a.ConcurrencyGroup]
		e.require(!known || first == *a.NConcurrent, fmt.Sprintf("agents[%d].n_concurrent", i),
			"%d differs from %d in the same concurrency_group %q", *a.NConcurrent, first, *a.ConcurrencyGroup)
		sizes[*a.ConcurrencyGroup] = *a.NConcurrent
	}
}

func (d DatasetConfig) validate(e *fieldErrors, path string) {
	local, named, repo := d.Path != nil, d.Name != nil, d.Repo != nil
	e.require(!local || !named, path, "path and name exclude each other")
	e.require(local || named || repo, path, "it needs path, name or repo")
	e.require(d.Version == nil || d.Ref == nil, path, "version and ref exclude each other")
	e.require(!repo || d.RegistryURL == nil, path+".registry_url", "it cannot go with repo")
	e.require(!repo || d.RegistryPath == nil || named, path+".registry_path", "with repo it needs a name")
	within(e, path+".n_tasks", d.NTasks, "DatasetConfig.n_tasks")
}

// packagePattern is the form of a package's name.
var packagePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$`)

func (t TaskConfig) validate(e *fieldErrors, path string) {
	e.require((t.Path != nil) != (t.Name != nil), path, "it needs exactly one of path and name")
	e.require(t.GitCommitID == nil || t.GitURL != nil, path+".git_commit_id", "it needs git_url")
	e.require(t.Ref == nil || t.Name != nil, path+".ref", "it needs name")
	if t.Name != nil {
		e.require(packagePattern.MatchString(*t.Name), path+".name", "%q is not of the form org/name", *t.Name)
	}
}

func validateArtifacts(e *fieldErrors, artifacts []ArtifactConfig) {
	for i, a := range artifacts {
		err := tasks.Artifact{Source: a.Source, Destination: deref(a.Destination), Service: deref(a.Service)}.Validate()
		e.require(err == nil, fmt.Sprintf("artifacts[%d]", i), "%v", err)
	}
}

func (c JobConfig) validateSources(e *fieldErrors) {
	for i, s := range c.SourceJobs {
		path := fmt.Sprintf("source_jobs[%d]", i)
		e.word(path+".action", s.Action, "SourceJob.action")
		e.word(path+".type", s.Type, "SourceJob.type")
		e.require(s.Action == c.SourceJobs[0].Action, path+".action", "all source jobs need the same action")
		e.require(!c.InstallOnly, path, "source jobs and install_only exclude each other")
	}
}
