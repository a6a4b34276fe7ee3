package trials

// Phase is a part of a try's life.
type Phase string

// Phases in their order.
const (
	PhaseQueue            Phase = "queue"
	PhaseEnvironmentSetup Phase = "environment_setup"
	PhaseAgentSetup       Phase = "agent_setup"
	PhaseAgentExecution   Phase = "agent_execution"
	PhaseArtifacts        Phase = "artifacts"
	PhaseVerifier         Phase = "verifier"
	PhaseTeardown         Phase = "teardown"
)

// Phases lists all phases in order.
func Phases() []Phase {
	return []Phase{
		PhaseQueue, PhaseEnvironmentSetup, PhaseAgentSetup, PhaseAgentExecution,
		PhaseArtifacts, PhaseVerifier, PhaseTeardown,
	}
}

// Blame says who a failure belongs to.
type Blame string

// Blames. A cancelled trial has none.
const (
	BlameNone           Blame = ""
	BlameAgent          Blame = "agent"
	BlameTask           Blame = "task"
	BlameInfrastructure Blame = "infrastructure"
	BlameHarness        Blame = "harness"
)

// Blames lists all blames, in the order in which tables show them.
func Blames() []Blame {
	return []Blame{BlameAgent, BlameTask, BlameInfrastructure, BlameHarness}
}

// Cause is what the runner saw.
type Cause string

// The closed list of causes.
const (
	CauseCancelled     Cause = "cancelled"      // on request
	CauseTimeout       Cause = "timeout"        // the phase's own limit passed
	CauseDeadline      Cause = "deadline"       // the hard deadline of the try passed
	CauseOutOfMemory   Cause = "out_of_memory"  // the sandbox, or a verifier without verdict, died for memory
	CauseSandboxLost   Cause = "sandbox_lost"   // the sandbox died otherwise, or is out of reach
	CauseBuild         Cause = "build"          // the image could not be built
	CauseProvider      Cause = "provider"       // the provider refused or failed; see the kind
	CauseUnsupported   Cause = "unsupported"    // nobody here can run such a task
	CausePlatform      Cause = "platform"       // the image is for another architecture
	CauseInvalidTask   Cause = "invalid_task"   // the task directory is wrong
	CauseInvalidConfig Cause = "invalid_config" // the trial's configuration is wrong
	CauseVariable      Cause = "variable"       // a variable of the host is missing
	CauseHealthcheck   Cause = "healthcheck"
	CauseExit          Cause = "exit" // the agent ended with a non-zero status
	CauseUpload        Cause = "upload"
	CauseDownload      Cause = "download"
	CauseRewardMissing Cause = "reward_missing"
	CauseRewardEmpty   Cause = "reward_empty"
	CauseRewardInvalid Cause = "reward_invalid"
	CauseModels        Cause = "models"    // out of reach: the proxy's or the upstream's doing
	CauseModelKey      Cause = "model_key" // the provider refuses our keys
	CauseBudget        Cause = "budget"    // the trial's budget is used up
	CauseHost          Cause = "host"      // this host is full, read-only, or short of something
	CauseInternal      Cause = "internal"
)

// Exception names that code refers to. The policy table has a row for each.
const (
	ExcCancelled          = "CancelledError"
	ExcAgentTimeout       = "AgentTimeoutError"
	ExcAgentSetupTimeout  = "AgentSetupTimeoutError"
	ExcEnvironmentTimeout = "EnvironmentStartTimeoutError"
	ExcVerifierTimeout    = "VerifierTimeoutError"
	ExcNonZeroExit        = "NonZeroAgentExitCodeError"
	ExcHealthcheck        = "HealthcheckError"
	ExcMemoryLimit        = "MemoryLimitExceededError"
	ExcAddTests           = "AddTestsDirError"
	ExcDownloadVerifier   = "DownloadVerifierDirError"
	ExcRewardMissing      = "RewardFileNotFoundError"
	ExcRewardEmpty        = "RewardFileEmptyError"
	ExcRewardInvalid      = "VerifierOutputParseError"
	ExcRuntime            = "RuntimeError"
	ExcValue              = "ValueError"
	ExcFileNotFound       = "FileNotFoundError"
	ExcUnsupportedTask    = "UnsupportedTaskError"
	ExcInvalidTask        = "InvalidTaskError"
	ExcPlatform           = "PlatformMismatchError"
	ExcSandboxLost        = "SandboxLostError"
	ExcDeadline           = "DeadlineExceededError"
	ExcHarness            = "HarnessError"
	ExcHost               = "HostError"
	ExcProvider           = "ProviderError"   // the provider gave no sandbox
	ExcTransfer           = "TransferError"   // files did not get into the sandbox
	ExcAgentSetup         = "AgentSetupError" // a command that installs the agent failed
	ExcModels             = "ModelUnavailableError"
	ExcModelKey           = "ModelCredentialError"
	ExcBudget             = "BudgetExceededError"
)

