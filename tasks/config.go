package tasks

// SchemaVersion is the newest version of task.toml that this package knows.
const SchemaVersion = "1.4"

// Config is task.toml, with old forms (version, memory = "2G", allow_internet)
// already turned into today's. Pointers are nil where the file says nothing and
// that differs from every value.
type Config struct {
	SchemaVersion  string
	Source         string // where the task came from, free text
	RewardStrategy RewardStrategy
	Artifacts      []Artifact
	Package        *Package // the [task] table
	Metadata       map[string]any
	Verifier       Verifier
	Agent          Agent
	Environment    Environment
	Solution       Solution
	Steps          []Step
}

// RewardStrategy says how the rewards of steps become that of the task.
type RewardStrategy string

// Reward strategies.
const (
	RewardMean  RewardStrategy = "mean" // the default
	RewardFinal RewardStrategy = "final"
)

// Package is how a registry knows the task.
type Package struct {
	Name        string // "org/name"
	Version     string
	Description string
	Authors     []Author
	Keywords    []string
}

// Author is one author of a task.
type Author struct{ Name, Email string }

// NetworkMode is how much network something has.
type NetworkMode string

// Network modes.
const (
	NetworkPublic    NetworkMode = "public"
	NetworkNone      NetworkMode = "no-network"
	NetworkAllowList NetworkMode = "allowlist"
)

// Network is a network policy. The zero value of a phase means "as the
// environment"; that of an environment is never seen, its default is public.
type Network struct {
	Mode  NetworkMode
	Hosts []string // normalised, only with the allow list
}

// OS is the operating system inside the sandbox.
type OS string

// Operating systems.
const (
	Linux   OS = "linux"
	Windows OS = "windows"
)

// Environment is what the sandbox is made of.
type Environment struct {
	Network         Network
	BuildTimeoutSec float64 // of image and start together
	Image           string  // docker_image; "" when absent or blank
	OS              OS
	CPUs            *float64 // cores; nil is no limit
	MemoryMiB       *int64   // nil is no limit
	StorageMiB      *int64   // nil is no limit
	GPUs            int
	GPUTypes        []string
	TPU             *TPU
	MCPServers      []MCPServer
	Env             map[string]string // values may be templates, see ResolveEnv
	SkillsDir       string            // path inside the sandbox
	Healthcheck     *Healthcheck
	Workdir         string // "" is the image's
}

// TPU is a request for tensor processors.
type TPU struct{ Type, Topology string }

// MCPServer is a tool server that the agent is to be told about.
type MCPServer struct {
	Name      string
	Transport string // "stdio", "sse" or "streamable-http"
	URL       string
	Command   string
	Args      []string
	Headers   map[string]string
}

// Healthcheck is a command that must succeed before the agent starts.
type Healthcheck struct {
	Command          string
	IntervalSec      float64
	TimeoutSec       float64
	StartPeriodSec   float64 // failures within it do not count
	StartIntervalSec float64
	Retries          int
}

// Agent is the agent phase, of the task or of one step.
type Agent struct {
	TimeoutSec *float64 // nil is no limit, or for a step that of the task
	User       string   // name or number; "" is the image's, or for a step that of the task
	Network    Network
}

// VerifierMode says where verification runs.
type VerifierMode string

// Verifier modes.
const (
	VerifierShared   VerifierMode = "shared"
	VerifierSeparate VerifierMode = "separate"
)

// Verifier is the verification phase, of the task or of one step.
type Verifier struct {
	TimeoutSec  float64 // a step without one has the default, not that of the task
	Env         map[string]string
	User        string
	Network     Network
	Mode        VerifierMode // "" when the file does not say; see Task.VerifierMode
	Environment *Environment
	Collect     []Collect
}

// Collect is a command that runs before artifacts are collected.
type Collect struct {
	Command    string
	Service    string // compose service, "main" by default
	TimeoutSec float64
	User       string
}

// Solution is what the oracle agent needs.
type Solution struct{ Env map[string]string }

// Step is one part of a task with several.
type Step struct {
	Name        string // also the directory below steps/
	Agent       Agent
	Verifier    Verifier
	MinReward   map[string]float64 // by reward key; a plain number stands under "reward"
	Healthcheck *Healthcheck
	Artifacts   []Artifact
}

// Artifact is a path of the sandbox that is kept.
type Artifact struct {
	Source      string   // path inside the sandbox
	Destination string   // relative to the artifacts directory; "" mirrors Source
	Exclude     []string // tar patterns, for directories
	Service     string   // compose service; "" is the main one
}

// Defaults of task.toml.
const (
	DefaultBuildTimeoutSec    = 600.0
	DefaultVerifierTimeoutSec = 600.0
	DefaultCollectTimeoutSec  = 60.0
	MainService               = "main"
)
