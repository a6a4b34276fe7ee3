package view

import (
	"path"

	tea "charm.land/bubbletea/v2"

	"harborgate/trials/results"
)

// mostLogs is how many logs are listed; all files are under "files".
const mostLogs = 500

// logFile is a log that can be opened.
type logFile struct {
	group string // whose it is
	path  string
	size  int64
}

// logs lists what agent, verifier and harness wrote.
type logs struct {
	dir   *folder
	runs  func() bool
	files []logFile
	list  list
	size  size
	read  bool
}

func newLogs(dir *folder, runs func() bool) *logs { return &logs{dir: dir, runs: runs} }

// refresh finds the logs, also those of steps and of earlier tries' last one.
func (l *logs) refresh() {
	l.read = true
	l.files = l.files[:0]
	l.gather("agent", "agent", 1)
	l.gather("verifier", "verifier", 1)
	steps, _, err := l.dir.list("steps")
	if err == nil {
		for _, s := range steps {
			for _, group := range []string{"agent", "verifier"} {
				l.gather(group, path.Join("steps", s.name, group), 1)
			}
		}
	}
	for _, name := range []string{results.TrialLogFile, results.ExceptionFile} {
		if fi, err := l.dir.root.Lstat(name); err == nil && fi.Mode().IsRegular() {
			l.files = append(l.files, logFile{"harness", name, fi.Size()})
		}
	}
	l.layOut()
}

// gather adds the regular files of a directory and of those in it.
func (l *logs) gather(group, dir string, deeper int) {
	found, _, err := l.dir.list(dir)
	if err != nil {
		return // that part never began
	}
	for _, e := range found {
		name := path.Join(dir, e.name)
		switch {
		case len(l.files) == mostLogs:
			return
		case e.mode.IsRegular():
			l.files = append(l.files, logFile{group, name, e.size})
		case e.mode.IsDir() && deeper > 0:
			l.gather(group, name, deeper-1)
		}
	}
}

func (l *logs) layOut() { l.list.resize(len(l.files), l.size.rows-1) }

func (l *logs) update(msg tea.Msg) action {
	switch msg := msg.(type) {
	case size:
		l.size = msg
		l.layOut()
	case tick:
		if !l.read || l.runs() {
			l.refresh()
		}
	case tea.KeyPressMsg:
		switch k := msg.String(); k {
		case "enter", "right", "l":
			if l.list.cursor < len(l.files) {
				return action{open: newFilePager(l.dir, l.files[l.list.cursor].path, l.runs())}
			}
		default:
			l.list.key(k)
		}
	}
	return action{}
}

func (l *logs) keys() []binding { return []binding{{"enter", "open"}} }

// groupColumns are those of whose log it is.
const groupColumns = 10

func (l *logs) view(columns, rows int) []string {
	if len(l.files) == 0 {
		return []string{faint.on("  no logs")}
	}
	var out []string
	from, to := l.list.rows()
	for i := from; i < to; i++ {
		f := l.files[i]
		group := f.group
		if i > from && l.files[i-1].group == group {
			group = ""
		}
		s := faint.on(fit(group, groupColumns)) + fit(clean(f.path), columns-2-groupColumns-sizeColumns) + faint.on(fitRight(sizeText(f.size), sizeColumns))
		out = append(out, marked(s, columns, i == l.list.cursor))
	}
	return out
}
