package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"harborgate/trials"
	"harborgate/trials/stats"
)

// compareOptions are what `harbor compare` works with.
type compareOptions struct {
	*env
	armQuery
	how      stats.Comparing
	markdown bool
	output   string
}

// defaultSeed is fixed, so that a comparison that is made again is the same.
const defaultSeed = 1

func newCompareCommand(e *env) *cobra.Command {
	o := &compareOptions{env: e}
	c := jsonFlag(e, &cobra.Command{
		Use:   "compare JOB[:ARM]…",
		Short: "Compare arms, task by task: difference, interval, test",
		Long: `Compare arms, task by task: difference, interval, test.

JOB is a job's directory or name and stands for all its arms, JOB:ARM for those
whose name contains ARM. Tasks that have a verdict in both arms are compared;
the others are listed first, with whose fault it is.`,
		Example: `  harbor compare monday tuesday                  two jobs with one arm each
  harbor compare monday --baseline nop           the arms of a job against one of them
  harbor compare monday:gpt tuesday:claude       one arm of each job`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args) },
	})
	s := c.Flags()
	s.StringVar(&o.how.Baseline, "baseline", "", "arm that the others are compared with, instead of all pairs")
	s.BoolVar(&o.how.ExcludeSuspect, "exclude-suspect", false, "leave suspect verdicts out")
	s.StringVar(&o.how.RewardKey, "reward", "", "reward key to compare (default: reward, or the only one)")
	s.Uint64Var(&o.how.Seed, "seed", defaultSeed, "seed of random permutations")
	s.StringArrayVar(&o.tasks, "task", nil, "glob of task names to take (repeatable)")
	s.BoolVar(&o.markdown, "markdown", false, "print Markdown")
	addOutputFlag(s, &o.output)
	addJobsDirFlag(s, &o.jobsDir)
	return c
}

// comparedArm is an arm in --json.
type comparedArm struct {
	Name string    `json:"name"`
	Job  string    `json:"job"`
	Arm  string    `json:"arm"`
	Row  stats.Row `json:"numbers"`
	// Reused is how many of its trials are those of earlier jobs.
	Reused int `json:"reused,omitempty"`
}

// compared is what --json prints.
type compared struct {
	Baseline       string             `json:"baseline,omitempty"`
	RewardKey      string             `json:"reward_key,omitempty"`
	ExcludeSuspect bool               `json:"exclude_suspect"`
	Comparisons    []stats.Comparison `json:"comparisons"`
	Arms           []comparedArm      `json:"arms"`
}

func (o *compareOptions) run(args []string) error {
	arms, err := o.find(o.env, args)
	if err != nil {
		return err
	}
	if len(arms) < 2 {
		return nothingRan("%s is one arm only: name another job, or a job with several arms", arms[0].side.Name)
	}
	if o.how.Baseline, err = baseline(arms, o.how.Baseline); err != nil {
		return err
	}
	sides := make([]stats.Side, len(arms))
	for i, a := range arms {
		sides[i] = a.side
	}
	cs, err := stats.Compare(sides, o.how)
	if err != nil {
		return codedError{exitNothing, err}
	}
	rows := make([]stats.Row, len(arms))
	for i, a := range arms {
		rows[i] = a.side.Row(o.how.RewardKey)
	}
	if err := checkReward(o.how.RewardKey, rows); err != nil {
		return err
	}
	out := compared{Baseline: o.how.Baseline, RewardKey: o.how.RewardKey, ExcludeSuspect: o.how.ExcludeSuspect, Comparisons: cs}
	for i, a := range arms {
		out.Arms = append(out.Arms, comparedArm{a.side.Name, a.job, a.name, rows[i], a.reused})
	}
	if err := o.printed(o.output, func(to *env) error { return o.print(to, out) }); err != nil {
		return err
	}
	if !slices.ContainsFunc(cs, func(c stats.Comparison) bool { return c.Pairs > 0 }) {
		return codedError{exitUngraded, fmt.Errorf("no task has a verdict in both arms: nothing could be compared%s", o.hint(out.Arms))}
	}
	return nil
}

// hint is for verdicts of several values, none of which is the main one.
func (o *compareOptions) hint(arms []comparedArm) string {
	for _, a := range arms {
		if a.Row.MainKey == nil && len(a.Row.Rewards) > 1 && o.how.RewardKey == "" {
			return ", choose a value with --reward, for example " + a.Row.Rewards[0].Key
		}
	}
	return ""
}

// baseline is the name of the arm that was meant.
func baseline(arms []arm, wanted string) (string, error) {
	if wanted == "" {
		return "", nil
	}
	var names, like []string
	for _, a := range arms {
		if a.side.Name == wanted {
			return wanted, nil
		}
		names = append(names, a.side.Name)
		if strings.Contains(a.side.Name, wanted) {
			like = append(like, a.side.Name)
		}
	}
	if len(like) != 1 {
		return "", nothingRan("--baseline %s names %d arms: write one of %s", wanted, len(like), strings.Join(names, ", "))
	}
	return like[0], nil
}

func (o *compareOptions) print(to *env, c compared) error {
	switch {
	case o.json:
		return printJSON(to, c)
	case o.markdown:
		c.page().writeMarkdown(to.out, 2)
	default:
		c.page().writeText(to.out)
	}
	return nil
}

