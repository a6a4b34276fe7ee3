package runner

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/trials"
)

const healthcheck = `[environment.healthcheck]
command = "false"
interval_sec = 1.0
timeout_sec = 5.0
start_period_sec = 0.0
retries = 1
`

func TestB007HealthcheckThatAlwaysFailsLeavesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, map[string]string{"task.toml": helloToml + healthcheck})
		res := r.run(t.Context())
		want(t, res, "null", trials.ExcHealthcheck)
		wantFailure(t, res, trials.PhaseEnvironmentSetup, trials.CauseHealthcheck, trials.BlameTask)
		if res.AgentSetup != nil {
			t.Error("the agent was set up")
		}
		if len(r.removed) != 1 {
			t.Errorf("removals: %q", r.removed)
		}
		if got := r.manifest()[artifactsDir].Status; got != "ok" { // it was there to look into
			t.Errorf("manifest says %q", got)
		}
	})
}

func TestTimeForAnImageThatCannotBeHadCounts(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.try.Images = 3 * time.Second
		r.world.Inject(fake.Fault{Op: fake.OpBuild, Delay: 5 * time.Second, Effect: fake.Refuse, Kind: providers.KindInvalid})
		x := r.run(t.Context()).Harborgate
		if x.SnapshotSec != 8 || x.SnapshotQueueSec != 3 || x.WaitSec != 0 {
			t.Errorf("%g s for images, %g s of them before, %g s for a slot", x.SnapshotSec, x.SnapshotQueueSec, x.WaitSec)
		}
	})
}

func TestHealthcheckThatRecovers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		toml := strings.NewReplacer(`"false"`, `"test -e /ready || { touch /ready; false; }"`, "retries = 1", "retries = 2").Replace(healthcheck)
		want(t, newRig(t, map[string]string{"task.toml": helloToml + toml}).run(t.Context()), "1.0", "")
	})
}

func TestSlowHealthcheckIsAFailedOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		toml := strings.Replace(healthcheck, `"false"`, `"sleep 60"`, 1)
		begun := time.Now()
		res := newRig(t, map[string]string{"task.toml": helloToml + toml}).run(t.Context())
		want(t, res, "null", trials.ExcHealthcheck)
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("took %s, want its limit of 5 s", took)
		}
	})
}

// A limit that passes is named with its origin and what was measured.
func TestB025TimeoutsNameTheirLimit(t *testing.T) {
	slowCheck := strings.NewReplacer(`"false"`, `"sleep 600"`, "timeout_sec = 5.0", "timeout_sec = 500.0").Replace(healthcheck)
	for name, c := range map[string]struct {
		files     map[string]string
		change    func(*rig)
		exception string
		phase     trials.Phase
		blame     trials.Blame
		reward    string
		message   string
	}{
		"environment": {
			files:     map[string]string{"task.toml": helloToml + slowCheck},
			exception: trials.ExcEnvironmentTimeout, phase: trials.PhaseEnvironmentSetup, blame: trials.BlameInfrastructure, reward: "null",
			message: "Environment start timed out after 60.0 seconds (limit: task.toml environment.build_timeout_sec 60 s; elapsed 60.0 s)",
		},
		"agent setup": {
			change: func(r *rig) {
				r.command("true")
				r.world.Inject(fake.Fault{Op: fake.OpUpload, Match: "/harbor-agent-input", Hang: true})
				limit := trials.Float(7)
				r.try.Config.Agent.OverrideSetupTimeoutSec = &limit
			},
			exception: trials.ExcAgentSetupTimeout, phase: trials.PhaseAgentSetup, blame: trials.BlameInfrastructure, reward: "null",
			message: "Agent setup timed out after 7.0 seconds (limit: agent.override_setup_timeout_sec 7 s; elapsed 7.0 s)",
		},
		"agent": {
			change: func(r *rig) {
				r.command("echo hi > /app/out.txt; sleep 6000")
				half := trials.Float(0.5)
				r.try.Config.Multipliers.AgentTimeout = &half
			},
			exception: trials.ExcAgentTimeout, phase: trials.PhaseAgentExecution, blame: trials.BlameAgent, reward: "1.0",
			message: "Agent execution timed out after 30.0 seconds (limit: task.toml agent.timeout_sec 60 s × agent_timeout_multiplier 0.5; elapsed 30.0 s)",
		},
		"staging": {
			change:    func(r *rig) { r.world.Inject(fake.Fault{Op: fake.OpUpload, Match: "/tests", Hang: true}) },
			exception: trials.ExcAddTests, phase: trials.PhaseVerifier, blame: trials.BlameInfrastructure, reward: "null",
			message: "Staging for the verifier timed out after 600.0 seconds (limit: fixed; elapsed 600.0 s)",
		},
		"verifier": {
			files:     map[string]string{"tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\necho begun\nsleep 6000\n"},
			exception: trials.ExcVerifierTimeout, phase: trials.PhaseVerifier, blame: trials.BlameTask, reward: "null",
			message: "Verifier execution timed out after 60.0 seconds (limit: task.toml verifier.timeout_sec 60 s; elapsed 60.0 s)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, c.files)
				if c.change != nil {
					c.change(r)
				}
				res := r.run(t.Context())
				want(t, res, c.reward, c.exception)
				if f := res.Harborgate.Failure; f.Phase != c.phase || f.Blame != c.blame {
					t.Errorf("failure %+v", f)
				}
				if got := res.ExceptionInfo.Message; got != c.message {
					t.Errorf("message\n%s, want\n%s", got, c.message)
				}
				if name == "verifier" && r.file("verifier/test-stdout.txt") != "begun\n" {
					t.Errorf("the output so far is %q", r.file("verifier/test-stdout.txt"))
				}
			})
		})
	}
}

