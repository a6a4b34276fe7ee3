package view

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"harborgate/trials"
	"harborgate/trials/stats"
)

// row is one trial of a job.
type row struct {
	dir    string // relative to the job's
	active *active
	trial  *stats.Trial // nil without a result
	err    error        // why there is none
}

func (r *row) name() string { return path.Base(r.dir) }

// state is what became of a trial, in one word.
func (r *row) state() string {
	switch {
	case r.active != nil:
		return "running"
	case r.trial == nil && r.err != nil && !errors.Is(r.err, fs.ErrNotExist):
		return "unreadable"
	case r.trial == nil:
		return "no result"
	case r.trial.Cancelled:
		return "cancelled"
	case r.trial.Valid && r.trial.Suspect:
		return "suspect"
	case r.trial.Valid:
		return "graded"
	}
	return "no verdict"
}

// look is how a state is shown.
type look struct {
	sign  string
	paint paint
}

func lookOf(r *row) look {
	looks := map[string]look{
		"running": {"●", cyan}, "unreadable": {"!", red}, "no result": {"·", faint}, "cancelled": {"⊘", faint},
		"suspect": {"?", yellow}, "no verdict": {"✗", red},
	}
	if l, ok := looks[r.state()]; ok {
		return l
	}
	if main, ok := r.trial.Rewards.Main(); ok && main.Value >= 1 {
		return look{"✓", green}
	}
	return look{"○", ""}
}

// reward is the verdict in words, – when there is none that counts.
func (r *row) reward() string {
	if r.trial == nil || !r.trial.Valid {
		return stats.Unknown
	}
	return rewardText(r.trial.Rewards)
}

func rewardText(rewards trials.Rewards) string {
	var parts []string
	for _, x := range rewards {
		if len(rewards) == 1 {
			return x.Value.String()
		}
		parts = append(parts, clean(x.Key)+"="+x.Value.String())
	}
	return strings.Join(parts, " ")
}

// fault is the exception and whose doing it is.
func (r *row) fault() string {
	switch {
	case r.active != nil:
		return phaseText(r.active.phase)
	case r.trial == nil && r.state() == "unreadable":
		return firstLine(r.err.Error())
	case r.trial == nil || r.trial.Exception == "" && r.trial.Blame == trials.BlameNone:
		return ""
	case r.trial.Blame == trials.BlameNone:
		return clean(r.trial.Exception)
	}
	return clean(r.trial.Exception) + " (" + clean(string(r.trial.Blame)) + ")"
}

func phaseText(phase string) string { return clean(strings.ReplaceAll(phase, "_", " ")) }

// order is a way to sort rows.
type order struct {
	name    string
	compare func(a, b *row) int
}

// orders are the ways to sort, in the order in which a key goes through them.
func orders() []order {
	return []order{
		{"name", func(*row, *row) int { return 0 }},
		{"reward", func(a, b *row) int { return cmp.Compare(rewardOf(b), rewardOf(a)) }},
		{"time", func(a, b *row) int { return cmp.Compare(secondsOf(b), secondsOf(a)) }},
		{"state", func(a, b *row) int { return cmp.Compare(a.state(), b.state()) }},
		{"fault", func(a, b *row) int {
			return cmp.Or(cmp.Compare(btoi(a.fault() == ""), btoi(b.fault() == "")), cmp.Compare(a.fault(), b.fault()))
		}},
		{"agent", func(a, b *row) int { return cmp.Compare(armOf(a), armOf(b)) }},
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// rewardOf puts what has no verdict below everything.
func rewardOf(r *row) float64 {
	const none = -1e308
	if r.trial == nil || !r.trial.Valid {
		return none
	}
	main, ok := r.trial.Rewards.Main()
	if !ok {
		return none
	}
	return main.Value
}

func secondsOf(r *row) float64 {
	if r.trial == nil {
		return -1
	}
	return r.trial.Duration.Seconds()
}

// armOf is agent and model.
func armOf(r *row) string {
	if r.trial == nil {
		return ""
	}
	if r.trial.Row.Model == "" {
		return clean(r.trial.Row.Agent)
	}
	return clean(r.trial.Row.Agent + " " + r.trial.Row.Model)
}

// filter is a choice among rows.
type filter struct {
	name string
	fits func(*row) bool
}

// filters are the choices by state and by blame, in the order in which a key goes
// through them.
func filters() []filter {
	state := func(names ...string) func(*row) bool {
		return func(r *row) bool { return slices.Contains(names, r.state()) }
	}
	out := []filter{
		{"all", func(*row) bool { return true }}, {"running", state("running")}, {"graded", state("graded", "suspect")},
		{"suspect", state("suspect")}, {"no verdict", state("no verdict", "cancelled", "unreadable", "no result")},
	}
	for _, b := range trials.Blames() {
		out = append(out, filter{"blame: " + string(b), func(r *row) bool { return r.trial != nil && r.trial.Blame == b }})
	}
	return append(out, filter{"cancelled", state("cancelled")})
}

// table is the rows of a job, those that are wanted in the wanted order.
type table struct {
	all    []*row
	byName map[string]*row
	shown  []*row

	order    int
	reversed bool
	filter   int
	text     string
}

func newTable() table { return table{byName: map[string]*row{}} }

// row returns the row of a trial's directory, which is made when it is new.
func (t *table) row(dir string) *row {
	if r := t.byName[dir]; r != nil {
		return r
	}
	r := &row{dir: dir}
	t.byName[dir] = r
	t.all = append(t.all, r)
	return r
}

// arrange filters and sorts anew.
func (t *table) arrange() {
	fits, want := filters()[t.filter].fits, strings.ToLower(t.text)
	t.shown = t.shown[:0]
	for _, r := range t.all {
		if fits(r) && (want == "" || strings.Contains(strings.ToLower(r.words()), want)) {
			t.shown = append(t.shown, r)
		}
	}
	compare := orders()[t.order].compare
	slices.SortFunc(t.shown, func(a, b *row) int {
		c := cmp.Or(compare(a, b), cmp.Compare(a.dir, b.dir))
		if t.reversed {
			return -c
		}
		return c
	})
}

// active is how many trials run.
func (t *table) active() (n int) {
	for _, r := range t.all {
		if r.active != nil {
			n++
		}
	}
	return n
}

// words are what the text filter looks at.
func (r *row) words() string {
	s := clean(r.name()) + " " + r.state() + " " + r.fault()
	if r.trial != nil {
		s += " " + clean(r.trial.Task) + " " + armOf(r)
	}
	return s
}
