package trials

// Names that stand when a configuration does not say.
const (
	DefaultAgent       = "oracle"
	DefaultEnvironment = "docker"
)

// NewJobConfig returns a job configuration with every default in place: one
// oracle agent, docker, four trials at once, no retries.
func NewJobConfig() JobConfig {
	c := blankJobConfig()
	c.fillDefaults(false)
	return c
}

// NewTrialConfig returns the configuration of a trial without a job.
func NewTrialConfig(task TaskConfig) TrialConfig {
	c := blankTrialConfig()
	c.Task = task
	c.fillDefaults()
	return c
}

// blankJobConfig has the defaults that a document overwrites key by key, and
// leaves open those that depend on other keys.
func blankJobConfig() JobConfig {
	return JobConfig{
		SchemaVersion:     ConfigSchema,
		JobsDir:           "jobs",
		NAttempts:         1,
		Multipliers:       Multipliers{Timeout: 1},
		NConcurrentTrials: 4,
		Retry:             RetryConfig{WaitMultiplier: 1, MinWaitSec: 1, MaxWaitSec: 60},
		Environment:       blankEnvironment(),
	}
}

func blankTrialConfig() TrialConfig {
	return TrialConfig{
		SchemaVersion: ConfigSchema,
		TrialsDir:     "trials",
		Multipliers:   Multipliers{Timeout: 1},
		Environment:   blankEnvironment(),
	}
}

func blankEnvironment() EnvironmentConfig {
	return EnvironmentConfig{Delete: true, CPUEnforcementPolicy: "auto", MemoryEnforcementPolicy: "auto"}
}

// fillDefaults sets what depends on other keys. explicitExcludes says that the
// user chose the list of exceptions that are never retried, null included.
func (c *JobConfig) fillDefaults(explicitExcludes bool) {
	if !explicitExcludes {
		excludes := NewSet(DefaultExcludes(c.OverrideErrorPolicy)...)
		c.Retry.ExcludeExceptions = &excludes
	}
	if len(c.Agents) == 0 {
		c.Agents = List[AgentConfig]{{}}
	}
	for i := range c.Agents {
		c.Agents[i].fillDefaults()
	}
	for i := range c.Metrics {
		if c.Metrics[i].Type == "" {
			c.Metrics[i].Type = "mean"
		}
	}
	c.Environment.fillDefaults()
	if c.InstallOnly {
		c.Verifier.Disable = true
	}
}

func (c *TrialConfig) fillDefaults() {
	c.Agent.fillDefaults()
	c.Environment.fillDefaults()
	if c.InstallOnly {
		c.Verifier.Disable = true
	}
}

func (a *AgentConfig) fillDefaults() {
	if a.Name == nil && a.ImportPath == nil {
		a.Name = ptr(DefaultAgent)
	}
	for i := range a.MCPServers {
		s := &a.MCPServers[i]
		switch s.Transport {
		case "":
			s.Transport = "sse"
		case "http":
			s.Transport = "streamable-http"
		}
	}
}

func (c *EnvironmentConfig) fillDefaults() {
	if c.Type == nil && c.ImportPath == nil {
		c.Type = ptr(DefaultEnvironment)
	}
}

// AgentName is the name under which the agent is listed.
func (a AgentConfig) AgentName() string {
	if s := deref(a.Name); s != "" {
		return s
	}
	return deref(a.ImportPath)
}

func ptr[T any](v T) *T { return &v }

func deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