// The hard deadline of a try ends what no other limit ends.
func TestHardDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		x := New(Options{Provider: fake.New(fake.Options{World: r.world}), Events: r.events, Logger: slog.New(slog.DiscardHandler)}).begin(&r.try)
		d, ok := x.total()
		if !ok || d != 60*2*time.Second+360*time.Second+2*60*time.Second+slack {
			t.Fatalf("deadline %s %v", d, ok)
		}
		ctx, cancel := x.deadline(t.Context())
		defer cancel()
		<-ctx.Done()
		f := x.explain(ctx, trials.PhaseArtifacts, time.Second, ctx.Err())
		if f.Exception != trials.ExcDeadline || f.Blame != trials.BlameHarness || !strings.Contains(f.Message, "hard deadline") {
			t.Errorf("%+v", f)
		}
	})
}

func TestB014DownloadThatNeverReturns(t *testing.T) {
	for name, c := range map[string]struct{ path, artifact string }{
		"agent logs": {path: agentDir},
		"artifacts":  {path: artifactsDir},
		"artifact":   {path: "/app/data", artifact: "/app/data"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, nil)
				if c.artifact != "" {
					r.try.Config.Artifacts = append(r.try.Config.Artifacts, trials.ArtifactConfig{Source: c.artifact})
				}
				r.world.Inject(fake.Fault{Op: fake.OpDownload, Match: c.path, Hang: true})
				begun := time.Now()
				res := r.run(t.Context())
				want(t, res, "1.0", "")
				if took := time.Since(begun); took != collectLimit {
					t.Errorf("took %s, want the limit of collection", took)
				}
				if !strings.Contains(notes(res), "collect_failed: Artifact collection timed out after 600.0 seconds") {
					t.Errorf("notes: %s", notes(res))
				}
				if got := r.manifest()[artifactsDir].Status; (got == "ok") != (name == "artifact") {
					t.Errorf("manifest says %q of the artifacts' directory", got)
				}
			})
		})
	}
}

func TestDownloadOfTheVerdictThatNeverReturns(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.world.Inject(fake.Fault{Op: fake.OpDownload, Match: verifierDir, Hang: true})
		want(t, r.run(t.Context()), "null", trials.ExcVerifierTimeout)
	})
}

func TestB006CreateThatAnswersAfterTheCancel(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.world.Inject(fake.Fault{Op: fake.OpCreate, Late: 3 * time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		res := r.run(ctx)
		want(t, res, "null", trials.ExcCancelled)
		if len(r.removed) != 0 {
			t.Errorf("the runner removed what it never had: %q", r.removed)
		}
	})
}

