package runner

import (
	"context"
	"time"

	"harborgate/agents"
	"harborgate/providers"
	"harborgate/trials"
)

// withModels has f work while the phase has its way to models, if it needs one: a
// grant of its own, behind a port of this sandbox alone. When it returns, the
// grant is worth nothing any more.
func (x *run) withModels(ctx context.Context, p trials.Phase, s providers.Sandbox, f func(*agents.Access) error) error {
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
	x.t.Sink.Hide(access.Token)
	err = f(&access)
	if cerr := closer(); cerr != nil && err == nil {
		x.log.Warn("the port to the models did not close, its grant ends all the same", "error", cerr)
	}
	return err
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