// Failure is why a trial has no verdict, or what went wrong beside one.
type Failure struct {
	Phase   Phase  `json:"phase"`
	Cause   Cause  `json:"cause"`
	Kind    string `json:"kind,omitempty"` // of the provider's error
	Blame   Blame  `json:"blame,omitempty"`
	Message string `json:"message"`

	// Exception is the name that Harbor's files and retry settings use.
	Exception string `json:"exception"`
	// Detail is more than fits a line: the tail of a build log, an output.
	Detail string `json:"-"`
}

func (f *Failure) Error() string {
	if f.Message == "" { // nothing is to be said about a cancel
		return f.Exception
	}
	return f.Exception + ": " + f.Message
}

type verdict struct {
	exception string
	blame     Blame
}

type rule struct {
	phase Phase // "" is any
	cause Cause
	kind  string // "" is any
	verdict
}

// rules turns what the runner saw into Harbor's exception name and a blame. The
// first row that fits wins, so the general ones stand last. What infrastructure or
// harness did has a name whose policy lets no reward count: nobody knows what the
// agent would have got without it.
var rules = []rule{
	{"", CauseCancelled, "", verdict{ExcCancelled, BlameNone}},
	{"", CauseDeadline, "", verdict{ExcDeadline, BlameHarness}},
	{"", CauseUnsupported, "", verdict{ExcUnsupportedTask, BlameTask}},
	{"", CausePlatform, "", verdict{ExcPlatform, BlameTask}},
	{"", CauseProvider, "Unsupported", verdict{ExcUnsupportedTask, BlameTask}},
	{"", CauseInvalidTask, "", verdict{ExcInvalidTask, BlameTask}},
	{"", CauseInvalidConfig, "", verdict{ExcValue, BlameTask}},
	{"", CauseVariable, "", verdict{ExcMissingVariable, BlameTask}},
	{"", CauseOutOfMemory, "", verdict{ExcMemoryLimit, BlameInfrastructure}},
	{"", CauseHost, "", verdict{ExcHost, BlameInfrastructure}},
	{"", CauseModels, "", verdict{ExcModels, BlameInfrastructure}},
	{"", CauseModelKey, "", verdict{ExcModelKey, BlameInfrastructure}},
	{"", CauseBudget, "", verdict{ExcBudget, BlameAgent}},

	{PhaseEnvironmentSetup, CauseTimeout, "", verdict{ExcEnvironmentTimeout, BlameInfrastructure}},
	{PhaseEnvironmentSetup, CauseHealthcheck, "", verdict{ExcHealthcheck, BlameTask}},
	{"", CauseBuild, "", verdict{ExcRuntime, BlameTask}},
	{PhaseEnvironmentSetup, CauseSandboxLost, "", verdict{ExcRuntime, BlameTask}},
	{PhaseEnvironmentSetup, CauseProvider, "Invalid", verdict{ExcRuntime, BlameTask}},
	{PhaseEnvironmentSetup, CauseProvider, "NotFound", verdict{ExcRuntime, BlameTask}},
	{PhaseEnvironmentSetup, CauseUpload, "", verdict{ExcTransfer, BlameInfrastructure}},
	{PhaseEnvironmentSetup, CauseProvider, "Unavailable", verdict{ExcProvider, BlameInfrastructure}},

	{PhaseAgentSetup, CauseTimeout, "", verdict{ExcAgentSetupTimeout, BlameInfrastructure}},
	{PhaseAgentSetup, CauseExit, "", verdict{ExcAgentSetup, BlameInfrastructure}}, // an installation, not the agent
	{PhaseAgentSetup, CauseUpload, "", verdict{ExcTransfer, BlameInfrastructure}},

	{PhaseAgentSetup, CauseProvider, "Invalid", verdict{ExcInvalidTask, BlameTask}},
	{PhaseAgentExecution, CauseProvider, "Invalid", verdict{ExcInvalidTask, BlameTask}},
	{PhaseVerifier, CauseProvider, "Invalid", verdict{ExcInvalidTask, BlameTask}},
	{PhaseAgentSetup, CauseProvider, "", verdict{ExcSandboxLost, BlameInfrastructure}},
	{PhaseAgentExecution, CauseProvider, "", verdict{ExcSandboxLost, BlameInfrastructure}},
	{PhaseVerifier, CauseProvider, "", verdict{ExcSandboxLost, BlameInfrastructure}},

	{PhaseAgentExecution, CauseTimeout, "", verdict{ExcAgentTimeout, BlameAgent}},
	{PhaseAgentExecution, CauseExit, "", verdict{ExcNonZeroExit, BlameAgent}},
	{PhaseAgentExecution, CauseUpload, "", verdict{ExcTransfer, BlameInfrastructure}},

	{PhaseArtifacts, CauseTimeout, "", verdict{ExcArtifacts, BlameInfrastructure}},
	{PhaseArtifacts, CauseProvider, "", verdict{ExcArtifacts, BlameInfrastructure}},

	{PhaseVerifier, CauseTimeout, "", verdict{ExcVerifierTimeout, BlameTask}},
	{PhaseVerifier, CauseUpload, "", verdict{ExcAddTests, BlameInfrastructure}},
	{PhaseVerifier, CauseDownload, "", verdict{ExcDownloadVerifier, BlameInfrastructure}},
	{PhaseVerifier, CauseRewardMissing, "", verdict{ExcRewardMissing, BlameTask}},
	{PhaseVerifier, CauseRewardEmpty, "", verdict{ExcRewardEmpty, BlameTask}},
	{PhaseVerifier, CauseRewardInvalid, "", verdict{ExcRewardInvalid, BlameTask}},

	{"", CauseProvider, "Internal", verdict{ExcHarness, BlameHarness}},
	{"", CauseProvider, "Unavailable", verdict{ExcSandboxLost, BlameInfrastructure}},
	{"", CauseProvider, "", verdict{ExcProvider, BlameInfrastructure}},
	{"", CauseSandboxLost, "", verdict{ExcSandboxLost, BlameInfrastructure}},
	{"", CauseTimeout, "", verdict{ExcDeadline, BlameHarness}},
	{"", CauseInternal, "", verdict{ExcHarness, BlameHarness}},
}

