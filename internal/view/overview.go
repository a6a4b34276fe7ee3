package view

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"harborgate/trials"
	"harborgate/trials/stats"
)

// overview is what happened in a trial, in words.
type overview struct {
	host   host
	job    string         // its directory, for commands
	result *trials.Result // nil while there is none
	tries  []*trials.Result
	err    error
	active *active
	list   list
	size   size
}

func (o *overview) take(r trialRead) {
	o.result, o.tries, o.err = r.result, r.tries, r.err
	o.layOut()
}

func (o *overview) layOut() { o.list.resize(len(o.lines(o.size.columns))-o.size.rows+1, 1) }

func (o *overview) update(msg tea.Msg) action {
	switch msg := msg.(type) {
	case size:
		o.size = msg
		o.layOut()
	case tea.KeyPressMsg:
		o.list.key(msg.String())
	}
	return action{}
}

func (o *overview) keys() []binding { return nil }

func (o *overview) view(columns, rows int) []string {
	lines := o.lines(columns)
	lines = lines[min(o.list.cursor, len(lines)):]
	return lines[:min(len(lines), rows)]
}

func (o *overview) lines(columns int) []string {
	b := &block{columns: columns}
	switch {
	case o.err != nil && !errors.Is(o.err, fs.ErrNotExist):
		b.text("unreadable", red, o.err.Error())
	case o.result == nil && o.active != nil:
		b.text("state", cyan, fmt.Sprintf("● running, %s for %s", phaseText(o.active.phase), stats.TimeText(o.host.now().Sub(o.active.since).Truncate(time.Second))))
	case o.result == nil:
		b.text("state", faint, "no result: it has not ended, or was cut off")
	default:
		o.ended(b, o.result)
	}
	o.earlier(b)
	return b.lines
}

func (o *overview) ended(b *block, r *trials.Result) {
	t := stats.Of(r)
	one := &row{dir: r.TrialName, trial: &t}
	l := lookOf(one)
	b.text("verdict", l.paint, l.sign+" "+one.state()+verdictText(one))
	b.text("task", "", r.TaskName)
	b.text("agent", "", strings.TrimSpace(r.AgentInfo.Name+" "+r.AgentInfo.Version+" "+t.Model))
	if r.StartedAt != nil {
		b.text("started", "", r.StartedAt.Local().Format(time.DateTime))
	}
	o.failure(b, r, t)
	if x := r.Harborgate; x != nil {
		for _, s := range x.Suspect {
			b.text("suspect", yellow, s.Code+": "+s.Message)
		}
		for _, n := range x.Notes {
			b.text("note", "", n.Code+": "+n.Message)
		}
	}
	o.phases(b, r, t)
	o.usage(b, t)
}

func verdictText(r *row) string {
	if r.trial.Valid {
		return ", reward " + r.reward()
	}
	return ", which is no 0"
}

func (o *overview) failure(b *block, r *trials.Result, t stats.Trial) {
	x := r.ExceptionInfo
	if x == nil {
		return
	}
	b.gap()
	b.text("exception", red, x.Type)
	if t.Blame != trials.BlameNone {
		b.text("blame", red, string(t.Blame)+": "+blameWords(t.Blame))
	}
	if h := r.Harborgate; h != nil && h.Failure != nil {
		b.text("in phase", "", phaseText(string(h.Failure.Phase)))
	}
	b.text("message", "", x.Message)
	if step := o.nextStep(t); step != "" {
		b.text("next", bold, step)
	}
}

// blameWords say what a blame means.
func blameWords(b trials.Blame) string {
	return map[trials.Blame]string{
		trials.BlameAgent: "the agent's own doing", trials.BlameTask: "something is wrong with the task",
		trials.BlameInfrastructure: "the agent could do nothing about it", trials.BlameHarness: "a fault of the harness",
	}[b]
}

