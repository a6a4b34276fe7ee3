package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"harborgate/internal/app"
	"harborgate/trials"
	"harborgate/trials/stats"
)

// reportOf is what --json prints as the report of a job: a stats.Report.
func reportOf(s app.Summary) any { return numbersOf(s) }

func numbersOf(s app.Summary) stats.Report { return stats.New(s.Trials, planOf(s)) }

// writeSummary prints the numbers of a job, also of one that still runs: a block
// for each data set and arm, then whose fault it was that verdicts are missing. It
// is made for 80 columns and for logs. No mean stands without the number of its
// verdicts and of the trials that were planned.
func writeSummary(w io.Writer, s app.Summary) {
	p := summary{w: printableWriter{w}, job: s.Result, report: numbersOf(s)}
	if len(p.report.Rows) > 1 {
		p.overview()
	}
	for i := range p.report.Rows {
		p.row(&p.report.Rows[i])
	}
	p.failures()
	if x := s.Result.Harborgate; x != nil {
		p.list("Left out, invalid", x.InvalidTasks)
		p.list("Not cleaned up, `harbor cleanup` tries again", x.CleanupFailed)
		p.list("Notes", noteTexts(x.Notes))
	}
	p.total()
}

func noteTexts(notes []trials.Note) []string {
	out := make([]string, len(notes))
	for i, n := range notes {
		out[i] = n.Message
	}
	return out
}

// What is listed at most; --json has all.
const (
	mostExamples = 3  // trials of an exception
	mostListed   = 10 // tasks, leftovers, reward keys and values
)

// columns is the width that lines are broken for.
const columns = 80

// labelWidth is that of the longest label and a gap.
const labelWidth = 14

// summary prints one job.
type summary struct {
	w      io.Writer
	job    trials.JobResult
	report stats.Report
	begun  bool // something was printed
	spread bool // a ± was
}

// section prints a heading, after an empty line.
func (p *summary) section(heading string) {
	if p.begun {
		fmt.Fprintln(p.w)
	}
	p.begun = true
	fmt.Fprintln(p.w, clip(oneLine(heading), columns))
}

// line prints parts behind a label, broken between parts where it gets too long.
func (p *summary) line(label string, parts ...string) {
	p.broken(label, labelWidth, " · ", parts)
}

func (p *summary) broken(label string, indent int, separator string, parts []string) {
	row := ""
	flush := func() {
		fmt.Fprintf(p.w, "  %-*s%s\n", indent, label, row)
		label, row = "", ""
	}
	for _, part := range parts {
		part = oneLine(part)
		switch {
		case row == "":
			row = part
		case 2+indent+utf8.RuneCountInString(row+separator+part) <= columns:
			row += separator + part
		default:
			flush()
			row = part
		}
	}
	if row != "" {
		flush()
	}
}

// overview compares the rows at a glance: a line for the name of each, whole where it
// fits, and one for its numbers.
func (p *summary) overview() {
	const cells = "    %-13s  %-14s  %-14s  %s\n"
	p.section(fmt.Sprintf("%d arms and data sets", len(p.report.Rows)))
	fmt.Fprintf(p.w, cells, "MEAN", "95 % INTERVAL", "BOUNDS", "COVERAGE")
	for i := range p.report.Rows {
		r := &p.report.Rows[i]
		mean, interval, bounds := stats.Unknown, stats.Unknown, stats.Unknown
		if c := r.Main(); c != nil {
			mean, interval = c.Text(), c.Interval.Text()
			if b := c.Bounds; b != nil {
				bounds = fmt.Sprintf("%.3f to %.3f", b.Low, b.High)
			}
		}
		coverage := r.Words()[0]
		if r.Suspect > 0 {
			coverage += fmt.Sprintf(", %d suspect", r.Suspect)
		}
		fmt.Fprintf(p.w, "  %s\n", middle(oneLine(r.Title()), columns-2))
		fmt.Fprintf(p.w, cells, mean, interval, bounds, coverage)
	}
}

// middle cuts a long name in its middle: data set and agent are at its start, model and
// settings at its end.
func middle(name string, width int) string {
	r := []rune(name)
	if len(r) <= width {
		return name
	}
	end := width / 2
	return string(r[:width-end-1]) + "…" + string(r[len(r)-end:])
}

