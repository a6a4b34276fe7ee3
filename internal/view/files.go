package view

import (
	"io/fs"
	"path"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// node is a line of a tree.
type node struct {
	entry
	path  string
	depth int
	open  bool   // a directory whose entries follow
	said  string // in place of a size
}

// tree shows the files of a trial; a directory is read when it is opened.
type tree struct {
	dir   *folder
	runs  func() bool
	nodes []node
	list  list
	size  size
	read  bool
}

func newTree(dir *folder, runs func() bool) *tree { return &tree{dir: dir, runs: runs} }

// entries are the lines for a directory.
func (t *tree) entries(dir string, depth int) []node {
	found, more, err := t.dir.list(dir)
	out := make([]node, 0, len(found))
	for _, e := range found {
		out = append(out, node{entry: e, path: path.Join(dir, e.name), depth: depth})
	}
	switch {
	case err != nil:
		out = append(out, node{depth: depth, said: firstLine(err.Error())})
	case more:
		out = append(out, node{depth: depth, said: "and more, which are not listed"})
	case len(found) == 0:
		out = append(out, node{depth: depth, said: "empty"})
	}
	return out
}

// refresh reads all open directories anew.
func (t *tree) refresh() {
	open := map[string]bool{}
	for _, n := range t.nodes {
		if n.open {
			open[n.path] = true
		}
	}
	t.nodes = t.unfold(".", 0, open)
	t.read = true
	t.layOut()
}

func (t *tree) unfold(dir string, depth int, open map[string]bool) []node {
	var out []node
	for _, n := range t.entries(dir, depth) {
		n.open = open[n.path] && n.mode.IsDir()
		out = append(out, n)
		if n.open {
			out = append(out, t.unfold(n.path, depth+1, open)...)
		}
	}
	return out
}

func (t *tree) layOut() { t.list.resize(len(t.nodes), t.size.rows-1) }

func (t *tree) update(msg tea.Msg) action {
	var a action
	switch msg := msg.(type) {
	case size:
		t.size = msg
	case tick:
		if !t.read || t.runs() {
			t.refresh()
		}
	case tea.KeyPressMsg:
		a = t.key(msg.String())
	}
	t.layOut()
	return a
}

func (t *tree) key(k string) action {
	switch k {
	case "r":
		t.refresh()
	case "enter", "right", "l":
		return t.enter(k == "enter")
	case "left", "h":
		t.leave()
	default:
		t.list.key(k)
	}
	return action{}
}

// enter opens a directory, or the file; a directory that is open is closed again
// when the key toggles.
func (t *tree) enter(toggle bool) action {
	if t.list.cursor >= len(t.nodes) {
		return action{}
	}
	n := &t.nodes[t.list.cursor]
	switch {
	case n.mode.IsDir() && n.name != "" && n.open:
		if toggle {
			t.fold(t.list.cursor)
		}
	case n.mode.IsDir() && n.name != "":
		n.open = true
		at := t.list.cursor + 1
		t.nodes = append(t.nodes[:at:at], append(t.entries(n.path, n.depth+1), t.nodes[at:]...)...)
	case n.name != "" && n.mode.IsRegular():
		return action{open: newFilePager(t.dir, n.path, false)}
	}
	return action{}
}

// leave closes the directory that the cursor is on, or in.
func (t *tree) leave() {
	at := t.list.cursor
	if at >= len(t.nodes) {
		return
	}
	if !t.nodes[at].open {
		for depth := t.nodes[at].depth; at >= 0 && t.nodes[at].depth >= depth; {
			at--
		}
	}
	if at >= 0 {
		t.list.move(at - t.list.cursor)
		t.fold(at)
	}
}

func (t *tree) fold(at int) {
	t.nodes[at].open = false
	end := at + 1
	for end < len(t.nodes) && t.nodes[end].depth > t.nodes[at].depth {
		end++
	}
	t.nodes = append(t.nodes[:at+1], t.nodes[end:]...)
}

func (t *tree) keys() []binding {
	return []binding{{"enter", "open"}, {"←", "close"}, {"r", "read again"}}
}

// sizeColumns are those of sizes.
const sizeColumns = 11

func (t *tree) view(columns, rows int) []string {
	var out []string
	from, to := t.list.rows()
	for i := from; i < to; i++ {
		n := &t.nodes[i]
		name, note := n.words()
		s := fit(strings.Repeat("  ", n.depth)+name, columns-2-sizeColumns) + faint.on(fitRight(note, sizeColumns))
		out = append(out, marked(s, columns, i == t.list.cursor))
	}
	return out
}

// words are a line's name and what stands behind it.
func (n *node) words() (name, note string) {
	switch {
	case n.name == "":
		return faint.on(n.said), ""
	case n.open:
		return "▾ " + bold.on(clean(n.name)+"/"), ""
	case n.mode.IsDir():
		return "▸ " + bold.on(clean(n.name)+"/"), ""
	case n.mode&fs.ModeSymlink != 0:
		return "  " + clean(n.name) + faint.on(" → "+clean(n.target)), "link"
	case !n.mode.IsRegular():
		return "  " + clean(n.name), strings.TrimPrefix(strings.TrimPrefix(kindOf(n.mode), "a "), "no ")
	}
	return "  " + clean(n.name), sizeText(n.size)
}