// Each row is a fault and what must become of it.
func TestFaults(t *testing.T) {
	t.Parallel()
	oom := providers.Death{ExitCode: 137, OOMKilled: true}
	refuse := func(op fake.Op, match string, kind providers.Kind) fake.Fault {
		return fake.Fault{Op: op, Match: match, Effect: fake.Refuse, Kind: kind}
	}
	for name, c := range map[string]struct {
		fault     fake.Fault
		exception string
		phase     trials.Phase
		cause     trials.Cause
		blame     trials.Blame
		reward    string
	}{
		"image unknown":          {refuse(fake.OpBuild, "", providers.KindNotFound), trials.ExcRuntime, trials.PhaseEnvironmentSetup, trials.CauseProvider, trials.BlameTask, "null"},
		"build fails":            {refuse(fake.OpBuild, "", providers.KindInvalid), trials.ExcRuntime, trials.PhaseEnvironmentSetup, trials.CauseBuild, trials.BlameTask, "null"},
		"engine away":            {refuse(fake.OpBuild, "", providers.KindUnavailable), trials.ExcProvider, trials.PhaseEnvironmentSetup, trials.CauseProvider, trials.BlameInfrastructure, "null"},
		"create exhausted":       {refuse(fake.OpCreate, "", providers.KindExhausted), trials.ExcProvider, trials.PhaseEnvironmentSetup, trials.CauseProvider, trials.BlameInfrastructure, "null"},
		"create rate limited":    {refuse(fake.OpCreate, "", providers.KindRateLimited), trials.ExcProvider, trials.PhaseEnvironmentSetup, trials.CauseProvider, trials.BlameInfrastructure, "null"},
		"create denied":          {refuse(fake.OpCreate, "", providers.KindDenied), trials.ExcProvider, trials.PhaseEnvironmentSetup, trials.CauseProvider, trials.BlameInfrastructure, "null"},
		"create unsupported":     {refuse(fake.OpCreate, "", providers.KindUnsupported), trials.ExcUnsupportedTask, trials.PhaseEnvironmentSetup, trials.CauseProvider, trials.BlameTask, "null"},
		"create breaks":          {refuse(fake.OpCreate, "", providers.KindInternal), trials.ExcHarness, trials.PhaseEnvironmentSetup, trials.CauseProvider, trials.BlameHarness, "null"},
		"dies at once":           {fake.Fault{Op: fake.OpCreate, Effect: fake.Die, Death: providers.Death{ExitCode: 1}}, trials.ExcRuntime, trials.PhaseEnvironmentSetup, trials.CauseSandboxLost, trials.BlameTask, "null"},
		"dies of memory early":   {fake.Fault{Op: fake.OpCreate, Effect: fake.Die, Death: oom}, trials.ExcMemoryLimit, trials.PhaseEnvironmentSetup, trials.CauseOutOfMemory, trials.BlameInfrastructure, "null"},
		"agent upload fails":     {refuse(fake.OpUpload, "/solution", providers.KindUnavailable), trials.ExcTransfer, trials.PhaseAgentExecution, trials.CauseUpload, trials.BlameInfrastructure, "null"},
		"agent session fails":    {refuse(fake.OpExec, "/solution/solve.sh", providers.KindUnavailable), trials.ExcSandboxLost, trials.PhaseAgentExecution, trials.CauseProvider, trials.BlameInfrastructure, "null"},
		"dies under the agent":   {fake.Fault{Op: fake.OpExec, Match: "/solution/solve.sh", Effect: fake.Die, Death: providers.Death{ExitCode: 137}}, trials.ExcSandboxLost, trials.PhaseArtifacts, trials.CauseSandboxLost, trials.BlameInfrastructure, "null"},
		"memory under the agent": {fake.Fault{Op: fake.OpExec, Match: "/solution/solve.sh", Effect: fake.Die, Death: oom}, trials.ExcMemoryLimit, trials.PhaseArtifacts, trials.CauseOutOfMemory, trials.BlameInfrastructure, "null"},
		"tests not uploaded":     {refuse(fake.OpUpload, "/tests", providers.KindUnavailable), trials.ExcAddTests, trials.PhaseVerifier, trials.CauseUpload, trials.BlameInfrastructure, "null"},
		"dirs not emptied":       {refuse(fake.OpExec, "rm -rf /logs/verifier", providers.KindUnavailable), trials.ExcAddTests, trials.PhaseVerifier, trials.CauseUpload, trials.BlameInfrastructure, "null"},
		"verdict not downloaded": {refuse(fake.OpDownload, verifierDir, providers.KindUnavailable), trials.ExcDownloadVerifier, trials.PhaseVerifier, trials.CauseDownload, trials.BlameInfrastructure, "null"},
		"verifier session fails": {refuse(fake.OpExec, "/tests/test.sh", providers.KindUnavailable), trials.ExcSandboxLost, trials.PhaseVerifier, trials.CauseProvider, trials.BlameInfrastructure, "null"},
		"verifier dies":          {fake.Fault{Op: fake.OpExec, Match: "/tests/test.sh", Effect: fake.Die, Death: providers.Death{ExitCode: 1}}, trials.ExcSandboxLost, trials.PhaseVerifier, trials.CauseSandboxLost, trials.BlameInfrastructure, "null"},
		"verifier out of memory": {fake.Fault{Op: fake.OpExec, Match: "/tests/test.sh", Effect: fake.Die, Death: oom}, trials.ExcMemoryLimit, trials.PhaseVerifier, trials.CauseOutOfMemory, trials.BlameInfrastructure, "null"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.world.Inject(c.fault)
				res := r.run(t.Context())
				want(t, res, c.reward, c.exception)
				wantFailure(t, res, c.phase, c.cause, c.blame)
			})
		})
	}
}

