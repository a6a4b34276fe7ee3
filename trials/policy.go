package trials

import (
	"maps"
	"slices"
)

// ErrorPolicy is what follows from an exception.
type ErrorPolicy struct {
	ShouldRetry    bool `json:"should_retry"`     // another try may help
	ShouldGrade    bool `json:"should_grade"`     // the verifier still runs
	HasValidReward bool `json:"has_valid_reward"` // a reward beside it counts
}

// ErrorPolicyOverride replaces parts of a policy; null keeps.
type ErrorPolicyOverride struct {
	ShouldRetry    *bool `json:"should_retry"`
	ShouldGrade    *bool `json:"should_grade"`
	HasValidReward *bool `json:"has_valid_reward"`
}

// Apply returns p with the set parts of o.
func (o ErrorPolicyOverride) Apply(p ErrorPolicy) ErrorPolicy {
	for _, part := range []struct {
		from *bool
		to   *bool
	}{
		{o.ShouldRetry, &p.ShouldRetry},
		{o.ShouldGrade, &p.ShouldGrade},
		{o.HasValidReward, &p.HasValidReward},
	} {
		if part.from != nil {
			*part.to = *part.from
		}
	}
	return p
}

type policyRow struct {
	policy ErrorPolicy
	ours   bool // not Harbor's names, so not in the default exclude list
	names  []string
}

// policyTable holds every exception name with a policy of its own: Harbor 0.26's
// first, then ours. A name that is not here is retried, graded and its reward
// counts, as with Harbor.
func policyTable() []policyRow {
	return []policyRow{
		{policy: ErrorPolicy{ShouldRetry: true}, names: []string{
			ExcEnvironmentTimeout, "SandboxBuildFailedError", ExcAgentSetupTimeout, ExcHealthcheck,
			"SandboxLikelyOutOfMemoryError", ExcMemoryLimit, "SSHAccessError", "GKEExecStreamClosedError",
			"GKEPodNotFoundError", "RuntimeRequestError", ExcAddTests, ExcDownloadVerifier,
		}},
		{policy: ErrorPolicy{ShouldRetry: true, ShouldGrade: true}, names: []string{
			"ApiError", "ApiRateLimitError", "ApiInternalServerError", "ApiOverloadedError",
			"ApiConnectionClosedError", "ApiResponseStalledError", "UnknownApiError", "NetworkConnectionError",
			"ApiConnectionError", "ApiUsageLimitError", "RateLimitError", "InternalServerError",
			"ServiceUnavailableError", "APIConnectionError", "APIError", "Timeout",
		}},
		{policy: ErrorPolicy{ShouldGrade: true}, names: []string{
			"UnsupportedModelParametersError", "BadRequestError", "UnprocessableEntityError",
			"UnsupportedParamsError", "APIResponseValidationError", ExcBudget,
			ExcVerifierTimeout, ExcRewardMissing, ExcRewardEmpty, ExcRewardInvalid,
		}},
		{policy: ErrorPolicy{}, names: []string{
			"AgentAuthenticationError", "ModelNotFoundError", "ApiProviderResourceNotFoundError",
			"AuthenticationError", "PermissionDeniedError", "NotFoundError",
			"ServiceOperationsUnsupportedError", "VercelScopeError", "DspyImportError", "MissingExtraError",
			"RegradeError", ExcCancelled,
		}},
		{policy: ErrorPolicy{ShouldGrade: true, HasValidReward: true}, names: []string{
			ExcNonZeroExit, ExcAgentTimeout, "ContextWindowExceededError", "OutputTokenExceededError",
			"ContextLengthExceededError", "OutputLengthExceededError", "AgentSafetyRefusalError",
			"ContentPolicyViolationError",
		}},
		{ours: true, policy: ErrorPolicy{ShouldRetry: true}, names: []string{
			ExcSandboxLost, ExcHarness, ExcHost, ExcDeadline, ExcArtifacts, ExcModels,
			ExcProvider, ExcTransfer, ExcAgentSetup,
		}},
		{ours: true, policy: ErrorPolicy{}, names: []string{
			ExcUnsupportedTask, ExcInvalidTask, ExcPlatform, ExcMissingVariable, ExcModelKey,
		}},
		{ours: true, policy: ErrorPolicy{ShouldRetry: true, ShouldGrade: true, HasValidReward: true}, names: []string{
			ExcRuntime, ExcValue, ExcFileNotFound,
		}},
	}
}

// Exception names of ours beside those that stand with the causes.
const (
	ExcArtifacts       = "ArtifactsError"       // what a separate verifier needs could not be collected
	ExcMissingVariable = "MissingVariableError" // a ${VAR} without value or default
)

// PolicyOf returns the policy of an exception name under a job's overrides.
func PolicyOf(name string, overrides map[string]ErrorPolicyOverride) ErrorPolicy {
	return overrides[name].Apply(builtinPolicy(name))
}

func builtinPolicy(name string) ErrorPolicy {
	for _, row := range policyTable() {
		if slices.Contains(row.names, name) {
			return row.policy
		}
	}
	return ErrorPolicy{ShouldRetry: true, ShouldGrade: true, HasValidReward: true}
}

// ExceptionNames lists all names that have a policy of their own, in order.
func ExceptionNames() []string {
	var out []string
	for _, row := range policyTable() {
		out = append(out, row.names...)
	}
	slices.Sort(out)
	return out
}

// DefaultExcludes returns the names that are not retried unless a configuration
// says otherwise: Harbor's thirty, with the overrides' additions and removals.
func DefaultExcludes(overrides map[string]ErrorPolicyOverride) []string {
	set := map[string]bool{}
	for _, row := range policyTable() {
		for _, name := range row.names {
			if !row.ours && !row.policy.ShouldRetry {
				set[name] = true
			}
		}
	}
	for name, o := range overrides {
		if o.ShouldRetry != nil {
			set[name] = !*o.ShouldRetry
		}
	}
	maps.DeleteFunc(set, func(_ string, excluded bool) bool { return !excluded })
	return slices.Sorted(maps.Keys(set))
}

// Retryable reports whether a trial that failed with an exception may be tried
// again. The configured lists decide, exclusion first; names of ours that can
// never succeed are retried only when they are included by name.
func (c RetryConfig) Retryable(name string, overrides map[string]ErrorPolicyOverride) bool {
	switch {
	case c.ExcludeExceptions.Has(name):
		return false
	case c.IncludeExceptions != nil && len(*c.IncludeExceptions) > 0:
		return c.IncludeExceptions.Has(name)
	default:
		return !isOurs(name) || PolicyOf(name, overrides).ShouldRetry
	}
}

func isOurs(name string) bool {
	for _, row := range policyTable() {
		if row.ours && slices.Contains(row.names, name) {
			return true
		}
	}
	return false
}
