package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"harborgate/trials"
	"harborgate/trials/stats"
)

// page is the report of a job, for people.
func (j *reportedJob) page() page {
	blocks := page{j.jobBlock(), j.rewardBlock(), j.usageBlock(), j.timeBlock(), j.failureBlock(), j.slowBlock(), j.settingsBlock()}
	return slices.DeleteFunc(blocks, func(b block) bool { return len(b.facts)+len(b.rows) == 0 })
}

const minute = "2006-01-02 15:04"

func (j *reportedJob) jobBlock() block {
	b := block{heading: "Job " + j.Name}
	c, res := j.Report.Counts, j.Result
	b.add("Trials", c.Words()...)
	if c.Suspect > 0 {
		b.add("Suspect", fmt.Sprintf("%d of %d graded", c.Suspect, c.Graded))
	}
	b.add("Retries", fmt.Sprintf("%d, in %s", c.Retries, plural(c.Retried, "trial")))
	if res.StartedAt != nil {
		b.add("Started", res.StartedAt.UTC().Format(minute+" MST"))
	}
	b.add("Wall time", stats.SecondsText(j.Report.WallSec))
	x := res.Harborgate
	switch {
	case x != nil && x.Interrupted != "":
		b.add("Stopped", strings.TrimSpace(x.Interrupted))
	case res.FinishedAt == nil:
		b.add("Not ended", fmt.Sprintf("%d of %d trials have no result yet", c.Pending, c.Planned))
	}
	if x != nil && len(x.InvalidTasks) > 0 {
		b.add("Left out, invalid", listed(x.InvalidTasks)...)
	}
	if x != nil && len(x.Notes) > 0 {
		b.add("Notes", listed(noteTexts(x.Notes))...)
	}
	return b
}

// listed is the first of some names.
func listed(names []string) []string {
	if more := len(names) - mostListed; more > 0 {
		return append(slices.Clone(names[:mostListed]), fmt.Sprintf("and %d more", more))
	}
	return names
}

// rewardBlock has a line for each reward key of each row.
func (j *reportedJob) rewardBlock() block {
	b := block{heading: "Rewards", head: []string{"Data set", "Arm", "Reward", "Mean", "95 % interval", "n", "Coverage", "Bounds", "Suspect", "pass@k", "pass^k"}}
	for i := range j.Report.Rows {
		r := &j.Report.Rows[i]
		if len(r.Rewards) == 0 {
			b.rows = append(b.rows, rewardCells(r, &stats.Column{}))
		}
		for k := range r.Rewards {
			b.rows = append(b.rows, rewardCells(r, &r.Rewards[k]))
		}
	}
	if b.says("±") {
		b.note("± is the standard error over tasks.")
	}
	if j.fractional() {
		b.note("pass@k and pass^k are of rewards that are all 0 or 1, and are – for others.")
	}
	b.note("Bounds are the mean if every missing verdict were 0, and if every one were 1. A missing verdict is never counted as 0.")
	return b
}

// fractional reports whether a key has no pass@k because of its values.
func (j *reportedJob) fractional() bool {
	return slices.ContainsFunc(j.Report.Rows, func(r stats.Row) bool {
		return slices.ContainsFunc(r.Rewards, func(c stats.Column) bool { return c.N > 0 && len(c.PassAtK) == 0 })
	})
}

func rewardCells(r *stats.Row, c *stats.Column) []string {
	cells := []string{
		r.Dataset, r.Arm(), cmp.Or(c.Key, stats.Unknown), c.Text(), c.Interval.Text(),
		fmt.Sprintf("%s, %s", plural(c.N, "verdict"), plural(c.Tasks, "task")), strings.Join(append(r.Words(), lackingTexts(r, c)...), ", "),
		stats.Unknown, suspectText(r, c), stats.Unknown, stats.Unknown,
	}
	if c.Interval != nil {
		cells[4] += " (" + methods[c.Interval.Method] + ")"
	}
	if c.Bounds != nil {
		cells[7] = fmt.Sprintf("%.3f to %.3f", c.Bounds.Low, c.Bounds.High)
	}
	if at := atKTexts("", c.PassAtK); len(at) > 0 {
		cells[9], cells[10] = strings.Join(at, "; "), strings.Join(atKTexts("", c.PassAllK), "; ")
	}
	return cells
}