// row prints the block of an arm on a data set.
func (p *summary) row(r *stats.Row) {
	p.section(r.Title())
	switch {
	case r.Installed > 0:
		p.line("installed", fmt.Sprintf("%d of %d: environment and agent are set up", r.Installed, r.Planned), "no more was asked for")
	case len(r.Rewards) == 0:
		p.line("reward", append([]string{"mean " + stats.Unknown}, r.Words()...)...)
	}
	for i := range r.Rewards {
		if i == mostListed {
			p.line("", fmt.Sprintf("and %d more keys, see --json", len(r.Rewards)-i))
			break
		}
		p.column(r, &r.Rewards[i])
	}
	p.suspects(r)
	p.usage(r)
	p.times(r)
	if r.Retries > 0 {
		p.line("retries", fmt.Sprintf("%d, in %s", r.Retries, plural(r.Retried, "trial")))
	}
	p.counts(r)
}

// column prints what one reward key came to.
func (p *summary) column(r *stats.Row, c *stats.Column) {
	p.spread = p.spread || c.StandardError != nil
	parts := append([]string{"mean " + c.Text()}, r.Words()...)
	parts = slices.Insert(parts, 1, lackingTexts(r, c)...)
	label := oneLine(c.Key)
	if utf8.RuneCountInString(label) >= labelWidth {
		p.broken("", 0, "", []string{clip(label, columns-2)})
		label = ""
	}
	p.line(label, parts...)
	if c.Interval != nil {
		p.line("", "95 % interval "+c.Interval.Text(), methods[c.Interval.Method]+", n = "+plural(c.Tasks, "task"))
	}
	if b := c.Bounds; b != nil {
		p.line("", boundsText(b))
	}
	if r.Attempts > 1 {
		p.line("", atKTexts("pass@", c.PassAtK)...)
		p.line("", atKTexts("pass^", c.PassAllK)...)
	}
}

var methods = map[string]string{stats.MethodWilson: "Wilson", stats.MethodT: "t"}

func atKTexts(name string, at []stats.AtK) []string {
	var out []string
	for i, a := range at {
		switch {
		case a.K == 1:
			continue // that is the mean
		case len(at) > mostListed && a.K&(a.K-1) != 0 && i < len(at)-1:
			continue // of many, powers of two and the last are enough; --json has all
		}
		text := fmt.Sprintf("%s%d %s (n = %s", name, a.K, stats.MeanText(a.Value), plural(a.Tasks, "task"))
		switch {
		case a.Tasks == 0:
			text = fmt.Sprintf("%s%d %s (no task has %d verdicts", name, a.K, stats.Unknown, a.K)
		case a.LeftOut > 0:
			text += fmt.Sprintf(", %d left out", a.LeftOut)
		}
		out = append(out, text+")")
	}
	return out
}

// suspects says how many verdicts are doubtful, why, and what the mean is without.
func (p *summary) suspects(r *stats.Row) {
	if r.Suspect == 0 {
		return
	}
	parts := []string{fmt.Sprintf("%d of %d graded", r.Suspect, r.Graded)}
	codes := slices.SortedFunc(maps.Keys(r.Doubts), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Doubts[b], r.Doubts[a]), cmp.Compare(a, b))
	})
	for _, code := range codes {
		parts = append(parts, fmt.Sprintf("%d %s", r.Doubts[code], code))
	}
	p.line("suspect", parts...)
	for _, c := range r.Rewards[:min(len(r.Rewards), mostListed)] {
		if e := c.WithoutSuspect; e != nil {
			p.line("", fmt.Sprintf("%s without them: mean %s (n = %s)", c.Key, e.Text(), plural(e.Tasks, "task")))
		}
	}
}

// cost prints what is known of it, and how much is not because there is no price.
func (p *summary) cost(r *stats.Row) {
	var parts []string
	if r.Cost.N > 0 {
		parts = append(parts, r.Cost.Text(stats.MoneyText), spreadText(r.Cost.Spread, stats.MoneyText))
	}
	if r.Unpriced > 0 {
		if r.Cost.N == 0 {
			parts = append(parts, stats.Unknown)
		}
		parts = append(parts, plural(int(r.Unpriced), "request")+" without a price")
	}
	p.line("cost", parts...)
	if m := r.Main(); r.Cost.N > 0 && r.CostPerSolved != nil && m != nil {
		prefix := ""
		if r.Cost.AtLeast {
			prefix = "≥ "
		}
		p.line("", fmt.Sprintf("%s%s for each solved task (n = %d)", prefix, stats.MoneyText(r.CostPerSolved), m.Solved.Tasks))
	}
}

