package trials

// ConfigSchema is the schema_version of job and trial configurations.
const ConfigSchema = 1

// JobConfig is a job's config.json: Harbor's keys in Harbor's order. The zero
// value of every list and map is written as empty, never as null. Make one with
// NewJobConfig, which knows the defaults.
type JobConfig struct {
	SchemaVersion        int    `json:"schema_version"`
	JobName              string `json:"job_name"` // "" is replaced by the start time
	JobsDir              string `json:"jobs_dir"`
	NAttempts            int    `json:"n_attempts"`
	InstallOnly          bool   `json:"install_only"`
	SkipCredentialChecks bool   `json:"skip_credential_checks"`
	Multipliers
	Debug                 bool                        `json:"debug"`
	NConcurrentTrials     int                         `json:"n_concurrent_trials"`
	Quiet                 bool                        `json:"quiet"`
	Retry                 RetryConfig                 `json:"retry"`
	OverrideErrorPolicy   Object[ErrorPolicyOverride] `json:"override_error_policy"`
	Environment           EnvironmentConfig           `json:"environment"`
	Verifier              VerifierConfig              `json:"verifier"`
	Metrics               List[MetricConfig]          `json:"metrics"`
	Agents                List[AgentConfig]           `json:"agents"`
	UserAgent             *UserAgentConfig            `json:"user_agent"`
	Datasets              List[DatasetConfig]         `json:"datasets"`
	Tasks                 List[TaskConfig]            `json:"tasks"`
	Artifacts             List[ArtifactConfig]        `json:"artifacts"`
	ExtraInstructionPaths List[string]                `json:"extra_instruction_paths"`
	ExtraInstructions     List[string]                `json:"extra_instructions"`
	SourceJobs            List[SourceJob]             `json:"source_jobs"`
}

// TrialConfig is a trial's config.json.
type TrialConfig struct {
	SchemaVersion int        `json:"schema_version"`
	Task          TaskConfig `json:"task"`
	TrialName     string     `json:"trial_name"`
	TrialsDir     string     `json:"trials_dir"` // the directory that holds the trial's own
	InstallOnly   bool       `json:"install_only"`
	Multipliers
	Agent                 AgentConfig                 `json:"agent"`
	UserAgent             *UserAgentConfig            `json:"user_agent"`
	Environment           EnvironmentConfig           `json:"environment"`
	Verifier              VerifierConfig              `json:"verifier"`
	OverrideErrorPolicy   Object[ErrorPolicyOverride] `json:"override_error_policy"`
	Artifacts             List[ArtifactConfig]        `json:"artifacts"`
	ExtraInstructionPaths List[string]                `json:"extra_instruction_paths"`
	ExtraInstructions     List[string]                `json:"extra_instructions"`
	JobID                 *string                     `json:"job_id"` // null for a trial without a job
	SourceTrial           *SourceTrial                `json:"source_trial"`
}

// Multipliers scale time limits. A phase's own one replaces the general one.
type Multipliers struct {
	Timeout          Float  `json:"timeout_multiplier"`
	AgentTimeout     *Float `json:"agent_timeout_multiplier"`
	VerifierTimeout  *Float `json:"verifier_timeout_multiplier"`
	AgentSetup       *Float `json:"agent_setup_timeout_multiplier"`
	EnvironmentBuild *Float `json:"environment_build_timeout_multiplier"`
}

// RetryConfig says which failed trials are tried again, and when.
type RetryConfig struct {
	MaxRetries int `json:"max_retries"`
	// IncludeExceptions, when not empty, are the only names that are retried.
	IncludeExceptions *Set `json:"include_exceptions"`
	// ExcludeExceptions are never retried, also when included.
	ExcludeExceptions *Set  `json:"exclude_exceptions"`
	WaitMultiplier    Float `json:"wait_multiplier"`
	MinWaitSec        Float `json:"min_wait_sec"`
	MaxWaitSec        Float `json:"max_wait_sec"`
}

// EnvironmentConfig says where sandboxes run and what is different in them from
// what the task asks for.
type EnvironmentConfig struct {
	Type                    *string             `json:"type"` // a provider's name; null with ImportPath
	ImportPath              *string             `json:"import_path"`
	ForceBuild              bool                `json:"force_build"`
	Delete                  bool                `json:"delete"`
	Stream                  bool                `json:"stream"`
	CPUEnforcementPolicy    string              `json:"cpu_enforcement_policy"`
	MemoryEnforcementPolicy string              `json:"memory_enforcement_policy"`
	OverrideCPUs            *Cores              `json:"override_cpus"`
	OverrideMemoryMiB       *int64              `json:"override_memory_mb"`
	OverrideStorageMiB      *int64              `json:"override_storage_mb"`
	OverrideGPUs            *int                `json:"override_gpus"`
	OverrideTPU             *TPUConfig          `json:"override_tpu"`
	Mounts                  *List[VolumeConfig] `json:"mounts"`
	ExtraDockerCompose      List[string]        `json:"extra_docker_compose"`
	Env                     Env                 `json:"env,omitempty"`
	Kwargs                  Object[any]         `json:"kwargs"`
	ExtraAllowedHosts       List[string]        `json:"extra_allowed_hosts"`
}

// TPUConfig asks for tensor processors.
type TPUConfig struct {
	Type     string `json:"type"`
	Topology string `json:"topology"`
}

