package agents

import (
	"strconv"

	"harborgate/agents/atif"
	"harborgate/trials"
)

// What an agent claims to have used is text that whatever runs in its sandbox may have
// written. What no run can come to is no claim, and no sum of claims overflows.
const (
	mostTokens  = 1e10 // of one claim
	mostDollars = 1e6
	mostClaims  = 1e5 // that make a sum which is believed
)

// count is a number of tokens; what none can be is 0.
type count int64

// UnmarshalJSON implements json.Unmarshaler.
func (c *count) UnmarshalJSON(b []byte) error {
	*c = count(amount(b, mostTokens))
	return nil
}

// dollars are what something cost; what that cannot be is 0.
type dollars float64

// UnmarshalJSON implements json.Unmarshaler.
func (d *dollars) UnmarshalJSON(b []byte) error {
	*d = dollars(amount(b, mostDollars))
	return nil
}

// known is nil for nothing: agents call free what they have no price for.
func (d dollars) known() *float64 {
	if d == 0 {
		return nil
	}
	n := float64(d)
	return &n
}

func amount(text []byte, most float64) float64 {
	n, err := strconv.ParseFloat(string(text), 64)
	if err != nil || n < 0 || n > most {
		return 0
	}
	return n
}

// used is what an agent claims, in the classes of results: in is with read, what came
// from a cache.
type used struct {
	in, read, out count
	cost          dollars
}

func (u *used) add(more used) {
	u.in, u.read, u.out, u.cost = u.in+more.in, u.read+more.read, u.out+more.out, u.cost+more.cost
}

// result is the claim of a run, without what it cannot be.
func (u used) result() trials.AgentResult {
	var r trials.AgentResult
	r.CostUSD = u.cost.known()
	for _, c := range []struct {
		n  count
		to **int64
	}{{u.in, &r.InputTokens}, {u.read, &r.CacheTokens}, {u.out, &r.OutputTokens}} {
		if c.n >= 0 && c.n <= mostTokens*mostClaims {
			n := int64(c.n)
			*c.to = &n
		}
	}
	if u.read > u.in {
		r.CacheTokens = nil
	}
	return r
}

// metrics are the claim of a step.
func (u used) metrics() *atif.Metrics {
	r := u.result()
	return &atif.Metrics{Prompt: r.InputTokens, Cached: r.CacheTokens, Completion: r.OutputTokens, CostUSD: r.CostUSD}
}
