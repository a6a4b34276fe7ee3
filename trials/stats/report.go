package stats

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"harborgate/trials"
)

// Key names the trials that share a row: one arm on one data set, as configured.
// Results alone would not do: one whose agent could not even be made has no model,
// and its failure would be missing from its arm.
type Key struct {
	Agent    string `json:"agent"`
	Model    string `json:"model,omitempty"`    // with its provider; absent when there is none
	Settings string `json:"settings,omitempty"` // the agent's options, but for secrets
	Dataset  string `json:"dataset"`
}

// KeyOf is the row of trials of an agent on tasks of a source, which is nil for
// tasks that were named themselves.
func KeyOf(agent trials.AgentConfig, source *string) Key {
	k := Key{Agent: agent.AgentName(), Settings: settingsText(agent.Kwargs), Dataset: Adhoc}
	if agent.ModelName != nil {
		k.Model = *agent.ModelName
	}
	if source != nil && *source != "" {
		k.Dataset = *source
	}
	return k
}

// settingsText prints options in order: "effort=high retries=3".
func settingsText(kwargs map[string]any) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(kwargs)) {
		if trials.Sensitive(name) {
			continue
		}
		text, ok := kwargs[name].(string)
		if !ok {
			b, err := json.Marshal(kwargs[name])
			if err != nil {
				continue // nothing that JSON cannot hold comes out of a configuration
			}
			text = string(b)
		}
		out = append(out, name+"="+text)
	}
	return strings.Join(out, " ")
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Settings, b.Settings))
}

// Plan is what a job set out to run, and how its numbers are wanted. A job that
// has not ended is reported like one that has: what is planned and has no result
// is pending.
type Plan struct {
	Trials int // of the whole job
	// ByKey says how many belong to each row. Without it, trials that have no result
	// are unplaced, and rows have at least the trials that ended: that only one arm
	// has results yet does not make it the only one.
	ByKey map[Key]int
	// RewardKey is the main key. "" is "reward", or the only one.
	RewardKey string
	K         int           // a k of pass@k to show beside the usual ones; 0 is the number of attempts
	Wall      time.Duration // from the job's start to its end, or until now
}

// Report is the numbers of a job. Its JSON is stable: members may be added.
// What is not known is null, never 0; times are in seconds, costs in US dollars.
type Report struct {
	Counts
	// Unplaced are planned trials without result, of rows that are not known.
	Unplaced int      `json:"unplaced,omitempty"`
	WallSec  *float64 `json:"wall_sec"`
	Rows     []Row    `json:"rows"` // by data set, agent, model
}

// Row is the numbers of an arm on a data set.
type Row struct {
	Key
	Counts
	// AtLeast says that more trials may be planned for this row than it counts.
	AtLeast  bool `json:"at_least,omitempty"`
	Tasks    int  `json:"n_tasks"`    // that have a result
	Attempts int  `json:"n_attempts"` // of the task that has most results

	MainKey  *string   `json:"main_key"` // null when several keys are equals
	Rewards  []Column  `json:"rewards"`  // the main key first, then by name
	Failures []Failure `json:"failures"` // by blame, then by number

	Cost          Amount   `json:"cost_usd"`
	CostPerSolved *float64 `json:"cost_usd_per_solved_task"` // failed attempts included
	Unpriced      int64    `json:"n_unpriced,omitempty"`     // requests to models without a price
	InputTokens   Amount   `json:"input_tokens"`             // cached ones included
	CacheTokens   Amount   `json:"cache_tokens"`
	OutputTokens  Amount   `json:"output_tokens"`

	Duration Spread      `json:"duration_sec"` // of whole trials
	Phases   []PhaseTime `json:"phases"`
	Waiting  Waiting     `json:"waiting"`
}

