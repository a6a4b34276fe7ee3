package runner

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harborgate/trials"
)

func TestLifecycle(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	res := r.run(t.Context())
	want(t, res, "1.0", "")
	if !res.RewardValid {
		t.Error("the reward does not count")
	}
	wantWords := []string{
		"start",
		"phase-start environment_setup", "phase-end environment_setup",
		"phase-start agent_setup", "phase-end agent_setup",
		"phase-start agent_execution", "phase-end agent_execution",
		"phase-start verifier", "phase-end verifier",
		"end", "removed",
	}
	if diff := cmp.Diff(wantWords, r.events.words()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got := r.manifest()[artifactsDir]; got.Status != "ok" || got.Type != "directory" {
		t.Errorf("manifest %+v", got)
	}
	for _, timing := range []*trials.Timing{res.EnvironmentSetup, res.AgentSetup, res.AgentExecution, res.Verifier} {
		if timing == nil || timing.FinishedAt == nil {
			t.Errorf("a phase has no times: %+v", timing)
		}
	}
	for _, name := range []string{"config.json", "lock.json", "result.json", "trial.log", "agent/oracle.txt", "verifier/reward.txt", "verifier/test-stdout.txt"} {
		if !r.exists(name) {
			t.Errorf("%s is missing", name)
		}
	}
	if len(r.removed) != 1 {
		t.Errorf("removals: %q", r.removed)
	}
}

func TestAgentThatDoesNothing(t *testing.T) {
	t.Parallel()
	res := newRig(t, nil).agent("nop", nil).run(t.Context())
	want(t, res, "0.0", "")
	if !res.RewardValid {
		t.Error("a zero is a verdict")
	}
}

func TestInstallOnlyEndsAfterSetup(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.try.Config.InstallOnly, r.try.Config.Verifier.Disable = true, true
	res := r.run(t.Context())
	want(t, res, "null", "")
	if res.AgentSetup == nil || res.AgentExecution != nil || res.Verifier != nil {
		t.Errorf("phases: setup %v, execution %v, verifier %v", res.AgentSetup, res.AgentExecution, res.Verifier)
	}
}

func TestDisabledVerificationKeepsLogsAndArtifacts(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).command("echo work; echo x > /logs/artifacts/kept.txt")
	r.try.Config.Verifier.Disable = true
	res := r.run(t.Context())
	want(t, res, "null", "")
	if res.RewardValid || res.Verifier != nil {
		t.Errorf("something was verified: %+v", res.Verifier)
	}
	if r.file("agent/command.txt") != "work\n" || r.file("artifacts/logs/artifacts/kept.txt") != "x\n" {
		t.Errorf("agent said %q, artifact %q", r.file("agent/command.txt"), r.file("artifacts/logs/artifacts/kept.txt"))
	}
}

func TestFailingSolutionIsNoError(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string]string{"solution/solve.sh": "#!/bin/sh\necho oops >&2\nexit 3\n"})
	res := r.run(t.Context())
	want(t, res, "0.0", "")
	if r.file("agent/exit-code.txt") != "3" || r.file("agent/oracle.txt") != "oops\n" {
		t.Errorf("exit code %q, output %q", r.file("agent/exit-code.txt"), r.file("agent/oracle.txt"))
	}
}

func TestFailingAgentIsStillGraded(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil).command("echo hi > /app/out.txt; exit 7")
	res := r.run(t.Context())
	want(t, res, "1.0", trials.ExcNonZeroExit)
	wantFailure(t, res, trials.PhaseAgentExecution, trials.CauseExit, trials.BlameAgent)
	if !res.RewardValid {
		t.Error("its reward does not count")
	}
	if r.file("exception.txt") == "" || !r.exists("exception.txt") {
		t.Error("exception.txt is missing")
	}
}

func TestB101AgentCannotPrepareTheVerdict(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"reward written before":    "mkdir -p /logs/verifier /tests; echo 1 > /logs/verifier/reward.txt; echo '{\"reward\":1}' > /logs/verifier/reward.json",
		"daemon that writes it":    "(while true; do echo 1 > /logs/verifier/reward.txt; sleep 0.01; done) >/dev/null 2>&1 & sleep 0.05",
		"tests written before":     "mkdir -p /tests; echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh; echo x > /tests/conftest.py",
		"link instead of verifier": "rm -rf /logs/verifier; ln -s /app /logs/verifier",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, map[string]string{"tests/test.sh": "#!/bin/sh\n[ -e /tests/conftest.py ] && echo 1 > /logs/verifier/reward.txt && exit\necho 0 > /logs/verifier/reward.txt\nsleep 1\n"})
				res := r.command(line).run(t.Context())
				want(t, res, "0.0", "")
			})
		})
	}
}

// Cancelled at any moment, a try leaves a result that says so, and no sandbox.
func TestCancelledAtEveryBoundary(t *testing.T) {
	t.Parallel()
	for _, at := range []string{
		"start",
		"phase-start environment_setup", "phase-end environment_setup",
		"phase-start agent_setup", "phase-end agent_setup",
		"phase-start agent_execution", "phase-end agent_execution",
		"phase-start verifier",
	} {
		t.Run(at, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, nil)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r.events.then = func(e trials.Event) {
					if word(e) == at {
						cancel()
					}
				}
				res := r.run(ctx)
				want(t, res, "null", trials.ExcCancelled)
				if !res.Cancelled() || res.RewardValid {
					t.Errorf("cancelled %v, reward valid %v", res.Cancelled(), res.RewardValid)
				}
				words := r.events.words()
				if len(words) < 3 || words[len(words)-1] != "removed" && at != "start" && at != "phase-start environment_setup" {
					t.Errorf("events end with %q", words)
				}
			})
		})
	}
}

func TestCancelledAfterTheVerdictKeepsIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.events.then = func(e trials.Event) {
		if word(e) == "phase-end verifier" {
			cancel()
		}
	}
	want(t, r.run(ctx), "1.0", "")
}