func suspectText(r *stats.Row, c *stats.Column) string {
	text := fmt.Sprint(r.Suspect)
	for _, code := range slices.Sorted(maps.Keys(r.Doubts)) {
		text += fmt.Sprintf("; %d %s", r.Doubts[code], code)
	}
	if e := c.WithoutSuspect; e != nil {
		text += fmt.Sprintf("; without them %s (n = %s)", e.Text(), plural(e.Tasks, "task"))
	}
	return text
}

func (j *reportedJob) usageBlock() block {
	b := block{heading: "Cost and tokens", head: []string{"Data set", "Arm", "Cost", "Cost per solved task", "Cost per trial", "Input tokens", "Of them cached", "Output tokens"}}
	known := false
	for i := range j.Report.Rows {
		r := &j.Report.Rows[i]
		known = known || r.Cost.N+r.InputTokens.N+r.OutputTokens.N > 0
		perTrial := stats.Unknown
		if r.Cost.N > 0 {
			perTrial = spreadText(r.Cost.Spread, stats.MoneyText)
		}
		b.rows = append(b.rows, []string{
			r.Dataset, r.Arm(), amountText(r.Cost, stats.MoneyText), solvedCostText(r), perTrial,
			amountText(r.InputTokens, stats.CountText), amountText(r.CacheTokens, stats.CountText), amountText(r.OutputTokens, stats.CountText),
		})
	}
	if !known {
		b.rows = nil
	}
	b.note("≥ says that some trials do not know what they used. Failed attempts count.")
	return b
}

func amountText(a stats.Amount, printed func(*float64) string) string {
	if a.N == 0 {
		return stats.Unknown
	}
	return fmt.Sprintf("%s (n = %d)", a.Text(printed), a.N)
}

func solvedCostText(r *stats.Row) string {
	m := r.Main()
	if r.CostPerSolved == nil || m == nil {
		return stats.Unknown
	}
	text := fmt.Sprintf("%s (n = %d)", stats.MoneyText(r.CostPerSolved), m.Solved.Tasks)
	if r.Cost.AtLeast {
		return "≥ " + text
	}
	return text
}

func (j *reportedJob) timeBlock() block {
	b := block{heading: "Time", head: []string{"Data set", "Arm", "Part", "Median", "90 %", "n"}}
	for i := range j.Report.Rows {
		r := &j.Report.Rows[i]
		add := func(part string, s stats.Spread) {
			if s.N > 0 {
				b.rows = append(b.rows, []string{r.Dataset, r.Arm(), part, stats.SecondsText(s.Median), stats.SecondsText(s.P90), fmt.Sprint(s.N)})
			}
		}
		add("trial", r.Duration)
		for _, t := range r.Phases {
			add(cmp.Or(phaseLabels[t.Phase], string(t.Phase)), t.Spread)
		}
		if w := r.Waiting; w.Share != nil {
			b.note("%s waited for %.0f %% of its time: %s for slots and limits, %s for images, summed over %s.",
				r.Title(), *w.Share*100, stats.SecondsText(&w.SlotSec), stats.SecondsText(&w.ImageSec), plural(w.N, "trial"))
		}
	}
	return b
}

func (j *reportedJob) failureBlock() block {
	b := block{heading: "Failures", head: []string{"Blame", "Exception", "Data set", "Arm", "Trials", "Graded all the same", "First reason", "Examples"}}
	for _, r := range j.Report.Rows {
		for _, f := range r.Failures {
			b.rows = append(b.rows, []string{
				blameText(f), cmp.Or(f.Exception, "no exception"), r.Dataset, r.Arm(), fmt.Sprint(f.N), fmt.Sprint(f.Graded), cmp.Or(f.Reason, stats.Unknown), firstOf(f.Trials),
			})
		}
	}
	return b
}

// slowTrial is one of the trials that took longest.
type slowTrial struct {
	Trial     string                   `json:"trial"`
	Arm       string                   `json:"arm"`
	Seconds   float64                  `json:"duration_sec"`
	Phases    map[trials.Phase]float64 `json:"phases_sec"`
	Exception string                   `json:"exception,omitempty"`
}

// mostSlow is how many of them are named.
const mostSlow = 5