// New computes the numbers of a job from the trials that ended, each once, with
// the result of its last try.
func New(all []Trial, plan Plan) Report {
	groups := map[Key][]*Trial{}
	for key := range plan.ByKey {
		groups[key] = nil
	}
	every := make([]*Trial, len(all))
	for i := range all {
		t := &all[i]
		every[i] = t
		groups[t.Row] = append(groups[t.Row], t)
	}
	r := Report{Counts: count(every, plan.Trials), Rows: []Row{}, Unplaced: max(plan.Trials-len(all), 0)}
	if plan.Wall > 0 {
		r.WallSec = new(plan.Wall.Seconds())
	}
	for key, group := range groups {
		r.Unplaced -= max(plan.ByKey[key]-len(group), 0)
	}
	r.Unplaced = max(r.Unplaced, 0)
	for _, key := range slices.SortedFunc(maps.Keys(groups), compareKeys) {
		r.Rows = append(r.Rows, newRow(key, groups[key], plan.ByKey[key], r.Unplaced > 0, plan))
	}
	return r
}

func newRow(key Key, group []*Trial, planned int, atLeast bool, plan Plan) Row {
	r := Row{
		Key: key, Counts: count(group, planned), AtLeast: atLeast, Rewards: []Column{}, Failures: failures(group),
		Cost:         amount(group, func(u trials.Usage) *float64 { return u.CostUSD }),
		InputTokens:  amount(group, func(u trials.Usage) *float64 { return float(u.InputTokens) }),
		CacheTokens:  amount(group, func(u trials.Usage) *float64 { return float(u.CacheTokens) }),
		OutputTokens: amount(group, func(u trials.Usage) *float64 { return float(u.OutputTokens) }),
		Duration:     spread(durations(group)), Phases: phaseTimes(group), Waiting: waiting(group),
	}
	for _, t := range group {
		r.Unpriced += t.Unpriced
	}
	byTask := tasksOf(group)
	r.Tasks = len(byTask)
	for _, ts := range byTask {
		r.Attempts = max(r.Attempts, len(ts))
	}
	asked := plan.K
	if asked == 0 {
		asked = r.Attempts
	}
	keys, hasMain := orderKeys(rewardKeys(group), plan.RewardKey)
	for _, k := range keys {
		c := newColumn(k, byTask, asked)
		if !atLeast {
			c.bound(r.Planned)
		}
		r.Rewards = append(r.Rewards, c)
	}
	if hasMain {
		r.MainKey = &keys[0]
		r.CostPerSolved = perSolved(r.Cost, r.Rewards[0].Solved)
	}
	return r
}

// Row computes the numbers of an arm over all its data sets. rewardKey is the main
// key, as in Plan.
func (s Side) Row(rewardKey string) Row {
	group := make([]*Trial, len(s.Trials))
	for i := range s.Trials {
		group[i] = &s.Trials[i]
	}
	return newRow(Key{}, group, len(s.Trials)+len(s.Pending), false, Plan{RewardKey: rewardKey})
}

// Main is the column that stands for the row, or nil.
func (r *Row) Main() *Column {
	if r.MainKey == nil {
		return nil
	}
	return &r.Rewards[0]
}

// Mean is the mean over tasks of the main reward, as a report has it, where that is too
// much: nil without a verdict, and of trials of several arms, which share none.
func Mean(all []Trial) *float64 {
	group := make([]*Trial, len(all))
	for i := range all {
		group[i] = &all[i]
		if all[i].Row != all[0].Row {
			return nil
		}
	}
	keys, hasMain := orderKeys(rewardKeys(group), "")
	if !hasMain {
		return nil
	}
	values, _ := verdicts(keys[0], tasksOf(group))
	return estimate(values, scale{}).Mean
}

// tasksOf splits trials by task, in the order in which tasks appear.
func tasksOf(group []*Trial) [][]*Trial {
	at := map[taskKey]int{}
	var out [][]*Trial
	for _, t := range group {
		k := taskKey{t.Row.Dataset, t.Task}
		i, seen := at[k]
		if !seen {
			i = len(out)
			at[k] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], t)
	}
	return out
}
