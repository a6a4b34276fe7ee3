package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"time"

	"harborgate/agents"
	"harborgate/providers"
	"harborgate/tasks"
	"harborgate/trials"
)

// testOutput is what the test script prints, both streams in order.
const testOutput = "verifier/test-stdout.txt"

func (x *run) separate() bool {
	return x.t.Task.VerifierMode(nil) == tasks.VerifierSeparate && !x.t.Config.Verifier.Disable && !x.t.Config.InstallOnly
}

// verify grades what the agent left: in its own sandbox, or in a fresh one that
// knows the artifacts alone. Staging does not eat the verifier's time.
func (x *run) verify(ctx context.Context) *trials.Failure {
	sandbox, bring := x.sandbox, true
	if x.separate() {
		s, bundled, f := x.replaceSandbox(ctx)
		if f != nil {
			return f
		}
		sandbox, bring = s, !bundled
	} else if f := x.stage(ctx, x.returnLogs); f != nil {
		return f
	}
	if f := x.stage(ctx, func(ctx context.Context) error { return x.stageTests(ctx, sandbox, bring) }); f != nil {
		return f
	}
	f := x.phase(ctx, trials.PhaseVerifier, &x.res.Verifier, x.limits.Verifier, func(ctx context.Context) error {
		env := mergeEnv(x.env.secret, x.env.verifier)
		err := x.withModels(ctx, trials.PhaseVerifier, sandbox, env, func(a *agents.Access) error { return x.runTests(ctx, sandbox, env, a) })
		got := x.fetchVerdict(ctx, sandbox)
		// When it is not known how the tests ended, a missing reward is no wonder.
		return cmp.Or(err, got)
	})
	if f = x.orModels(f); f != nil && f == x.unreached {
		x.res.VerifierResult = nil // a judge that reached no model has not judged
	}
	return f
}

// stageLimit bounds each step around the verifier that is not its own.
const stageLimit = 10 * time.Minute

func (x *run) stage(ctx context.Context, f func(context.Context) error) *trials.Failure {
	begun := time.Now()
	ctx, cancel := within(ctx, &limitError{trials.PhaseVerifier, trials.CauseUpload, "Staging for the verifier",
		trials.Limit{Seconds: stageLimit.Seconds(), Origin: "fixed"}})
	defer cancel()
	err := f(ctx)
	return x.explain(ctx, trials.PhaseVerifier, time.Since(begun), err)
}

// aDirectory makes room for /logs where an agent made it something else.
const aDirectory = "[ -d " + logsDir + " ] || rm -f " + logsDir + "; "

// returnLogs shows the tests what the host wrote about the agent. What an agent put in
// its place must not cost the verdict: it goes, with all that is in /logs/agent and was
// not collected. What cannot be put back even then is noted.
func (x *run) returnLogs(ctx context.Context) error {
	if x.kwargs.autoMounting {
		return nil
	}
	put := func() error { return putBack(ctx, x.sandbox, x.t.Sink.Path("agent"), agentDir) }
	err := put()
	if !obstructed(err) {
		return during(trials.CauseUpload, err)
	}
	line := fmt.Sprintf(aDirectory+"rm -rf %[1]s; mkdir -p %[1]s && chmod 777 %[1]s", agentDir)
	switch rerr := x.root(ctx, x.sandbox, "empty "+agentDir, line); {
	case isProviderError(rerr):
		return during(trials.CauseUpload, rerr)
	case rerr == nil:
		x.note("logs_replaced", fmt.Sprintf("%s was made anew with what was collected of it: %v", agentDir, err))
		err = put()
	}
	if obstructed(err) {
		x.note("logs_not_returned", fmt.Sprintf("the tests do not see what the host wrote about the agent: %v", err))
		return nil
	}
	return during(trials.CauseUpload, err)
}

// obstructed reports whether files found no place in a sandbox that is there: something
// else stands in it, or nobody may write.
func obstructed(err error) bool {
	return providers.Is(err, providers.KindInvalid) || providers.Is(err, providers.KindDenied)
}

// stageTests empties what the agent could have prepared and brings the tests.
func (x *run) stageTests(ctx context.Context, s providers.Sandbox, bring bool) error {
	if err := x.cleanVerifierDirs(ctx, s, bring); err != nil {
		return during(trials.CauseUpload, err)
	}
	if !bring {
		return nil
	}
	for _, dir := range x.t.Task.TestDirs(nil) {
		if err := upload(ctx, s, dir, testsDir, "test.sh"); err != nil {
			return during(trials.CauseUpload, err)
		}
	}
	return nil
}

