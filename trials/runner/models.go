package runner

import (
	"context"
	"fmt"
	"strings"
	"time"

	"harborgate/agents"
	"harborgate/providers"
	"harborgate/trials"
)

// withModels has f work while the phase has its way to models, if it needs one: a
// grant of its own, behind a port of this sandbox alone. env is what its commands get
// otherwise. When it returns, the grant is worth nothing any more.
func (x *run) withModels(ctx context.Context, p trials.Phase, s providers.Sandbox, env map[string]string, f func(*agents.Access) error) error {
	x.unreached = nil
	if x.r.opt.Credentials == nil {
		return f(nil)
	}
	g, err := x.r.opt.Credentials.Grant(ctx, x.want(ctx, p))
	if err != nil {
		return trials.NewFailure(p, trials.CauseModels, "", err.Error())
	}
	if g == nil {
		return f(nil)
	}
	defer x.settle(p, g)
	url, closer, err := s.Expose(ctx, g.Handle)
	if err != nil {
		return err
	}
	access := g.Access(url)
	access.Exempt = exempt(ctx, s, env)
	x.t.Sink.Hide(access.Token)
	err = f(&access)
	if cerr := closer(); cerr != nil && err == nil {
		x.log.Warn("the port to the models did not close, its grant ends all the same", "error", cerr)
	}
	return err
}

// exempt asks a sandbox which hosts its environment exempts from proxies. Where there is
// no shell to ask, none are.
func exempt(ctx context.Context, s providers.Sandbox, env map[string]string) string {
	var out strings.Builder
	status, err := s.Exec(ctx, providers.Command{Args: []string{"sh", "-c", agents.AskExempt}, SecretEnv: env, Stdout: &out})
	if err != nil || !status.OK() {
		return ""
	}
	return out.String()
}

func (x *run) want(ctx context.Context, p trials.Phase) Want {
	w := Want{Trial: x.t.Config.TrialName, Try: x.t.Number, Phase: p, Replaced: x.env.replaced[p]}
	if p == trials.PhaseAgentExecution && agents.Thinks(x.t.Config.Agent) {
		w.Agent = &x.t.Config.Agent
	}
	var ok bool
	if w.Until, ok = ctx.Deadline(); !ok {
		w.Until = time.Now().Add(noDeadline)
	}
	return w
}

// settle ends a grant and keeps what came of it.
func (x *run) settle(p trials.Phase, g *Grant) {
	metered, failure := g.End()
	if x.res.Harborgate.Metered == nil {
		x.res.Harborgate.Metered = map[trials.Phase]trials.Metered{}
	}
	x.res.Harborgate.Metered[p] = metered
	x.unreached = failure
	x.log.Info("models", "phase", p, "grant", metered.Grant, "requests", metered.Requests, "refused", metered.Refused)
}

// unasked is the failure of an agent's run, but when its program ended, or its time was
// over, before it had asked a model anything: then no agent was at work, only a program
// that the image or its settings broke, and there is nothing to grade.
func (x *run) unasked(f *trials.Failure) *trials.Failure {
	metered, granted := x.res.Harborgate.Metered[trials.PhaseAgentExecution]
	_, program := x.agent.(agents.Bundled)
	if f == nil || !granted || !program || metered.Requests > 0 || metered.Partial || f.Cause != trials.CauseExit && f.Cause != trials.CauseTimeout {
		return f
	}
	return trials.NewFailure(trials.PhaseAgentSetup, trials.CauseExit, "", fmt.Sprintf(
		"%s; it asked no model at all, so this is no verdict: look for what breaks it in the image (variables, libraries, permissions) and in the agent's options", f.Message))
}

// orModels is the failure of a phase, or that models were out of reach: then what
// else went wrong is no wonder, and what was done does not count.
func (x *run) orModels(f *trials.Failure) *trials.Failure {
	if x.unreached == nil {
		return f
	}
	if f != nil {
		switch f.Cause {
		case trials.CauseExit, trials.CauseTimeout, trials.CauseRewardMissing, trials.CauseRewardEmpty, trials.CauseRewardInvalid:
			x.note("agent_failure", f.Error())
		default:
			return f
		}
	}
	return x.unreached
}