// NewFailure names what happened in a phase. kind is the name of the provider's
// error kind, or "".
func NewFailure(phase Phase, cause Cause, kind, message string) *Failure {
	f := &Failure{Phase: phase, Cause: cause, Kind: kind, Message: message}
	v := verdict{ExcHarness, BlameHarness}
	for _, r := range rules {
		if (r.phase == "" || r.phase == phase) && r.cause == cause && (r.kind == "" || r.kind == kind) {
			v = r.verdict
			break
		}
	}
	f.Exception, f.Blame = v.exception, v.blame
	return f
}

// BlameOf is who an exception belongs to by its name alone, for files that do not
// say: those of Harbor. What no table knows is an agent's own.
func BlameOf(exception string) Blame {
	for _, r := range rules {
		if r.exception == exception {
			return r.blame
		}
	}
	switch p := builtinPolicy(exception); {
	case p.HasValidReward:
		return BlameAgent
	case p.ShouldRetry:
		return BlameInfrastructure
	default:
		return BlameHarness
	}
}

// Info puts the failure into Harbor's words.
func (f *Failure) Info(at *Time, policy ErrorPolicy) *ExceptionInfo {
	text := f.Error()
	if f.Detail != "" {
		text += "\n\n" + f.Detail
	}
	return &ExceptionInfo{
		Type: f.Exception, Message: f.Message, Traceback: text, OccurredAt: at, Policy: &policy,
	}
}