// The sandbox dies while the agent works, not after.
func TestSandboxDiesMidAgent(t *testing.T) {
	for name, c := range map[string]struct {
		death     providers.Death
		exception string
	}{
		"killed":        {providers.Death{ExitCode: 137}, trials.ExcSandboxLost},
		"out of memory": {providers.Death{ExitCode: 137, OOMKilled: true}, trials.ExcMemoryLimit},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, nil).command("sleep 30")
				time.AfterFunc(10*time.Second, func() { r.world.Kill("fake-1", c.death) })
				res := r.run(t.Context())
				want(t, res, "null", c.exception)
				if res.Harborgate.Failure.Phase != trials.PhaseAgentExecution || res.Verifier != nil {
					t.Errorf("failure %+v, verifier %+v", res.Harborgate.Failure, res.Verifier)
				}
				if !res.ExceptionInfo.Policy.ShouldRetry {
					t.Error("it is not tried again")
				}
			})
		})
	}
}

func TestOverriddenErrorPolicy(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		override trials.ErrorPolicyOverride
		reward   string
		valid    bool
	}{
		"none":           {reward: "1.0", valid: true},
		"not graded":     {override: trials.ErrorPolicyOverride{ShouldGrade: &no}, reward: "null"},
		"does not count": {override: trials.ErrorPolicyOverride{HasValidReward: &no}, reward: "1.0"},
		"retried":        {override: trials.ErrorPolicyOverride{ShouldRetry: &yes}, reward: "1.0", valid: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := newRig(t, nil).command("echo hi > /app/out.txt; sleep 600")
				r.try.Config.OverrideErrorPolicy = trials.Object[trials.ErrorPolicyOverride]{trials.ExcAgentTimeout: c.override}
				res := r.run(t.Context())
				want(t, res, c.reward, trials.ExcAgentTimeout)
				if res.RewardValid != c.valid {
					t.Errorf("reward valid %v, want %v", res.RewardValid, c.valid)
				}
				if got := res.ExceptionInfo.Policy.ShouldRetry; got != (c.override.ShouldRetry != nil) {
					t.Errorf("should retry %v", got)
				}
			})
		})
	}
}

// What is wrong before a sandbox exists costs nothing and concerns this try alone.
func TestRefusedBeforeAnySandbox(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files     map[string]string
		change    func(*rig)
		exception string
		message   string
	}{
		"unknown agent":        {nil, func(r *rig) { r.agent("mystery", nil) }, trials.ExcValue, "mystery"},
		"unknown kwarg":        {nil, func(r *rig) { r.try.Config.Environment.Kwargs = trials.Object[any]{"speed": true} }, trials.ExcValue, "auto_mounting, keep_agent_processes"},
		"kwarg of wrong type":  {nil, func(r *rig) { r.try.Config.Environment.Kwargs = trials.Object[any]{"auto_mounting": "yes"} }, trials.ExcValue, "true or false"},
		"missing variable":     {map[string]string{"task.toml": helloToml + "[environment.env]\nTOKEN = \"${NOT_SET}\"\n"}, nil, trials.ExcMissingVariable, "NOT_SET"},
		"missing instruction":  {nil, func(r *rig) { r.try.Config.ExtraInstructionPaths = []string{"/not/there"} }, trials.ExcValue, "/not/there"},
		"several services":     {map[string]string{"environment/docker-compose.yaml": "services: {main: {image: x}}\n"}, nil, trials.ExcUnsupportedTask, "compose"},
		"guaranteed resources": {nil, func(r *rig) { r.try.Config.Environment.CPUEnforcementPolicy = "guarantee" }, trials.ExcUnsupportedTask, "--cpus guarantee"},
		"tools for an agent without": {
			map[string]string{"task.toml": helloToml + "[[environment.mcp_servers]]\nname = \"web\"\nurl = \"http://h/sse\"\n"},
			func(r *rig) { r.command("true") }, trials.ExcUnsupportedTask,
			"agent command cannot use what this task has for it, mcp-servers: environment.mcp_servers lists 1 tool servers: choose another agent",
		},
		"invalid task": {nil, func(r *rig) { r.try.Task, r.try.Invalid = nil, context.Canceled }, trials.ExcInvalidTask, "canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.files)
			if c.change != nil {
				c.change(r)
			}
			r.world.Inject(fake.Fault{Op: fake.OpCreate, Effect: fake.Lose, Kind: providers.KindInternal})
			res := r.run(t.Context())
			want(t, res, "null", c.exception)
			if f := res.Harborgate.Failure; f.Phase != trials.PhaseQueue || f.Blame != trials.BlameTask {
				t.Errorf("failure %+v", f)
			}
			if !strings.Contains(res.ExceptionInfo.Message, c.message) || strings.HasPrefix(c.message, "agent ") && strings.Contains(res.ExceptionInfo.Message, "provider") {
				t.Errorf("message %q, want %q in it", res.ExceptionInfo.Message, c.message)
			}
		})
	}
}
