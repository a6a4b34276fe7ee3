package stats

import (
	"math"
	"slices"
	"strconv"

	"harborgate/trials"
)

// Harbor computes the stats block of a job's result.json: Harbor's numbers by
// Harbor's rules. metrics are the job's; none is the mean. Running, pending and
// retries are the caller's to fill in.
func Harbor(all []Trial, metrics []trials.MetricConfig) trials.JobStats {
	s := trials.JobStats{Completed: len(all), Evals: map[string]*trials.EvalStats{}}
	groups := map[string][]Trial{}
	for _, t := range all {
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
}

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

func eval(group []Trial, metrics []trials.MetricConfig) *trials.EvalStats {
	e := &trials.EvalStats{
		PassAtK: map[string]trials.Float{}, RewardStats: map[string]map[string][]string{}, ExceptionStats: map[string][]string{},
	}
	var valid []Trial
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

// aggregates are Harbor's built-in metrics.
var aggregates = map[string]func([]float64) float64{
	"sum":  total,
	"mean": func(xs []float64) float64 { return total(xs) / float64(len(xs)) },
	"min":  slices.Min[[]float64],
	"max":  slices.Max[[]float64],
}

func total(xs []float64) (sum float64) {
	for _, x := range xs {
		sum += x
	}
	return sum
}

// metricValues has an object per metric: under the metric's name when there is
// one reward key at most, else under each key. A key that a trial lacks is 0.
func metricValues(valid []Trial, metrics []trials.MetricConfig) []map[string]trials.Float {
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

func rewardKeys(ts []Trial) []string {
	var keys []string
	for _, t := range ts {
		for _, r := range t.Rewards {
			if !slices.Contains(keys, r.Key) {
				keys = append(keys, r.Key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

func column(ts []Trial, key string) []float64 {
	out := make([]float64, len(ts))
	for i, t := range ts {
		n, _ := t.Rewards.Get(key)
		out[i] = n.Value
	}
	return out
}

// harborPassAtK is empty unless every verdict is one key that is 0 or 1.
func harborPassAtK(valid []Trial) map[string]trials.Float {
	out := map[string]trials.Float{}
	attempts, successes := map[string]int{}, map[string]int{}
	for _, t := range valid {
		if len(t.Rewards) != 1 || t.Rewards[0].Value.Value != 0 && t.Rewards[0].Value.Value != 1 {
			return out
		}
		attempts[t.Task]++
		successes[t.Task] += int(t.Rewards[0].Value.Value)
	}
	least := math.MaxInt
	for _, n := range attempts {
		least = min(least, n)
	}
	for _, k := range harborKs(least) {
		sum := 0.0
		for task, n := range attempts {
			sum += passAtK(n, successes[task], k)
		}
		out[strconv.Itoa(k)] = trials.Float(sum / float64(len(attempts)))
	}
	return out
}

// harborKs are 2, 4, 8 … and 5, 10, 15 … up to most.
func harborKs(most int) []int {
	var ks []int
	for k := 2; k <= most; k *= 2 {
		ks = append(ks, k)
	}
	for k := 5; k <= most; k += 5 {
		if !slices.Contains(ks, k) {
			ks = append(ks, k)
		}
	}
	slices.Sort(ks)
	return ks
}

// passAtK is the chance that at least one of k attempts succeeds, estimated
// without bias from n attempts with c successes.
func passAtK(n, c, k int) float64 {
	if n-c < k {
		return 1
	}
	fail := 1.0
	for i := range k {
		fail *= float64(n-c-i) / float64(n-i)
	}
	return 1 - fail
}