// cleanVerifierDirs never follows a link: rm removes it, mkdir makes a directory.
// A mounted directory stays and is emptied. A sandbox in which that cannot be done has
// no shell, or one that somebody spoiled, and could not run tests either.
func (x *run) cleanVerifierDirs(ctx context.Context, s providers.Sandbox, tests bool) error {
	clean := verifierDir
	if tests {
		clean += " " + testsDir
	}
	line := fmt.Sprintf(aDirectory+"rm -rf %s; mkdir -p %s && chmod 777 %s", clean, clean, verifierDir)
	if x.kwargs.autoMounting {
		line = fmt.Sprintf("rm -rf %[1]s/* %[1]s/.[!.]* %[2]s; mkdir -p %[1]s %[2]s && chmod 777 %[1]s", verifierDir, testsDir)
	}
	err := x.root(ctx, s, "empty the verifier's directories", line)
	if err != nil && !isProviderError(err) { // another try would end like this one
		return trials.NewFailure(trials.PhaseVerifier, trials.CauseRewardMissing, "", err.Error()+"; the tests cannot run in what the sandbox has become")
	}
	return err
}

// runTests runs the test script. Its exit code says nothing about the reward; it
// is kept. What it leaves running dies with it, so that nothing rewrites a
// reward afterwards.
func (x *run) runTests(ctx context.Context, s providers.Sandbox, env map[string]string, a *agents.Access) (err error) {
	args := []string{path.Join(testsDir, "test.sh")}
	if script, ok := x.t.Task.TestScript(nil); ok {
		if args, err = agents.ScriptArgs(path.Join(testsDir, filepath.Base(script)), script); err != nil {
			return err
		}
	}
	out, err := x.t.Sink.Stream(testOutput)
	if err != nil {
		return err
	}
	if a != nil {
		env = mergeEnv(env, a.Env())
	}
	status, err := s.Exec(ctx, providers.Command{
		Args: args, User: x.t.Task.Config.Verifier.User, SecretEnv: env,
		Stdout: out, Stderr: out, KillLeftovers: true,
	})
	err = errors.Join(err, out.Close())
	if err == nil {
		x.res.Harborgate.VerifierExit = &status.Code
		x.verifierStatus = status
	}
	return err
}

// fetchVerdict brings /logs/verifier and reads the reward. After a timeout the
// output so far is worth having, the reward is not.
func (x *run) fetchVerdict(ctx context.Context, s providers.Sandbox) error {
	late := ctx.Err() != nil
	if late {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), salvageLimit)
		defer cancel()
	}
	if err := x.downloadVerifier(ctx, s); err != nil {
		if late {
			return nil // the timeout is the story
		}
		return during(trials.CauseDownload, err)
	}
	if late {
		return nil
	}
	verdict, err := x.readReward()
	x.suspect(verdict)
	return err
}

func (x *run) downloadVerifier(ctx context.Context, s providers.Sandbox) error {
	if x.kwargs.autoMounting && s == x.sandbox {
		return x.ownMounts(ctx)
	}
	tar, err := download(ctx, s, verifierDir)
	if providers.Is(err, providers.KindNotFound) && answers(ctx, s) {
		x.rewardRefused = "; the tests removed " + verifierDir
		return nil
	}
	if err != nil {
		return err
	}
	defer tar.Close()
	c := x.t.Config.Verifier
	want := wanted(c.IncludeLogs, c.ExcludeLogs)
	got, err := x.t.Sink.Unpack(tar, trials.Unpack{
		Dir: "verifier", Keep: []string{path.Base(testOutput)},
		Want: func(name string) bool { return want == nil || isRewardFile(name) || want(name) },
	})
	left := got.LeftOut()
	x.noteLeftOut("verifier", left)
	for _, skipped := range left {
		if isRewardFile(skipped.Name) {
			x.rewardRefused = fmt.Sprintf("; %s was left out: %s", skipped.Name, skipped.Reason)
		}
	}
	return err
}

// returnArtifact puts an artifact where the agent had it. It replaces what the verifier's
// image has there: an agent that made a directory of a file must not cost the verdict.
func (x *run) returnArtifact(ctx context.Context, s providers.Sandbox, a collectedArtifact) error {
	host := x.t.Sink.Path(a.stored)
	put := func() error {
		if a.dir {
			return putBack(ctx, s, host, a.source, a.links...)
		}
		return uploadFile(ctx, s, host, a.source)
	}
	err := put()
	if obstructed(err) {
		status, rerr := s.Exec(ctx, providers.Command{Args: []string{"rm", "-rf", "--", a.source}, User: "root", Dir: "/"})
		if rerr != nil {
			return rerr
		}
		if status.OK() {
			err = put()
		}
	}
	if obstructed(err) {
		x.missArtifacts(path.Dir(a.source), []trials.Skipped{{Name: path.Base(a.source), Reason: err.Error()}})
		return nil
	}
	return err
}