// nextStep is what helps against a failure. A verdict needs no help.
func (o *overview) nextStep(t stats.Trial) string {
	resume := "`harbor job resume " + o.job
	switch {
	case t.Cancelled:
		return resume + "` runs it again"
	case t.Valid:
		return ""
	}
	return map[trials.Blame]string{
		trials.BlameAgent:          "the agent's logs (2) tell more",
		trials.BlameTask:           "`harbor task check` and the logs (2) say what is wrong with the task",
		trials.BlameInfrastructure: "`harbor env check`, then " + resume + " --retry-failed infrastructure`",
		trials.BlameHarness:        "trial.log (2) tells more; " + resume + " --retry-failed harness` runs it again",
	}[t.Blame]
}

// phases shows when a trial did what.
func (o *overview) phases(b *block, r *trials.Result, t stats.Trial) {
	b.gap()
	longest := time.Duration(1)
	for _, d := range t.Phases {
		longest = max(longest, d)
	}
	const shown = 50 * time.Millisecond
	if t.Waited > shown {
		b.text("waited", "", stats.TimeText(t.Waited)+" for a slot")
	}
	if t.Snapshot > shown {
		b.text("waited", "", stats.TimeText(t.Snapshot)+" for an image")
	}
	for _, p := range trials.Phases() {
		d, ok := t.Phases.Of(p)
		if !ok {
			continue
		}
		s := fitRight(stats.TimeText(d), timeColumns) + "  " + cyan.on(strings.Repeat("█", barLength(d, longest)))
		if x := r.Harborgate; x != nil {
			if l, ok := x.Timeouts[string(p)]; ok && l.Seconds > 0 {
				s += faint.on(" of at most " + stats.SecondsText(&l.Seconds))
			}
		}
		b.painted(phaseText(string(p)), s)
	}
	b.painted("in all", bold.on(fitRight(stats.TimeText(t.Duration), timeColumns)))
}

// barColumns are those of the longest bar.
const barColumns = 30

func barLength(d, longest time.Duration) int { return max(1, int(barColumns*d/longest)) }

func (o *overview) usage(b *block, t stats.Trial) {
	var parts []string
	for _, x := range []struct {
		n    *int64
		what string
	}{{t.Usage.InputTokens, "tokens in"}, {t.Usage.CacheTokens, "of them cached"}, {t.Usage.OutputTokens, "out"}} {
		if x.n != nil {
			f := float64(*x.n)
			parts = append(parts, stats.CountText(&f)+" "+x.what)
		}
	}
	if t.Usage.CostUSD != nil {
		parts = append(parts, stats.MoneyText(t.Usage.CostUSD))
	}
	if len(parts) > 0 {
		b.gap()
		b.text("usage", "", strings.Join(parts, ", "))
	}
}

// earlier lists the tries before this one.
func (o *overview) earlier(b *block) {
	for i, r := range o.tries {
		if i == 0 {
			b.gap()
		}
		t := stats.Of(r)
		one := &row{dir: r.TrialName, trial: &t}
		s := one.state()
		if t.Valid {
			s += ", reward " + one.reward()
		}
		if f := one.fault(); f != "" {
			s += ", " + f
		}
		b.text(fmt.Sprintf("try %d", t.Tries), faint, s+", "+stats.TimeText(t.Duration)+", kept under tries/")
	}
}

// labelColumns are those of labels.
const labelColumns = 19

// block is lines with labels.
type block struct {
	columns int
	lines   []string
}

func (b *block) gap() { b.lines = append(b.lines, "") }

func (b *block) painted(label, s string) {
	b.lines = append(b.lines, fit("  "+faint.on(fit(label, labelColumns))+s, b.columns))
}

// text adds foreign text, broken into lines.
func (b *block) text(label string, p paint, s string) {
	const least = 10 // of a narrower one the ends are cut off
	for _, l := range wrap(s, max(b.columns-labelColumns-4, least)) {
		b.painted(label, p.on(l))
		label = ""
	}
}
