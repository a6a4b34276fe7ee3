package trials

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// names reads the string constants of a prefix from this package's files, so
// that a new one cannot be forgotten.
func names(t *testing.T, prefix string, files ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
				return true
			}
			if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				value, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				out[spec.Names[0].Name] = value
			}
			return true
		})
	}
	if len(out) == 0 {
		t.Fatalf("no constant begins with %s", prefix)
	}
	return out
}

func TestEveryExceptionHasAPolicyAndARule(t *testing.T) {
	t.Parallel()
	policies := ExceptionNames()
	// Not made by a rule: the agents give it.
	unruled := []string{ExcFileNotFound}
	for constant, name := range names(t, "Exc", "failure.go", "policy.go") {
		if !slices.Contains(policies, name) {
			t.Errorf("%s has no row in the policy table", constant)
		}
		ruled := slices.ContainsFunc(rules, func(r rule) bool { return r.exception == name })
		if ruled == slices.Contains(unruled, name) {
			t.Errorf("%s: a rule makes it: %v", constant, ruled)
		}
	}
}

func TestEveryCauseHasARule(t *testing.T) {
	t.Parallel()
	for constant, cause := range names(t, "Cause", "failure.go") {
		if !slices.ContainsFunc(rules, func(r rule) bool { return r.cause == Cause(cause) }) {
			t.Errorf("%s has no rule", constant)
		}
	}
}