func slowest(all []stats.Trial) []slowTrial {
	ordered := slices.SortedFunc(slices.Values(all), func(a, b stats.Trial) int {
		return cmp.Or(cmp.Compare(b.Duration, a.Duration), cmp.Compare(a.Name, b.Name))
	})
	out := []slowTrial{}
	for _, t := range ordered[:min(mostSlow, len(ordered))] {
		s := slowTrial{Trial: t.Name, Arm: t.Row.Arm(), Seconds: t.Duration.Seconds(), Phases: map[trials.Phase]float64{}, Exception: t.Exception}
		for _, p := range trials.Phases() {
			if d, ok := t.Phases.Of(p); ok {
				s.Phases[p] = d.Seconds()
			}
		}
		out = append(out, s)
	}
	return out
}

func (j *reportedJob) slowBlock() block {
	b := block{heading: "Slowest trials", head: []string{"Trial", "Arm", "Time", "Phases", "Exception"}}
	for _, s := range j.Slowest {
		var phases []string
		for _, p := range trials.Phases() {
			if sec, ok := s.Phases[p]; ok {
				phases = append(phases, cmp.Or(phaseLabels[p], string(p))+" "+stats.SecondsText(&sec))
			}
		}
		b.rows = append(b.rows, []string{s.Trial, s.Arm, stats.TimeText(time.Duration(s.Seconds * float64(time.Second))), strings.Join(phases, ", "), s.Exception})
	}
	return b
}

func (j *reportedJob) settingsBlock() block {
	b := block{heading: "Settings and versions"}
	if j.Harbor != "" {
		b.add("Program", "harbor "+j.Harbor)
	}
	if x := j.Result.Harborgate; x != nil && x.Provider != "" {
		b.add("Provider", x.Provider)
	}
	if c := j.Config; c != nil {
		j.configFacts(&b, c)
	}
	return b
}

func (j *reportedJob) configFacts(b *block, c *trials.JobConfig) {
	for _, a := range c.Agents {
		versions := "version not known"
		if v := j.Versions[a.AgentName()]; len(v) > 0 {
			versions = "version " + strings.Join(v, ", ")
		}
		b.add("Arm", stats.KeyOf(a, nil).Arm(), versions)
	}
	for _, d := range c.Datasets {
		b.add("Data set", datasetText(d))
	}
	if n := len(c.Tasks); n > 0 {
		b.add("Tasks named themselves", fmt.Sprint(n))
	}
	b.add("Attempts", fmt.Sprint(c.NAttempts))
	b.add("Trials at once", fmt.Sprint(c.NConcurrentTrials))
	b.add("Retries", fmt.Sprintf("at most %d", c.Retry.MaxRetries))
	b.add("Time factors", multiplierFacts(c.Multipliers)...)
	b.add("Resources", resourceFacts(c.Environment)...)
	if c.Verifier.Disable {
		b.add("Verification", "off")
	}
}

func datasetText(d trials.DatasetConfig) string {
	for _, s := range []*string{d.Path, d.Name, d.Repo} {
		if s != nil {
			return *s
		}
	}
	return stats.Unknown
}

func multiplierFacts(m trials.Multipliers) []string {
	out := []string{fmt.Sprintf("all × %g", float64(m.Timeout))}
	for _, f := range []struct {
		name  string
		value *trials.Float
	}{{"agent", m.AgentTimeout}, {"verifier", m.VerifierTimeout}, {"agent setup", m.AgentSetup}, {"environment", m.EnvironmentBuild}} {
		if f.value != nil {
			out = append(out, fmt.Sprintf("%s × %g", f.name, float64(*f.value)))
		}
	}
	return out
}

func resourceFacts(e trials.EnvironmentConfig) []string {
	var out []string
	if e.OverrideCPUs != nil {
		out = append(out, fmt.Sprintf("%g CPUs", float64(*e.OverrideCPUs)))
	}
	for _, f := range []struct {
		what string
		mib  *int64
	}{{"memory", e.OverrideMemoryMiB}, {"disk", e.OverrideStorageMiB}} {
		if f.mib != nil {
			out = append(out, fmt.Sprintf("%d MiB of %s", *f.mib, f.what))
		}
	}
	if len(out) == 0 {
		return []string{"as each task asks for"}
	}
	return out
}
