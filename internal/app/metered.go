package app

import (
	"maps"
	"slices"
	"time"

	"harborgate/authproxy"
	"harborgate/trials"
)

// metered puts the proxy's totals into the words of results.
func metered(id string, t authproxy.Totals) trials.Metered {
	out := trials.Metered{
		Grant: id, Partial: t.Partial, Requests: t.Requests, Refused: t.Refused, Failed: t.Failed, Tokens: tokens(t.Usage),
		CostUSD: dollars(t.Cost, t.Unpriced), Unpriced: t.Unpriced, Guessed: t.Guessed, WaitSec: t.Waited.Round(time.Millisecond).Seconds(),
	}
	for _, name := range slices.Sorted(maps.Keys(t.Models)) {
		part := t.Models[name]
		out.Models = append(out.Models, trials.MeteredPart{
			Model: name, Requests: part.Requests, Tokens: tokens(part.Usage), CostUSD: dollars(part.Cost, part.Unpriced),
		})
	}
	return out
}

func tokens(u authproxy.Usage) trials.Tokens {
	return trials.Tokens{Input: u.Input, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite + u.CacheWriteLong, Output: u.Output, Reasoning: u.Reasoning}
}

// dollars is nil when part of it is not known.
func dollars(n USD, unpriced int64) *float64 {
	if unpriced > 0 {
		return nil
	}
	v := n.Dollars()
	return &v
}
