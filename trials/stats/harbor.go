package stats

import (
	"maps"
	"math"
	"slices"

	"harborgate/trials"
)

// Harbor computes the stats block of a job's result.json: Harbor's numbers by
// Harbor's rules. metrics are the job's; none is the mean. Running, pending and
// retries are the caller's to fill in.
func Harbor(all []Trial, metrics []trials.MetricConfig) trials.JobStats {
	s := trials.JobStats{Completed: len(all), Evals: map[string]*trials.EvalStats{}}
	groups := map[string][]*Trial{}
	for i := range all {
		t := &all[i]
		groups[t.Eval()] = append(groups[t.Eval()], t)
		if t.Exception != "" {
			s.Errored++
		}
		if t.Cancelled {
			s.Cancelled++
		}
		addUsage(&s.Usage, t.Usage)
	}
	for key, group := range groups {
		s.Evals[key] = eval(group, metrics)
	}
	return s
}

func addUsage(sum *trials.Usage, u trials.Usage) {
	sum.InputTokens = plus(sum.InputTokens, u.InputTokens)
	sum.CacheTokens = plus(sum.CacheTokens, u.CacheTokens)
	sum.OutputTokens = plus(sum.OutputTokens, u.OutputTokens)
	sum.CostUSD = plus(sum.CostUSD, u.CostUSD)
	if sum.CostUSD != nil {
		sum.CostUSD = new(nanos(*sum.CostUSD))
	}
}

// nanos is a sum of dollars without what floating point adds: there are no smaller
// amounts than billionths.
func nanos(usd float64) float64 { return math.Round(usd*1e9) / 1e9 }

// plus treats null as nothing known, and null + null as null.
func plus[T int64 | float64](a, b *T) *T {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	sum := *a + *b
	return &sum
}

func eval(group []*Trial, metrics []trials.MetricConfig) *trials.EvalStats {
	e := &trials.EvalStats{
		PassAtK: map[string]trials.Float{}, RewardStats: map[string]map[string][]string{}, ExceptionStats: map[string][]string{},
	}
	var valid []*Trial
	printed := map[string]map[float64]string{} // equal values share the first one's print
	for _, t := range group {
		if t.Exception != "" {
			e.NErrors++
			e.ExceptionStats[t.Exception] = append(e.ExceptionStats[t.Exception], t.Name)
		}
		if !t.Valid {
			continue
		}
		valid = append(valid, t)
		for _, r := range t.Rewards {
			if printed[r.Key] == nil {
				printed[r.Key] = map[float64]string{}
				e.RewardStats[r.Key] = map[string][]string{}
			}
			p, ok := printed[r.Key][r.Value.Value]
			if !ok {
				p = r.Value.String()
				printed[r.Key][r.Value.Value] = p
			}
			e.RewardStats[r.Key][p] = append(e.RewardStats[r.Key][p], t.Name)
		}
	}
	e.NTrials = len(valid)
	if len(valid) > 0 {
		e.Metrics = metricValues(valid, metrics)
		e.PassAtK = harborPassAtK(valid)
	}
	return e
}

// Metrics lists the built-in metrics.
func Metrics() []string { return slices.Sorted(maps.Keys(aggregates)) }

// IsMetric reports whether a metric of this type can be computed.
func IsMetric(typ string) bool {
	_, ok := aggregates[typ]
	return ok
}

// aggregates are Harbor's built-in metrics.
var aggregates = map[string]func([]float64) float64{
	"sum":  total,
	"mean": meanOf,
	"min":  slices.Min[[]float64],
	"max":  slices.Max[[]float64],
}

// metricValues has an object per metric: under the metric's name when there is
// one reward key at most, else under each key. A key that a trial lacks is 0.
func metricValues(valid []*Trial, metrics []trials.MetricConfig) []map[string]trials.Float {
	if len(metrics) == 0 {
		metrics = []trials.MetricConfig{{Type: "mean"}}
	}
	keys := rewardKeys(valid)
	var out []map[string]trials.Float
	for _, m := range metrics {
		f, ok := aggregates[m.Type]
		if !ok {
			continue
		}
		values := map[string]trials.Float{}
		for _, k := range keys {
			name := k
			if len(keys) == 1 {
				name = m.Type
			}
			values[name] = trials.Float(f(column(valid, k)))
		}
		out = append(out, values)
	}
	return out
}

// rewardKeys are all keys of verdicts that count, sorted.
func rewardKeys(ts []*Trial) []string {
	keys := map[string]bool{}
	for _, t := range ts {
		if !t.Valid {
			continue
		}
		for _, r := range t.Rewards {
			keys[r.Key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

func column(ts []*Trial, key string) []float64 {
	out := make([]float64, len(ts))
	for i, t := range ts {
		n, _ := t.Rewards.Get(key)
		out[i] = n.Value
	}
	return out
}
