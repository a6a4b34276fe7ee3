package main

import (
	"fmt"
	"strings"

	"harborgate/trials"
	"harborgate/trials/stats"
)

// meteredLines say what each phase used of models as the auth proxy counted it,
// and what the agent claims, where it claims anything.
func meteredLines(r *trials.Result) []string {
	var out []string
	if r.Harborgate == nil {
		return out
	}
	for _, p := range trials.Phases() {
		if m, ok := r.Harborgate.Metered[p]; ok {
			out = append(out, phaseLines(p, m)...)
		}
	}
	if a := r.AgentResult; a != nil && (a.InputTokens != nil || a.OutputTokens != nil || a.CostUSD != nil) {
		out = append(out, "claimed by the agent\t"+usageText(a.Usage))
	}
	return out
}

// phaseLines are those of one phase, none when it asked for nothing.
func phaseLines(p trials.Phase, m trials.Metered) []string {
	switch {
	case m.Requests == 0 && m.Partial:
		return []string{fmt.Sprintf("counted by the proxy, %s\tnot known: the auth proxy could not be asked any more", p)}
	case m.Requests == 0:
		return nil
	}
	parts := []string{plural(int(m.Requests), "request")}
	for _, n := range []struct {
		count int64
		what  string
	}{{m.Refused, "refused here"}, {m.Failed, "failed there"}} {
		if n.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n.count, n.what))
		}
	}
	parts = append(parts, usageText(m.Usage()))
	if m.Partial {
		parts = append(parts, "and more, which a kill of the proxy took along")
	}
	if m.WaitSec > 0 {
		parts = append(parts, fmt.Sprintf("waited %.1fs", m.WaitSec))
	}
	out := []string{fmt.Sprintf("counted by the proxy, %s\t%s", p, strings.Join(parts, " · "))}
	for _, part := range m.Models {
		one := trials.Metered{Tokens: part.Tokens, CostUSD: part.CostUSD}
		out = append(out, fmt.Sprintf("  %s\t%s · %s", oneLine(part.Model), plural(int(part.Requests), "request"), usageText(one.Usage())))
	}
	return out
}

func usageText(u trials.Usage) string {
	count := func(n *int64) string {
		if n == nil {
			return stats.Unknown
		}
		return stats.CountText(new(float64(*n)))
	}
	return fmt.Sprintf("%s in (%s cached) · %s out · %s", count(u.InputTokens), count(u.CacheTokens), count(u.OutputTokens), stats.MoneyText(u.CostUSD))
}