// A rule that an earlier one always hides says nothing.
func TestEveryRuleCanBeReached(t *testing.T) {
	t.Parallel()
	for i, r := range rules {
		for _, earlier := range rules[:i] {
			hides := earlier.cause == r.cause && (earlier.phase == "" || earlier.phase == r.phase) && (earlier.kind == "" || earlier.kind == r.kind)
			if hides {
				t.Errorf("%+v is hidden by %+v", r, earlier)
			}
		}
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	const (
		task, agent, infra, harness = BlameTask, BlameAgent, BlameInfrastructure, BlameHarness
	)
	for _, c := range []struct {
		phase     Phase
		cause     Cause
		kind      string
		exception string
		blame     Blame
	}{
		{PhaseQueue, CauseCancelled, "", ExcCancelled, BlameNone},
		{PhaseTeardown, CauseCancelled, "Internal", ExcCancelled, BlameNone},
		{PhaseArtifacts, CauseDeadline, "", ExcDeadline, harness},
		{PhaseQueue, CauseUnsupported, "Unsupported", ExcUnsupportedTask, task},
		{PhaseEnvironmentSetup, CauseProvider, "Unsupported", ExcUnsupportedTask, task},
		{PhaseQueue, CauseInvalidTask, "", ExcInvalidTask, task},
		{PhaseQueue, CauseInvalidConfig, "", ExcValue, task},
		{PhaseQueue, CauseVariable, "", ExcMissingVariable, task},
		{PhaseVerifier, CauseOutOfMemory, "", ExcMemoryLimit, infra},
		{PhaseEnvironmentSetup, CauseTimeout, "", ExcEnvironmentTimeout, infra},
		{PhaseEnvironmentSetup, CauseHealthcheck, "", ExcHealthcheck, task},
		{PhaseEnvironmentSetup, CauseBuild, "Invalid", ExcRuntime, task},
		{PhaseEnvironmentSetup, CauseSandboxLost, "Unavailable", ExcRuntime, task},
		{PhaseEnvironmentSetup, CauseProvider, "Invalid", ExcRuntime, task},
		{PhaseEnvironmentSetup, CauseProvider, "NotFound", ExcRuntime, task},
		{PhaseEnvironmentSetup, CauseProvider, "Unavailable", ExcProvider, infra},
		{PhaseEnvironmentSetup, CauseProvider, "Exhausted", ExcProvider, infra},
		{PhaseEnvironmentSetup, CauseProvider, "Internal", ExcHarness, harness},
		{PhaseEnvironmentSetup, CauseUpload, "", ExcTransfer, infra},
		{PhaseAgentSetup, CauseTimeout, "", ExcAgentSetupTimeout, infra},
		{PhaseAgentSetup, CauseExit, "", ExcAgentSetup, infra},
		{PhaseAgentSetup, CauseUpload, "", ExcTransfer, infra},
		{PhaseAgentExecution, CauseTimeout, "", ExcAgentTimeout, agent},
		{PhaseAgentExecution, CauseExit, "", ExcNonZeroExit, agent},
		{PhaseAgentExecution, CauseUpload, "", ExcTransfer, infra},
		{PhaseAgentExecution, CauseProvider, "Unavailable", ExcSandboxLost, infra},
		{PhaseAgentExecution, CauseSandboxLost, "", ExcSandboxLost, infra},
		{PhaseArtifacts, CauseTimeout, "", ExcArtifacts, infra},
		{PhaseArtifacts, CauseProvider, "Internal", ExcArtifacts, infra},
		{PhaseArtifacts, CauseSandboxLost, "", ExcSandboxLost, infra},
		{PhaseVerifier, CauseTimeout, "", ExcVerifierTimeout, task},
		{PhaseVerifier, CauseUpload, "", ExcAddTests, infra},
		{PhaseVerifier, CauseDownload, "", ExcDownloadVerifier, infra},
		{PhaseVerifier, CauseRewardMissing, "", ExcRewardMissing, task},
		{PhaseVerifier, CauseRewardEmpty, "", ExcRewardEmpty, task},
		{PhaseVerifier, CauseRewardInvalid, "", ExcRewardInvalid, task},
		{PhaseVerifier, CauseProvider, "RateLimited", ExcSandboxLost, infra},
		{PhaseTeardown, CauseTimeout, "", ExcDeadline, harness},
		{PhaseTeardown, CauseInternal, "", ExcHarness, harness},
		{PhaseTeardown, "unheard-of", "", ExcHarness, harness},
	} {
		f := NewFailure(c.phase, c.cause, c.kind, "m")
		if f.Exception != c.exception || f.Blame != c.blame || f.Phase != c.phase || f.Cause != c.cause {
			t.Errorf("%s %s %s: %s, blame %q; want %s, %q", c.phase, c.cause, c.kind, f.Exception, f.Blame, c.exception, c.blame)
		}
	}
}

// Whatever is seen in whatever phase gets a name and, but for a cancel, a blame.
func TestEveryFailureIsNamed(t *testing.T) {
	t.Parallel()
	policies := ExceptionNames()
	for _, phase := range Phases() {
		for _, cause := range names(t, "Cause", "failure.go") {
			f := NewFailure(phase, Cause(cause), "", "m")
			if !slices.Contains(policies, f.Exception) {
				t.Errorf("%s in %s: %s has no policy", cause, phase, f.Exception)
			}
			if (f.Blame == BlameNone) != (Cause(cause) == CauseCancelled) {
				t.Errorf("%s in %s: blame %q", cause, phase, f.Blame)
			}
			if f.Blame != BlameNone && !slices.Contains(Blames(), f.Blame) {
				t.Errorf("blame %q is not in the list", f.Blame)
			}
		}
	}
}

// A reward beside what infrastructure or harness did would blame the agent for it.
func TestNoRewardCountsBesideTroubleOfOurs(t *testing.T) {
	t.Parallel()
	for _, r := range rules {
		ours := r.blame == BlameInfrastructure || r.blame == BlameHarness
		if p := PolicyOf(r.exception, nil); ours && (p.HasValidReward || !p.ShouldRetry && r.cause != CauseModelKey) {
			t.Errorf("%s by %s in phase %q is %s, with the policy %+v", r.cause, r.blame, r.phase, r.exception, p)
		}
	}
}

func TestFailureInHarborsWords(t *testing.T) {
	t.Parallel()
	f := NewFailure(PhaseVerifier, CauseRewardMissing, "", "no file")
	f.Detail = "the log"
	info := f.Info(nil, PolicyOf(f.Exception, nil))
	if info.Type != ExcRewardMissing || info.Message != "no file" || info.Traceback != "RewardFileNotFoundError: no file\n\nthe log" {
		t.Errorf("%+v", info)
	}
	if info.Policy == nil || !info.Policy.ShouldGrade || f.Error() != "RewardFileNotFoundError: no file" {
		t.Errorf("policy %+v, error %s", info.Policy, f.Error())
	}
}

// B115: what fails while an agent is installed is no loss of the agent's.
func TestB115SetupIsNotTheAgent(t *testing.T) {
	t.Parallel()
	for _, cause := range []Cause{CauseTimeout, CauseExit, CauseUpload, CauseProvider, CauseSandboxLost, CauseOutOfMemory} {
		if f := NewFailure(PhaseAgentSetup, cause, "", "m"); f.Blame != BlameInfrastructure {
			t.Errorf("%s: %s", cause, f.Blame)
		}
	}
}

func TestBlameOf(t *testing.T) {
	t.Parallel()
	for exception, want := range map[string]Blame{
		ExcCancelled: BlameNone, ExcHealthcheck: BlameTask, ExcAgentTimeout: BlameAgent, ExcNonZeroExit: BlameAgent, ExcVerifierTimeout: BlameTask,
		"SandboxBuildFailedError": BlameInfrastructure, "ApiRateLimitError": BlameInfrastructure,
		"AuthenticationError": BlameHarness, "ContextWindowExceededError": BlameAgent, "MyAgentsOwnError": BlameAgent,
	} {
		if got := BlameOf(exception); got != want {
			t.Errorf("%s: %q, want %q", exception, got, want)
		}
	}
	for _, name := range ExceptionNames() {
		if b := BlameOf(name); b == BlameNone && name != ExcCancelled {
			t.Errorf("nobody is to blame for %s", name)
		}
	}
}

func TestCancelledFailureSaysNothingAfterAColon(t *testing.T) {
	t.Parallel()
	f := NewFailure(PhaseVerifier, CauseCancelled, "", "")
	if got := f.Error(); got != ExcCancelled {
		t.Errorf("%q", got)
	}
	if got := f.Info(nil, ErrorPolicy{}).Traceback; got != ExcCancelled {
		t.Errorf("%q", got)
	}
}