// page is one block for each comparison, then the arms.
func (c compared) page() page {
	var p page
	for i := range c.Comparisons {
		p = append(p, comparisonBlock(&c.Comparisons[i], len(c.Comparisons)))
	}
	arms := block{heading: "Arms"}
	for i := range c.Arms {
		a := &c.Arms[i]
		parts := armFacts(&a.Row)
		if a.Name != a.Arm {
			parts = append([]string{a.Arm}, parts...)
		}
		if a.Reused > 0 {
			parts = append(parts, plural(a.Reused, "verdict")+" reused from earlier jobs")
		}
		arms.add(a.Name, parts...)
	}
	if c.ExcludeSuspect {
		arms.note("Suspect verdicts are left out of the comparison, and are in the means of this block.")
	}
	if arms.says("±") {
		arms.note("± is the standard error over tasks.")
	}
	return append(p, arms)
}

func comparisonBlock(c *stats.Comparison, of int) block {
	b := block{heading: c.B + " minus " + c.A, head: []string{"TASK", c.A, c.B, "DIFFERENCE", "ATTEMPTS", ""}}
	b.add("fell out", fellOutFacts(c)...)
	for i, x := range c.FellOut {
		if i == mostListed {
			b.add("", fmt.Sprintf("and %d more, see --json", len(c.FellOut)-i))
			break
		}
		b.add("", fellOutText(c, x))
	}
	label := "unlike"
	for _, u := range c.Unlike {
		b.add(label, u.Text()+": "+firstOf(u.Tasks))
		label = ""
	}
	differenceFacts(&b, c, of)
	b.tasks(c)
	return b
}

func fellOutFacts(c *stats.Comparison) []string {
	total := c.Pairs + len(c.FellOut)
	out := []string{fmt.Sprintf("%d of %s", len(c.FellOut), plural(total, "task"))}
	for _, side := range []struct {
		name string
		lost map[string]int
	}{{c.A, c.LostA}, {c.B, c.LostB}} {
		var why []string
		for _, reason := range slices.Sorted(maps.Keys(side.lost)) {
			why = append(why, fmt.Sprintf("%d %s", side.lost[reason], lostWords(reason)))
		}
		if len(why) > 0 {
			out = append(out, side.name+": "+strings.Join(why, ", "))
		}
	}
	return out
}

// lostWords are reasons as people say them.
func lostWords(reason string) string {
	switch {
	case reason == "no_verdict":
		return "without verdict"
	case slices.Contains(trials.Blames(), trials.Blame(reason)):
		return "blamed on " + reason
	}
	return reason
}

func fellOutText(c *stats.Comparison, x stats.FellOut) string {
	var why []string
	for _, side := range []struct{ name, lost string }{{c.A, x.A}, {c.B, x.B}} {
		if side.lost != "" {
			why = append(why, side.name+" "+lostWords(side.lost))
		}
	}
	return x.Task + " (" + strings.Join(why, ", ") + ")"
}

func firstOf(names []string) string {
	if len(names) <= mostExamples {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mostExamples], ", "), len(names)-mostExamples)
}

// testNames are the tests in words.
var testNames = map[string]string{
	stats.TestMcNemar:  "McNemar's test, exact and two-sided",
	stats.TestSignFlip: "sign-flip permutation test, two-sided",
}

func differenceFacts(b *block, c *stats.Comparison, of int) {
	n := "n = " + plural(c.Pairs, "task")
	b.add("difference", stats.DifferenceText(c.Difference), fmt.Sprintf("%s → %s", stats.MeanText(c.MeanA), stats.MeanText(c.MeanB)), n)
	if c.Pairs == 0 {
		return
	}
	if i := c.Interval; i != nil {
		b.add("", fmt.Sprintf("95 %% interval %s to %s", stats.DifferenceText(&i.Low), stats.DifferenceText(&i.High)), "t over tasks, "+n)
	} else {
		b.add("", "no interval: the differences show no spread, "+n)
	}
	b.add("test", stats.PText(*c.P), testNames[c.Test], n)
	if c.Seed != nil {
		b.add("", fmt.Sprintf("%d draws with seed %d", c.Drawn, *c.Seed))
	} else if c.Test == stats.TestSignFlip {
		b.add("", "exact: all signs were flipped")
	}
	if of > 1 {
		b.add("", fmt.Sprintf("Holm for %d comparisons: %s", of, stats.PText(*c.PHolm)))
	}
	b.add("unseen", c.DetectableText())
	if c.SuspectA+c.SuspectB > 0 {
		b.add("suspect", fmt.Sprintf("%d of %s, %d of %s", c.SuspectA, c.A, c.SuspectB, c.B), "they count; --exclude-suspect leaves them out")
	}
}

// mostPairs is how many tasks a table shows; --json has all.
const mostPairs = 40

// tasks lists the tasks that differ, the largest difference first.
func (b *block) tasks(c *stats.Comparison) {
	same, flips := 0, 0
	for _, t := range c.Tasks {
		if t.Difference == 0 {
			same++
			continue
		}
		flip := ""
		if t.Flipped {
			flip = "flipped"
			flips++
		}
		if len(b.rows) < mostPairs {
			b.rows = append(b.rows, []string{
				t.Task, stats.MeanText(&t.A), stats.MeanText(&t.B), stats.DifferenceText(&t.Difference),
				fmt.Sprintf("%d, %d", t.AttemptsA, t.AttemptsB), flip,
			})
		}
	}
	if c.Pairs == 0 {
		return
	}
	if more := c.Pairs - same - len(b.rows); more > 0 {
		b.note("and %s more that differ, see --json", plural(more, "task"))
	}
	b.note("%s flipped between 0 and 1, %d without difference.", plural(flips, "task"), same)
}
