package view

import (
	"errors"
	"io/fs"
	"path/filepath"

	tea "charm.land/bubbletea/v2"

	"harborgate/trials"
	"harborgate/trials/results"
)

// tab is a part of a trial's page. Like a page, but only the one in front is told
// of ticks.
type tab interface {
	update(msg tea.Msg) action
	view(columns, rows int) []string
	keys() []binding
}

// trialPage shows one trial in tabs.
type trialPage struct {
	host   host
	dir    *folder
	name   string
	active func(name string) *active

	tabs  []tab
	front int
	info  fs.FileInfo // of the result that is shown
	over  *overview
}

// tabNames are the tabs in their order; a digit chooses one.
func tabNames() []string { return []string{"overview", "logs", "tests", "files", "config"} }

// openTrial opens a trial's directory. activity says what a trial does now.
func openTrial(h host, path string, activity func(name string) *active) (*trialPage, error) {
	dir, err := openFolder(path)
	if err != nil {
		return nil, err
	}
	p := &trialPage{host: h, dir: dir, name: filepath.Base(path), active: activity}
	p.over = &overview{host: h, job: clean(h.shown(filepath.Dir(path)))}
	p.tabs = []tab{p.over, newLogs(dir, p.runs), newTests(dir), newTree(dir, p.runs), newFilePager(dir, results.ConfigFile, false)}
	return p, nil
}

func (p *trialPage) title() string { return clean(p.name) }

func (p *trialPage) start() tea.Cmd { return p.reread() }

func (p *trialPage) typing() bool {
	pager, ok := p.tabs[p.front].(*pager)
	return ok && pager.typing()
}

func (p *trialPage) close() {
	for _, t := range p.tabs {
		if c, ok := t.(*pager); ok {
			c.close()
		}
	}
	p.dir.close()
}

// runs reports whether the trial has no result yet: what grows is then followed.
func (p *trialPage) runs() bool { return p.over.result == nil }

// trialRead is a trial's result and those of its earlier tries.
type trialRead struct {
	dir    *folder
	result *trials.Result
	tries  []*trials.Result
	err    error
}

// reread reads the result when it changed.
func (p *trialPage) reread() tea.Cmd {
	dir, last := p.dir, p.info
	fi, err := dir.root.Lstat(results.ResultFile)
	if err == nil && same(fi, last) {
		return nil
	}
	p.info = fi
	if err != nil {
		p.info = nil
	}
	return func() tea.Msg { return readTrial(dir) }
}

func readTrial(dir *folder) trialRead {
	r := trialRead{dir: dir}
	r.result, r.err = dir.result(".")
	if errors.Is(r.err, fs.ErrNotExist) {
		r.err = nil
	}
	kept, _, err := dir.list(results.TriesDir)
	if err != nil {
		return r // there was one try
	}
	for _, e := range kept {
		if x, err := dir.result(filepath.Join(results.TriesDir, e.name)); err == nil {
			r.tries = append(r.tries, x)
		}
	}
	return r
}

func (p *trialPage) update(msg tea.Msg) action {
	switch msg := msg.(type) {
	case size:
		msg.rows = max(msg.rows-2, 0)
		return p.tell(msg)
	case tick:
		p.over.active = p.active(p.name)
		a := p.tabs[p.front].update(msg)
		a.cmd = tea.Batch(a.cmd, p.reread())
		return a
	case trialRead:
		if msg.dir == p.dir {
			p.over.active = p.active(p.name)
			p.over.take(msg)
		}
		return action{}
	case tea.KeyPressMsg:
		if p.typing() {
			break
		}
		if i, ok := p.choice(msg.String()); ok {
			p.front = i
			return p.tabs[i].update(tick{})
		}
	}
	if _, key := msg.(tea.KeyPressMsg); key {
		return p.tabs[p.front].update(msg)
	}
	return p.tell(msg)
}

func (p *trialPage) tell(msg tea.Msg) action {
	var cmds []tea.Cmd
	for _, t := range p.tabs {
		cmds = append(cmds, t.update(msg).cmd)
	}
	return action{cmd: tea.Batch(cmds...)}
}

// choice is the tab that a key chooses.
func (p *trialPage) choice(k string) (int, bool) {
	n := len(p.tabs)
	switch {
	case k == "tab":
		return (p.front + 1) % n, true
	case k == "shift+tab":
		return (p.front + n - 1) % n, true
	case len(k) == 1 && k[0] > '0' && int(k[0]-'0') <= n:
		return int(k[0] - '1'), true
	}
	return 0, false
}

func (p *trialPage) view(columns, rows int) []string {
	bar := ""
	for i, name := range tabNames() {
		label := " " + string(rune('1'+i)) + " " + name + " "
		if i == p.front {
			label = reverse.on(label)
		}
		bar += label + " "
	}
	return append([]string{fit(bar, columns), ""}, p.tabs[p.front].view(columns, rows-2)...)
}

func (p *trialPage) keys() []binding {
	return append([]binding{{"1–5 tab", "choose a part"}}, p.tabs[p.front].keys()...)
}
