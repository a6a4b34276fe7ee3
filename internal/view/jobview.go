package view

import (
	"fmt"
	"strings"
	"time"

	"harborgate/trials"
	"harborgate/trials/stats"
)

const (
	mostArms  = 3  // whose numbers are shown
	nameShare = 45 // percent of the columns that names may take
)

// Widths of columns.
const (
	rewardColumns = 12
	timeColumns   = 10
)

func (p *jobPage) view(columns, rows int) []string {
	out := append(p.head(columns), p.heading(columns))
	from, to := p.list.rows()
	for i := from; i < to; i++ {
		out = append(out, marked(p.line(p.table.shown[i], columns-2), columns, i == p.list.cursor))
	}
	if len(p.table.shown) == 0 {
		out = append(out, faint.on("  "+p.nothing()))
	}
	for len(out) < rows-1 {
		out = append(out, "")
	}
	return append(out, p.status(columns))
}

func (p *jobPage) nothing() string {
	switch {
	case len(p.table.all) > 0:
		return "no trial fits: x shows all"
	case p.looking:
		return "reading…"
	}
	return "no trials yet"
}

// head is the job in a few lines: its state, then the numbers of each arm.
func (p *jobPage) head(columns int) []string {
	out := []string{fit(p.state(), columns)}
	if p.err != nil {
		out = append(out, fit(red.on(firstLine(p.err.Error())), columns))
	}
	switch {
	case p.result == nil:
	case p.report == nil:
		out = append(out, fit(p.soFar(), columns))
	default:
		out = append(out, p.numbers(columns)...)
	}
	return append(out, "")
}

func (p *jobPage) state() string {
	if p.result == nil {
		return faint.on("no result.json yet")
	}
	parts := []string{stateOf(p.result, p.running)}
	if n := p.table.active(); n > 0 {
		parts = append(parts, plural(n, "trial")+" at work")
	}
	if b := p.result.StartedAt; b != nil {
		parts = append(parts, "started "+b.Local().Format(time.DateTime), stats.TimeText(p.wall()))
	}
	if p.result.FinishedAt == nil && !p.running {
		parts = append(parts, "`harbor job resume "+p.place()+"` goes on")
	}
	return strings.Join(parts, faint.on(" · "))
}

// stateOf says whether a job ended.
func stateOf(r *trials.JobResult, running bool) string {
	switch {
	case running:
		return cyan.on("● running")
	case r.FinishedAt != nil:
		return green.on("✓ finished")
	case r.Harborgate == nil: // Harbor's, which holds no lock
		return yellow.on("· not ended")
	case r.Harborgate.Interrupted != "":
		return yellow.on("⊘ interrupted by " + firstLine(r.Harborgate.Interrupted))
	}
	return yellow.on("⊘ interrupted")
}

// soFar is what the job's own result says, until all trials were read.
func (p *jobPage) soFar() string {
	s := fmt.Sprintf("%d of %s ended", p.result.Stats.Completed, plural(p.result.NTotalTrials, "trial"))
	return s + faint.on(fmt.Sprintf(" · reading results, %d of %d", p.read, len(p.table.all)))
}

func (p *jobPage) numbers(columns int) []string {
	var out []string
	rows := p.report.Rows
	for i := range rows {
		if i == mostArms {
			out = append(out, faint.on(fmt.Sprintf("and %s, see `harbor job show %s`", plural(len(rows)-i, "more arm"), p.place())))
			break
		}
		if len(rows) > 1 {
			out = append(out, fit(bold.on(clean(rows[i].Title())), columns))
		}
		out = append(out, p.arm(&rows[i], columns)...)
	}
	if len(rows) == 0 {
		out = append(out, fit(strings.Join(p.report.Words(), " · "), columns))
	}
	return out
}

