package main

import (
	"slices"
	"testing"

	"harborgate/trials"
)

func TestTrialShowHasWhatWasMeteredBesideTheClaim(t *testing.T) {
	t.Parallel()
	cost, claimed := 0.0125, int64(7)
	r := &trials.Result{
		AgentResult: &trials.AgentResult{Usage: trials.Usage{OutputTokens: &claimed}},
		Harborgate: &trials.Extra{Metered: map[trials.Phase]trials.Metered{
			trials.PhaseAgentSetup: {}, trials.PhaseVerifier: {Partial: true},
			trials.PhaseAgentExecution: {
				Requests: 3, Refused: 1, WaitSec: 2.04, Tokens: trials.Tokens{Input: 700, CacheRead: 300, CacheWrite: 500, Output: 42}, CostUSD: &cost,
				Models: []trials.MeteredPart{{Model: "m\x1b[1m", Requests: 2, Tokens: trials.Tokens{Output: 42}}},
			},
		}},
	}
	want := []string{
		"counted by the proxy, agent_execution\t3 requests · 1 refused here · 1.50k in (300 cached) · 42 out · $0.013 · waited 2.0s",
		"  m\\x1b[1m\t2 requests · 0 in (0 cached) · 42 out · –",
		"counted by the proxy, verifier\tnot known: the auth proxy could not be asked any more",
		"claimed by the agent\t– in (– cached) · 7 out · –",
	}
	if got := meteredLines(r); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
