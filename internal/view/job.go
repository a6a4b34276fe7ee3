package view

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	tea "charm.land/bubbletea/v2"

	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/stats"
)

// jobPage shows one job: what it came to, and its trials.
type jobPage struct {
	host  host
	dir   *folder
	watch *watch

	result  *trials.JobResult // nil until it was read
	running bool
	err     error
	looking bool // a look is on its way
	changed bool // there may be results that were not read

	table   table
	list    list
	size    size
	search  prompt
	reading int // results that are on their way
	read    int // results that came, first ones only

	report   *stats.Report // nil until all results were read
	counting bool
	stale    bool // there are results that the report does not know
	planned  map[stats.Key]int

	ctx  context.Context // ends with the page
	stop context.CancelFunc
}

// counted is a new report.
type counted struct {
	dir     *folder
	report  stats.Report
	planned map[stats.Key]int
}

func openJob(h host, path string) (*jobPage, error) {
	dir, err := openFolder(path)
	if err != nil {
		return nil, err
	}
	p := &jobPage{host: h, dir: dir, watch: newWatch(dir, h.alive), table: newTable(), search: prompt{label: "filter: "}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p, nil
}

func (p *jobPage) title() string { return clean(filepath.Base(p.dir.path)) }

func (p *jobPage) typing() bool { return p.search.open }

func (p *jobPage) close() {
	p.stop()
	p.dir.close()
}

func (p *jobPage) start() tea.Cmd { return p.look() }

// look reads what is new, unless that is going on.
func (p *jobPage) look() tea.Cmd {
	if p.looking {
		return nil
	}
	p.looking = true
	w, now := p.watch, p.host.now()
	return func() tea.Msg { return w.look(now) }
}

func (p *jobPage) update(msg tea.Msg) action {
	var a action
	switch msg := msg.(type) {
	case size:
		p.size = msg
	case tick:
		a.cmd = p.look()
	case news:
		if msg.dir == p.dir {
			a.cmd = p.take(msg)
		}
	case loaded:
		if msg.dir == p.dir {
			a.cmd = p.takeResults(msg)
		}
	case counted:
		if msg.dir == p.dir {
			p.report, p.planned, p.counting = &msg.report, msg.planned, false
			a.cmd = p.count()
		}
	case tea.PasteMsg:
		p.search.take(msg)
		p.refilter()
	case tea.KeyPressMsg:
		a = p.key(msg)
	}
	p.layOut()
	return a
}

// layOut gives the table what the lines around it leave.
func (p *jobPage) layOut() {
	p.list.resize(len(p.table.shown), p.size.rows-len(p.head(p.size.columns))-2)
}

func (p *jobPage) take(n news) tea.Cmd {
	p.looking, p.err, p.running = false, n.err, n.running
	for _, name := range n.names {
		p.table.row(name)
	}
	for _, r := range p.table.all {
		r.active = nil
	}
	for name, x := range n.active {
		r := p.table.row(name)
		r.active, r.trial, r.err = &x, nil, nil
	}
	for _, name := range n.back { // what was read is the try that was cut off
		r := p.table.row(name)
		r.trial, r.err = nil, nil
	}
	if n.result != nil {
		p.result = n.result
	}
	p.changed = p.changed || n.result != nil || n.names != nil || n.back != nil
	p.rearrange()
	return p.readMissing()
}

// readMissing reads the results that are not known, when something changed.
func (p *jobPage) readMissing() tea.Cmd {
	if !p.changed || p.reading > 0 {
		return p.count()
	}
	p.changed = false
	wanted := p.missing()
	if len(wanted) == 0 {
		return p.count()
	}
	p.reading = len(wanted)
	return load(p.ctx, p.dir, wanted)
}

func (p *jobPage) missing() []string {
	var out []string
	for _, r := range p.table.all {
		if r.trial == nil && r.active == nil {
			out = append(out, r.dir)
		}
	}
	return out
}

func (p *jobPage) takeResults(l loaded) tea.Cmd {
	p.reading -= len(l.trials)
	for _, x := range l.trials {
		r := p.table.row(x.name)
		if x.err == nil && r.trial == nil {
			p.read++
		}
		if r.err = x.err; x.err == nil {
			r.trial = &x.trial
		}
	}
	p.stale = true
	p.rearrange()
	if l.next != nil {
		return await(p.dir, l.next)
	}
	p.reading = 0
	return p.readMissing()
}

// count computes the numbers anew, when all results are here and they changed.
func (p *jobPage) count() tea.Cmd {
	if p.counting || p.reading > 0 || p.result == nil || p.report != nil && !p.stale {
		return nil
	}
	p.counting, p.stale = true, false
	var all []stats.Trial
	for _, r := range p.table.all {
		if r.trial != nil {
			all = append(all, *r.trial)
		}
	}
	plan := stats.Plan{Trials: p.result.NTotalTrials, Wall: p.wall()}
	dir, planned := p.dir, p.planned
	return func() tea.Msg {
		if planned == nil {
			planned = readPlan(dir)
		}
		plan.ByKey = planned
		return counted{dir, stats.New(all, plan), planned}
	}
}

// wall is how long the job was worked on, up to now while it is.
func (p *jobPage) wall() time.Duration {
	worked := p.result.Worked()
	if last := p.result.UpdatedAt; p.running && last != nil {
		worked += max(0, p.host.now().Sub(last.Time))
	}
	return worked
}

func (p *jobPage) key(msg tea.KeyPressMsg) action {
	if p.search.open {
		p.search.take(msg)
		p.refilter()
		return action{}
	}
	t := &p.table
	switch k := msg.String(); k {
	case "/":
		p.search.open = true
	case "s":
		t.order = (t.order + 1) % len(orders())
		p.rearrange()
	case "S":
		t.reversed = !t.reversed
		p.rearrange()
	case "f":
		t.filter = (t.filter + 1) % len(filters())
		p.rearrange()
	case "F":
		t.filter = (t.filter + len(filters()) - 1) % len(filters())
		p.rearrange()
	case "x":
		t.filter, t.text, p.search.text = 0, "", ""
		p.rearrange()
	case "c":
		return action{open: newFilePager(p.dir, results.ConfigFile, false)}
	case "L":
		return action{open: newFilePager(p.dir, results.JobLogFile, p.running)}
	case "enter", "right", "l":
		return p.open()
	default:
		p.list.key(k)
	}
	return action{}
}

func (p *jobPage) refilter() {
	p.table.text = p.search.text
	p.rearrange()
}

// rearrange keeps the cursor on its trial, unless it stands on the first row: there
// it stays, for who has not moved wants to see the best, the slowest, the first.
func (p *jobPage) rearrange() {
	here := p.selected()
	stay := p.list.cursor == 0
	p.table.arrange()
	if stay || here == nil {
		return
	}
	for i, r := range p.table.shown {
		if r == here {
			p.list.move(i - p.list.cursor)
			return
		}
	}
}

func (p *jobPage) selected() *row {
	if p.list.cursor < len(p.table.shown) {
		return p.table.shown[p.list.cursor]
	}
	return nil
}

func (p *jobPage) open() action {
	r := p.selected()
	if r == nil {
		return action{}
	}
	t, err := openTrial(p.host, filepath.Join(p.dir.path, filepath.FromSlash(r.dir)), p.activity)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("the trial has no directory yet")
	}
	if err != nil {
		return action{open: newTextPager(clean(r.name()), err.Error())}
	}
	return action{open: t}
}

// activity is what a trial does now, nil when it does not run.
func (p *jobPage) activity(name string) *active {
	if r := p.table.byName[name]; r != nil {
		return r.active
	}
	return nil
}

func (p *jobPage) keys() []binding {
	keys := []binding{{"enter", "open"}, {"/", "filter"}, {"f F", "by state or blame"}, {"s S", "sort, reverse"}}
	if p.table.filter != 0 || p.table.text != "" {
		keys = append(keys, binding{"x", "show all"})
	}
	return append(keys, binding{"c", "config"}, binding{"L", "log"})
}

// place names the job for commands.
func (p *jobPage) place() string { return clean(p.host.shown(p.dir.path)) }
