package view

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/stats"
)

// jobsPause is the least time between two looks at all jobs of a directory.
const jobsPause = 2 * time.Second

// jobLine is one job of a directory.
type jobLine struct {
	name    string
	info    fs.FileInfo // of its result when that was read
	result  *trials.JobResult
	mean    *float64
	running bool
	err     error
}

// jobsPage lists the jobs of a directory, the last one first.
type jobsPage struct {
	host    host
	dir     *folder
	jobs    []jobLine
	err     error
	list    list
	size    size
	looking bool
	looked  time.Time
	search  prompt
	text    string
	shown   []int // of jobs
}

// jobsRead is what is in the directory now.
type jobsRead struct {
	dir  *folder
	jobs []jobLine
	err  error
}

func openJobs(h host, path string) (*jobsPage, error) {
	dir, err := openFolder(path)
	if err != nil {
		return nil, err
	}
	return &jobsPage{host: h, dir: dir, search: prompt{label: "filter: "}}, nil
}

func (p *jobsPage) title() string { return clean(filepath.Base(p.dir.path)) }
func (p *jobsPage) typing() bool  { return p.search.open }
func (p *jobsPage) close()        { p.dir.close() }

func (p *jobsPage) start() tea.Cmd { return p.look() }

func (p *jobsPage) look() tea.Cmd {
	now := p.host.now()
	if p.looking || now.Sub(p.looked) < jobsPause {
		return nil
	}
	p.looking, p.looked = true, now
	dir, alive := p.dir, p.host.alive
	known := map[string]jobLine{}
	for _, j := range p.jobs {
		known[j.name] = j
	}
	return func() tea.Msg { return readJobs(dir, alive, known) }
}

// readJobs reads the results of jobs that changed.
func readJobs(dir *folder, alive func(string) bool, known map[string]jobLine) jobsRead {
	found, _, err := dir.list(".")
	out := jobsRead{dir: dir, err: err}
	for _, e := range found {
		path := filepath.Join(dir.path, e.name)
		if !e.mode.IsDir() || !isJob(path) {
			continue
		}
		j := known[e.name]
		j.name, j.running = e.name, alive(path)
		j.read(path)
		out.jobs = append(out.jobs, j)
	}
	slices.SortStableFunc(out.jobs, func(a, b jobLine) int {
		return cmp.Or(b.begun().Compare(a.begun()), cmp.Compare(a.name, b.name))
	})
	return out
}

func (j *jobLine) read(path string) {
	dir, err := openFolder(path)
	if err != nil {
		j.err = err
		return
	}
	defer dir.close()
	fi, err := dir.root.Lstat(results.ResultFile)
	if err == nil && same(fi, j.info) {
		return
	}
	j.info = fi
	r, err := readJob(dir)
	if err != nil { // which job it is stands beside it
		err = errors.New(strings.ReplaceAll(err.Error(), path+string(filepath.Separator), ""))
	}
	if j.err = err; err == nil {
		j.result, j.mean = &r, meanIn(path, &r, j.running)
	}
}

func (j *jobLine) begun() time.Time {
	if j.result == nil || j.result.StartedAt == nil {
		return time.Time{}
	}
	return j.result.StartedAt.Time
}

func (p *jobsPage) update(msg tea.Msg) action {
	var a action
	switch msg := msg.(type) {
	case size:
		p.size = msg
	case tick:
		a.cmd = p.look()
	case jobsRead:
		if msg.dir == p.dir {
			p.jobs, p.err, p.looking = msg.jobs, msg.err, false
			p.arrange()
		}
	case tea.PasteMsg:
		p.search.take(msg)
		p.arrange()
	case tea.KeyPressMsg:
		a = p.key(msg)
	}
	p.list.resize(len(p.shown), p.size.rows-2)
	return a
}

func (p *jobsPage) arrange() {
	p.text = p.search.text
	p.shown = p.shown[:0]
	for i, j := range p.jobs {
		if strings.Contains(strings.ToLower(clean(j.name)), strings.ToLower(p.text)) {
			p.shown = append(p.shown, i)
		}
	}
}

