package stats

import (
	"math"
	"slices"
	"strconv"

	"harborgate/trials"
)

// AtK is pass@k or pass^k: the mean over the tasks that have k verdicts.
type AtK struct {
	K       int      `json:"k"`
	Value   *float64 `json:"value"` // null when no task has k verdicts
	Tasks   int      `json:"n_tasks"`
	LeftOut int      `json:"tasks_left_out"` // have fewer than k verdicts
}

// record is how a task went: attempts with a verdict, and successes.
type record struct{ attempts, successes int }

// atK averages an estimator over the records with k attempts, for each k.
func atK(records []record, ks []int, estimator func(n, c, k int) float64) []AtK {
	out := make([]AtK, 0, len(ks))
	for _, k := range ks {
		a, sum := AtK{K: k}, 0.0
		for _, r := range records {
			if r.attempts < k {
				a.LeftOut++
				continue
			}
			a.Tasks++
			sum += estimator(r.attempts, r.successes, k)
		}
		if a.Tasks > 0 {
			a.Value = finite(sum / float64(a.Tasks))
		}
		out = append(out, a)
	}
	return out
}

// shownKs are 1, Harbor's up to most, and the one that was asked for.
func shownKs(most, asked int) []int {
	ks := harborKs(most)
	if most >= 1 {
		ks = append(ks, 1)
	}
	if asked > 0 {
		ks = append(ks, asked)
	}
	slices.Sort(ks)
	return slices.Compact(ks)
}

// harborKs are 2, 4, 8 … and 5, 10, 15 … up to most.
func harborKs(most int) []int {
	var ks []int
	for k := 2; k <= most; k *= 2 {
		ks = append(ks, k)
	}
	for k := 5; k <= most; k += 5 {
		ks = append(ks, k)
	}
	slices.Sort(ks)
	return slices.Compact(ks)
}

// passAtK is the chance that at least one of k attempts succeeds, estimated
// without bias from n attempts with c successes.
func passAtK(n, c, k int) float64 { return 1 - passAllK(n, n-c, k) }

// passAllK is the chance that all of k attempts succeed, estimated likewise:
// C(c, k) / C(n, k).
func passAllK(n, c, k int) float64 {
	if c < k {
		return 0
	}
	all := 1.0
	for i := range k {
		all *= float64(c-i) / float64(n-i)
	}
	return all
}

// harborPassAtK is empty unless every verdict is one key that is 0 or 1.
func harborPassAtK(valid []*Trial) map[string]trials.Float {
	out := map[string]trials.Float{}
	at := map[string]int{}
	var records []record // in order, so that sums come out alike
	for _, t := range valid {
		if len(t.Rewards) != 1 || t.Rewards[0].Value.Value != 0 && t.Rewards[0].Value.Value != 1 {
			return out
		}
		i, seen := at[t.Task]
		if !seen {
			i = len(records)
			at[t.Task] = i
			records = append(records, record{})
		}
		records[i].attempts++
		records[i].successes += int(t.Rewards[0].Value.Value)
	}
	least := math.MaxInt
	for _, r := range records {
		least = min(least, r.attempts)
	}
	for _, a := range atK(records, harborKs(least), passAtK) {
		out[strconv.Itoa(a.K)] = trials.Float(*a.Value)
	}
	return out
}