// VolumeConfig is a mount in compose's long syntax.
type VolumeConfig struct {
	Type     string         `json:"type"` // "bind", "volume" or "image"
	Source   string         `json:"source"`
	Target   string         `json:"target"`
	ReadOnly bool           `json:"read_only,omitempty"`
	Bind     map[string]any `json:"bind,omitempty"`
	Volume   map[string]any `json:"volume,omitempty"`
	Image    map[string]any `json:"image,omitempty"`
}

// VerifierConfig changes how results are verified.
type VerifierConfig struct {
	OverrideTimeoutSec *Float       `json:"override_timeout_sec"`
	MaxTimeoutSec      *Float       `json:"max_timeout_sec"`
	IncludeLogs        List[string] `json:"include_logs,omitempty"`
	ExcludeLogs        List[string] `json:"exclude_logs,omitempty"`
	Env                Env          `json:"env,omitempty"`
	ImportPath         *string      `json:"import_path,omitempty"`
	Kwargs             Object[any]  `json:"kwargs,omitempty"`
	Disable            bool         `json:"disable"`
	ExtraAllowedHosts  List[string] `json:"extra_allowed_hosts,omitempty"`
}

// AgentConfig is one arm of a job: an agent, a model and their settings.
type AgentConfig struct {
	Name                    *string               `json:"name"`
	ImportPath              *string               `json:"import_path"`
	ModelName               *string               `json:"model_name"` // "provider/model"
	BaseURL                 *string               `json:"base_url"`
	ModelAPIKeyName         *string               `json:"model_api_key_name"`
	ModelAPIFormat          *string               `json:"model_api_format"`
	SkipModelParsing        bool                  `json:"skip_model_parsing"`
	NConcurrent             *int                  `json:"n_concurrent"`
	ConcurrencyGroup        *string               `json:"concurrency_group"`
	Skills                  List[string]          `json:"skills"`
	OverrideTimeoutSec      *Float                `json:"override_timeout_sec"`
	OverrideSetupTimeoutSec *Float                `json:"override_setup_timeout_sec"`
	MaxTimeoutSec           *Float                `json:"max_timeout_sec"`
	ResumeTrajectory        bool                  `json:"resume_trajectory"`
	LoadTrajectory          *string               `json:"load_trajectory"`
	ExtraAllowedHosts       List[string]          `json:"extra_allowed_hosts"`
	IncludeLogs             List[string]          `json:"include_logs,omitempty"`
	ExcludeLogs             List[string]          `json:"exclude_logs,omitempty"`
	Kwargs                  Object[any]           `json:"kwargs"`
	Env                     Env                   `json:"env,omitempty"`
	MCPServers              List[MCPServerConfig] `json:"mcp_servers"`
}

// UserAgentConfig is a simulated user. It is kept and written, not run.
type UserAgentConfig struct {
	AgentConfig
	UserPersonaPath        *string      `json:"user_persona_path"`
	UserPromptTemplatePath *string      `json:"user_prompt_template_path"`
	Bridge                 BridgeConfig `json:"bridge"`
}

// BridgeConfig connects a simulated user with the agent.
type BridgeConfig struct {
	Kind       string      `json:"kind"`
	PromptPath *string     `json:"prompt_path"`
	Kwargs     Object[any] `json:"kwargs"`
}

// MCPServerConfig is a tool server for the agent.
type MCPServerConfig struct {
	Name      string       `json:"name"`
	Transport string       `json:"transport"`
	URL       *string      `json:"url"`
	Command   *string      `json:"command"`
	Args      List[string] `json:"args"`
	Headers   Env          `json:"headers,omitempty"`
}

// DatasetConfig names a set of tasks. Exactly one of Path, Name and Repo alone
// is enough; Repo may go with Path or Name.
type DatasetConfig struct {
	Path             *string       `json:"path"`
	Name             *string       `json:"name"`
	Version          *string       `json:"version"`
	Ref              *string       `json:"ref"`
	RegistryURL      *string       `json:"registry_url"`
	RegistryPath     *string       `json:"registry_path"`
	Repo             *string       `json:"repo"`
	Overwrite        bool          `json:"overwrite"`
	DownloadDir      *string       `json:"download_dir"`
	TaskNames        *List[string] `json:"task_names"` // globs
	ExcludeTaskNames *List[string] `json:"exclude_task_names"`
	NTasks           *int          `json:"n_tasks"`
}

// TaskConfig names one task: a local path, a path in a git repository, or a
// package.
type TaskConfig struct {
	Path        *string `json:"path"`
	GitURL      *string `json:"git_url"`
	GitCommitID *string `json:"git_commit_id"`
	Name        *string `json:"name"` // "org/name"
	Ref         *string `json:"ref"`
	Overwrite   bool    `json:"overwrite"`
	DownloadDir *string `json:"download_dir"`
	Source      *string `json:"source"` // name of the data set; null is none
}

// MetricConfig is one number computed over the rewards of a data set.
type MetricConfig struct {
	Type   string      `json:"type"` // "sum", "min", "max", "mean" or "uv-script"
	Kwargs Object[any] `json:"kwargs"`
}

// SourceJob is an earlier job whose trials this one grades again or compares
// with.
type SourceJob struct {
	Action string  `json:"action"` // "regrade" or "diff"
	Type   string  `json:"type"`   // "local" or "hub"
	JobID  *string `json:"job_id"`
	Path   *string `json:"path"`
}

// SourceTrial is the earlier trial whose work this one grades again.
type SourceTrial struct {
	Action  string  `json:"action"`
	Type    string  `json:"type"`
	TrialID *string `json:"trial_id"`
	Path    *string `json:"path"`
}