func (p *jobsPage) key(msg tea.KeyPressMsg) action {
	if p.search.open {
		p.search.take(msg)
		p.arrange()
		return action{}
	}
	switch k := msg.String(); k {
	case "/":
		p.search.open = true
	case "enter", "right", "l":
		if p.list.cursor >= len(p.shown) {
			break
		}
		j := p.jobs[p.shown[p.list.cursor]]
		next, err := openJob(p.host, filepath.Join(p.dir.path, j.name))
		if err != nil {
			return action{open: newTextPager(j.name, err.Error())}
		}
		return action{open: next}
	default:
		p.list.key(k)
	}
	return action{}
}

func (p *jobsPage) keys() []binding { return []binding{{"enter", "open"}, {"/", "filter"}} }

// Widths of columns.
const (
	stateColumns = 14
	countColumns = 17
	meanColumns  = 8
	startColumns = 20
)

func (p *jobsPage) view(columns, rows int) []string {
	name := max(columns-2-stateColumns-countColumns-meanColumns-startColumns-2, 10)
	head := "  " + fit("JOB", name) + "  " + fit("STATE", stateColumns) + fitRight("GRADED", countColumns) + fitRight("MEAN", meanColumns) + fitRight("STARTED", startColumns)
	out := []string{fit(faint.on(head), columns)}
	from, to := p.list.rows()
	for i := from; i < to; i++ {
		out = append(out, marked(p.jobs[p.shown[i]].line(name), columns, i == p.list.cursor))
	}
	if len(p.shown) == 0 {
		out = append(out, faint.on("  "+p.nothing()))
	}
	for len(out) < rows-1 {
		out = append(out, "")
	}
	if p.search.open {
		return append(out, p.search.view(columns))
	}
	return append(out, faint.on(fit(fmt.Sprintf("%d of %s", len(p.shown), plural(len(p.jobs), "job")), columns)))
}

func (p *jobsPage) nothing() string {
	switch {
	case p.err != nil:
		return firstLine(p.err.Error())
	case p.looking:
		return "reading…"
	case len(p.jobs) > 0:
		return "no job fits"
	}
	return "no jobs here"
}

func (j *jobLine) line(name int) string {
	s := fit(clean(j.name), name) + "  "
	if j.result == nil {
		if j.err != nil && !errors.Is(j.err, fs.ErrNotExist) {
			return s + red.on(firstLine(j.err.Error()))
		}
		return s + faint.on("no result yet")
	}
	state, _, _ := strings.Cut(unpainted(stateOf(j.result, j.running)), " by ")
	s += stateLook(j).on(fit(state, stateColumns)) + fitRight(fmt.Sprintf("%d of %d", gradedIn(j.result), j.result.NTotalTrials), countColumns)
	begun := ""
	if t := j.begun(); !t.IsZero() {
		begun = t.Local().Format("2006-01-02 15:04")
	}
	return s + fitRight(stats.MeanText(j.mean), meanColumns) + faint.on(fitRight(begun, startColumns))
}

func stateLook(j *jobLine) paint {
	switch {
	case j.running:
		return cyan
	case j.result.FinishedAt != nil:
		return green
	}
	return yellow
}

// gradedIn is how many trials of a job are graded, as its own result says.
func gradedIn(r *trials.JobResult) (graded int) {
	if r.Harborgate != nil {
		return r.Harborgate.Graded
	}
	for _, e := range r.Stats.Evals {
		graded += e.NTrials
	}
	return graded
}

// meanIn is the mean of a job with one arm. Harbor's results do not say it; then the
// trials do, once they have ended.
func meanIn(path string, r *trials.JobResult, running bool) *float64 {
	if r.Harborgate != nil && r.Harborgate.Mean != nil {
		return r.Harborgate.Mean
	}
	if running || len(r.Stats.Evals) != 1 {
		return nil
	}
	found, err := results.ReadTrials(path)
	if err != nil {
		return nil
	}
	var all []stats.Trial
	for _, f := range found {
		if f.Result != nil {
			all = append(all, stats.Of(f.Result))
		}
	}
	return stats.Mean(all)
}