// usage prints cost and tokens, as far as agents report them.
func (p *summary) usage(r *stats.Row) {
	p.cost(r)
	var parts []string
	for _, x := range []struct {
		name   string
		amount stats.Amount
	}{{"in", r.InputTokens}, {"of them cached", r.CacheTokens}, {"out", r.OutputTokens}} {
		if x.amount.N > 0 {
			parts = append(parts, fmt.Sprintf("%s %s (n = %d)", x.amount.Text(stats.CountText), x.name, x.amount.N))
		}
	}
	p.line("tokens", parts...)
}

// phaseLabels are the phases that take a line.
var phaseLabels = map[trials.Phase]string{
	trials.PhaseEnvironmentSetup: "environment", trials.PhaseAgentSetup: "agent setup",
	trials.PhaseAgentExecution: "agent", trials.PhaseVerifier: "verifier",
}

func (p *summary) times(r *stats.Row) {
	if r.Duration.N > 0 {
		p.line("time", spreadText(r.Duration, stats.SecondsText))
	}
	for _, t := range r.Phases {
		if label, ok := phaseLabels[t.Phase]; ok {
			p.line("  "+label, spreadText(t.Spread, stats.SecondsText))
		}
	}
	if w := r.Waiting; w.Share != nil && w.SlotSec+w.ImageSec > 0 {
		p.line("waiting", fmt.Sprintf("%.0f %% of the time", *w.Share*100),
			stats.SecondsText(&w.SlotSec)+" for slots", stats.SecondsText(&w.ImageSec)+" for images", "summed over "+plural(w.N, "trial"))
	}
}

func spreadText(s stats.Spread, printed func(*float64) string) string {
	return fmt.Sprintf("median %s, 90 %% %s (n = %d)", printed(s.Median), printed(s.P90), s.N)
}

// counts prints how often there was which reward and exception, as Harbor does.
func (p *summary) counts(r *stats.Row) {
	var rewards, exceptions []string
	for _, c := range r.Rewards {
		for _, v := range c.Values {
			rewards = append(rewards, fmt.Sprintf("%s\t%s\t%d", clip(oneLine(c.Key), columns/2), v.Value, v.N))
		}
	}
	numbers := map[string]int{}
	for _, f := range r.Failures {
		numbers[f.Exception] += f.N
	}
	delete(numbers, "") // no verdict, but no exception
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		exceptions = append(exceptions, fmt.Sprintf("%s\t%d", oneLine(name), numbers[name]))
	}
	p.table("REWARD\t\tCOUNT", rewards)
	p.table("EXCEPTION\tCOUNT", exceptions)
}

// table prints rows whose cells end with tabs, unless there are none.
func (p *summary) table(head string, rows []string) {
	if len(rows) == 0 {
		return
	}
	w := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\n  "+head)
	for _, row := range rows[:min(len(rows), mostListed)] {
		fmt.Fprintln(w, "  "+row)
	}
	_ = w.Flush()
	p.more(len(rows))
}

// more says how many of so many are not listed.
func (p *summary) more(n int) {
	if n > mostListed {
		fmt.Fprintf(p.w, "  and %d more, see --json\n", n-mostListed)
	}
}

func (p *summary) list(heading string, what []string) {
	if len(what) == 0 {
		return
	}
	p.section(fmt.Sprintf("%s: %d", heading, len(what)))
	for _, x := range what[:min(len(what), mostListed)] {
		fmt.Fprintf(p.w, "  %s\n", oneLine(x))
	}
	p.more(len(what))
}

// total prints the whole job.
func (p *summary) total() {
	c, x := p.report.Counts, p.job.Harborgate
	p.section("Job")
	p.line("trials", c.Words()...)
	if n := p.report.Unplaced; n > 0 {
		p.line("", fmt.Sprintf("%d pending are in no block above: their arm is not known", n))
	}
	if p.report.WallSec != nil {
		p.line("wall time", stats.SecondsText(p.report.WallSec))
	}
	if x != nil && x.SpentUSD != "" && x.SpentUSD != "0" {
		p.line("spent", "$"+x.SpentUSD+" on models, as budgets count it: all tries, and what a kill cut off")
	}
	switch {
	case x != nil && x.Interrupted != "":
		parts := []string{strings.TrimSpace(x.Interrupted)}
		if c.Pending > 0 {
			parts = append(parts, fmt.Sprintf("%d of %d trials have no result", c.Pending, c.Planned))
		}
		p.line("stopped", parts...)
	case p.job.FinishedAt == nil:
		p.line("not ended", fmt.Sprintf("%d of %d trials have no result yet", c.Pending, c.Planned))
	}
	if p.spread {
		p.broken("", 0, "", []string{"± is the standard error over tasks, n the number of values behind a number."})
	}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "x") {
		what += "e"
	}
	return fmt.Sprintf("%d %ss", n, what)
}
