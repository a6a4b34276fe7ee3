package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"harborgate/authproxy"
	"harborgate/internal/mockllm"
	"harborgate/trials"
	"harborgate/trials/runner"
)

// An upstream that never answers is no work of the agent's, unless that did not wait.
func TestAnswersThatNeverCameAreNobodysZero(t *testing.T) {
	t.Parallel()
	m := &models{}
	last := func(status int, end authproxy.End) authproxy.Ending {
		return authproxy.Ending{Status: status, End: end, Model: "m1"}
	}
	silent := last(0, authproxy.ClientGone)
	silent.DurMS = 300_000
	forbidden := last(403, authproxy.Refused)
	forbidden.Refused, forbidden.Why = authproxy.Forbidden, "the grant does not allow this model"
	astray := last(404, authproxy.Refused)
	astray.Refused, astray.Why = authproxy.Unlisted, "this path is not served"
	for name, c := range map[string]struct {
		totals authproxy.Totals
		late   bool
		want   string // exception, and a part of the message
		said   string
	}{
		"never answered in time":   {authproxy.Totals{Requests: 1, Last: last(0, authproxy.ClientGone)}, true, trials.ExcModels, "before the phase ended"},
		"cut with its grant":       {authproxy.Totals{Requests: 1, Last: last(0, authproxy.Revoked)}, false, trials.ExcModels, "before the phase ended"},
		"hung up":                  {authproxy.Totals{Requests: 1, Last: last(0, authproxy.ClientGone)}, false, "", ""},
		"silent for minutes":       {authproxy.Totals{Requests: 2, Answered: 1, Last: silent}, false, trials.ExcModels, "silent for 5m0s"},
		"answered before":          {authproxy.Totals{Requests: 2, Answered: 1, Last: last(0, authproxy.ClientGone)}, true, "", ""},
		"the agent's own mistakes": {authproxy.Totals{Requests: 1, Last: last(400, authproxy.Refused)}, false, "", ""},
		"a body too large":         {authproxy.Totals{Requests: 1, Last: last(413, authproxy.Refused)}, false, "", ""},
		"no such model":            {authproxy.Totals{Requests: 2, Last: last(404, authproxy.Refused)}, false, trials.ExcModels, "m1 (404)"},
		"not for this account":     {authproxy.Totals{Requests: 2, Last: last(403, authproxy.Refused)}, false, trials.ExcModels, "m1 (403)"},
		"forbidden by the proxy":   {authproxy.Totals{Requests: 2, Last: forbidden}, false, trials.ExcModels, "m1: the grant does not allow"},
		"a path of nobody's":       {authproxy.Totals{Requests: 2, Last: astray}, false, trials.ExcModels, "this path is not served"},
		"forbidden, and went on":   {authproxy.Totals{Requests: 2, Answered: 1, Last: forbidden}, false, "", ""},
		"unknown, and went on":     {authproxy.Totals{Requests: 2, Answered: 1, Last: last(404, authproxy.Refused)}, false, "", ""},
		"an error under 200":       {authproxy.Totals{Requests: 2, Answered: 1, Last: last(200, authproxy.Failed)}, false, trials.ExcModels, "under the status of success"},
		"asked wrongly, under 200": {authproxy.Totals{Requests: 2, Answered: 1, Last: last(200, authproxy.Refused)}, false, "", ""},
		"no requests":              {authproxy.Totals{}, false, "", ""},
		"killed, and silent since": {authproxy.Totals{Requests: 3, Partial: true}, false, trials.ExcModels, "killed"},
		"killed, and went on":      {authproxy.Totals{Requests: 3, Partial: true, Answered: 1, Last: last(200, authproxy.Complete)}, false, "", ""},
	} {
		got, said := "", ""
		if f := m.failure(trials.PhaseAgentExecution, c.totals, c.late); f != nil {
			got, said = f.Exception, f.Message
		}
		if got != c.want || !strings.Contains(said, c.said) {
			t.Errorf("%s: %q %q, want %q", name, got, said, c.want)
		}
	}
}

// A trial whose every request was turned down for its model has no verdict.
func TestModelThatNobodyServesIsNoVerdict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line string
		step mockllm.Step
	}{
		"404 of the upstream":    {askLine, mockllm.Step{Status: 404}},
		"403 of the upstream":    {askLine, mockllm.Step{Status: 403}},
		"forbidden by the proxy": {strings.ReplaceAll(askLine, "claude-sonnet-4-5", "another"), mockllm.Step{}},
		"a path of nobody's":     {strings.ReplaceAll(askLine, "/v1/messages", "/v1/models/foo/bar:generateContent"), mockllm.Step{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newModelRig(t, strings.ReplaceAll(c.line, "|| exit 7", ""), "")
			r.mock.Always(func(mockllm.Request) mockllm.Step { return c.step })
			_, res, err := r.run()
			if err != nil || res.RewardValid || res.ExceptionInfo == nil || res.ExceptionInfo.Type != trials.ExcModels {
				t.Errorf("%v, %+v", err, res.ExceptionInfo)
			}
		})
	}
}

// gone is a proxy that mints, and is not there any more when it is asked what came of it.
type gone struct{ ownProxy }

func (gone) revoke(context.Context, string) (authproxy.Totals, error) {
	return authproxy.Totals{}, errors.New("no auth proxy runs there")
}

func TestWhatAServiceThatDiedHasCountedIsNotZero(t *testing.T) {
	t.Parallel()
	r := newModelRig(t, "", "")
	m := r.app.newModels(t.Context(), Settings{}, user{name: "job", id: "id", agents: r.cfg.Agents}, r.app.log)
	connect := m.connect
	m.connect = func() (proxy, error) {
		p, err := connect()
		if err != nil {
			return nil, err
		}
		return gone{p.(ownProxy)}, nil
	}
	t.Cleanup(func() { _ = m.close() })
	g, err := m.Grant(t.Context(), runner.Want{Trial: "t", Phase: trials.PhaseAgentExecution, Agent: &r.cfg.Agents[0], Until: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	metered, f := g.End()
	if u := metered.Usage(); f == nil || f.Exception != trials.ExcModels || !metered.Partial || u.CostUSD != nil || u.InputTokens != nil || u.OutputTokens != nil {
		t.Errorf("%+v, %+v", metered, f)
	}
}