// arm is a mean with all that it must not stand without.
func (p *jobPage) arm(r *stats.Row, columns int) []string {
	mean := []string{bold.on("mean " + stats.Unknown)}
	if c := r.Main(); c != nil {
		mean = []string{bold.on("mean " + c.Text()), "n = " + plural(c.Tasks, "task")}
		if c.Interval != nil {
			mean = append(mean, "95 % "+c.Interval.Text())
		}
		if b := c.Bounds; b != nil {
			mean = append(mean, fmt.Sprintf("bounds %.3f to %.3f", b.Low, b.High))
		}
	}
	counts := r.Words()
	if r.Suspect > 0 {
		counts = append(counts, yellow.on(fmt.Sprintf("%d suspect", r.Suspect)))
	}
	sep := faint.on(" · ")
	if one := strings.Join(append(mean[:len(mean):len(mean)], counts...), sep); width(one) <= columns {
		return []string{one}
	}
	return []string{fit(strings.Join(mean, sep), columns), fit(strings.Join(counts, sep), columns)}
}

// widths are how many columns name, arm and fault get.
func (p *jobPage) widths(columns int) (name, arm, fault int) {
	rest := columns - 2 - rewardColumns - timeColumns - 2
	name = 10
	from, to := p.list.rows()
	for i := from; i < to; i++ {
		name = max(name, width(clean(p.table.shown[i].name())))
	}
	name = min(name, rest*nameShare/100)
	rest -= name + 2
	if p.report != nil && len(p.report.Rows) > 1 {
		arm = min(24, rest/2)
		rest -= arm + 2
	}
	return name, arm, max(rest, 0)
}

func (p *jobPage) heading(columns int) string {
	name, arm, fault := p.widths(columns - 2)
	s := "    " + fit("TRIAL", name) + "  "
	if arm > 0 {
		s += fit("AGENT", arm) + "  "
	}
	s += fitRight("REWARD", rewardColumns) + fitRight("TIME", timeColumns) + "  " + fit("EXCEPTION", fault)
	return fit(faint.on(s), columns)
}

func (p *jobPage) line(r *row, columns int) string {
	name, arm, fault := p.widths(columns)
	l := lookOf(r)
	s := l.paint.on(l.sign) + " " + fit(clean(r.name()), name) + "  "
	if arm > 0 {
		s += faint.on(fit(armOf(r), arm)) + "  "
	}
	color := l.paint
	if r.active != nil {
		color = faint
	}
	s += color.on(fitRight(r.reward(), rewardColumns)) + fitRight(p.took(r), timeColumns) + "  "
	return s + l.paint.on(fit(p.remark(r), fault))
}

// took is how long a trial ran, or runs.
func (p *jobPage) took(r *row) string {
	switch {
	case r.active != nil:
		return stats.TimeText(p.host.now().Sub(r.active.since).Truncate(time.Second))
	case r.trial == nil:
		return ""
	}
	return stats.TimeText(r.trial.Duration)
}

func (p *jobPage) remark(r *row) string {
	s := r.fault()
	if s == "" && (r.trial == nil || r.state() == "suspect") {
		s = r.state()
	}
	if r.trial != nil && r.trial.Suspect && s != "suspect" {
		s += ", suspect"
	}
	if r.trial != nil && r.trial.Tries > 1 {
		s = strings.TrimPrefix(s+fmt.Sprintf(", try %d", r.trial.Tries), ", ")
	}
	return s
}

func (p *jobPage) status(columns int) string {
	if p.search.open {
		return p.search.view(columns)
	}
	t := &p.table
	direction := "↑"
	if t.reversed {
		direction = "↓"
	}
	parts := []string{
		fmt.Sprintf("%d of %s", len(t.shown), plural(len(t.all), "trial")),
		"by " + orders()[t.order].name + " " + direction, filters()[t.filter].name,
	}
	if t.text != "" {
		parts = append(parts, "with “"+t.text+"”")
	}
	return fit(faint.on(strings.Join(parts, " · ")), columns)
}
