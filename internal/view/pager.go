package view

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

const sideStep = 8 // columns

// pager shows a text that may be huge and may grow. A file is looked at again at
// every tick: what was appended is there, one that was replaced is opened anew.
type pager struct {
	name string // shown
	text text

	dir  *folder // of a file, nil for a text in memory
	path string
	file *os.File
	info fs.FileInfo
	err  error // why nothing is shown

	size   size
	top    int64
	left   int // columns that are scrolled away
	follow bool
	shown  []line
	binary bool

	search prompt
	word   string // that was searched for last
	said   string // how that went
	stop   context.CancelFunc
	round  int // of searches; an answer to an earlier one is late
}

// found answers a search.
type found struct {
	pager *pager
	round int
	at    int64 // -1 is nowhere
	err   error
}

// newFilePager shows a file of a directory, at its end when it is followed.
func newFilePager(dir *folder, path string, follow bool) *pager {
	p := &pager{name: clean(path), dir: dir, path: path, follow: follow, search: prompt{label: "search: "}}
	p.reopen()
	return p
}

// newTextPager shows a text in memory.
func newTextPager(name, content string) *pager {
	p := &pager{name: clean(name), search: prompt{label: "search: "}}
	p.text = text{src: strings.NewReader(content), size: int64(len(content))}
	return p
}

func (p *pager) title() string { return p.name }

func (p *pager) start() tea.Cmd { return nil }

func (p *pager) typing() bool { return p.search.open }

func (p *pager) close() {
	p.cancel()
	if p.file != nil {
		_ = p.file.Close()
		p.file = nil
	}
}

// cancel ends a search that runs.
func (p *pager) cancel() {
	p.round++
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
}

func (p *pager) reopen() {
	if p.file != nil {
		_ = p.file.Close()
		p.file = nil
	}
	file, info, err := p.dir.open(p.path)
	p.err = err
	if err != nil {
		p.text, p.shown = text{}, nil
		return
	}
	p.cancel()
	p.file, p.info, p.text = file, info, text{src: file, size: info.Size()}
	p.binary = p.text.binary()
}

// refresh looks whether the file grew, shrank or was replaced.
func (p *pager) refresh() {
	if p.dir == nil {
		return
	}
	named, err := p.dir.root.Lstat(p.path)
	if p.file == nil || err == nil && !os.SameFile(named, p.info) {
		p.reopen()
		return
	}
	if fi, err := p.file.Stat(); err == nil && fi.Size() != p.text.size {
		p.text.size = fi.Size()
		p.binary = p.text.binary()
	}
}

func (p *pager) update(msg tea.Msg) action {
	var a action
	switch msg := msg.(type) {
	case size:
		p.size = size{msg.columns, max(msg.rows-1, 1)}
	case tick:
		p.refresh()
	case found:
		p.take(msg)
	case tea.PasteMsg:
		p.search.take(msg)
	case tea.KeyPressMsg:
		if p.search.open {
			a.cmd = p.typed(msg)
			break
		}
		a.cmd = p.key(msg.String())
	}
	p.settle()
	return a
}

func (p *pager) typed(msg tea.KeyPressMsg) tea.Cmd {
	if !p.search.take(msg) || p.search.text == "" {
		return nil
	}
	p.word = p.search.text
	return p.find(false, p.top)
}

func (p *pager) key(k string) tea.Cmd {
	switch k {
	case "/":
		p.search.open, p.search.text = true, ""
	case "n":
		return p.find(false, p.below())
	case "N":
		return p.find(true, p.top)
	case "f":
		p.follow = !p.follow
	case "left", "h":
		p.left = max(0, p.left-sideStep)
	case "right", "l":
		p.left = min(longest, p.left+sideStep)
	case "0":
		p.left = 0
	default:
		p.scroll(k)
	}
	return nil
}

// below is the place of the second line on the screen.
func (p *pager) below() int64 {
	if len(p.shown) > 1 {
		return p.shown[1].at
	}
	return p.text.size
}

func (p *pager) scroll(k string) {
	const all = 1 << 30
	by, ok := stepOf(k, all, p.size.rows)
	switch {
	case !ok:
	case by == all:
		p.toEnd()
	case by == -all:
		p.follow, p.top = false, 0
	case by < 0:
		p.follow = false
		p.top, p.err = p.text.back(p.top, -by)
	default:
		lines, err := p.text.lines(p.top, by+1)
		if p.err = err; len(lines) > 0 {
			p.top = lines[len(lines)-1].at
		}
	}
}

// toEnd shows the last lines. Pieces of long lines begin elsewhere when they are
// read from above, so there may be more of them than on the way up.
func (p *pager) toEnd() {
	if p.top, p.err = p.text.back(p.text.size, p.size.rows); p.err != nil {
		return
	}
	var lines []line
	if lines, p.err = p.text.lines(p.top, 2*p.size.rows); len(lines) > p.size.rows {
		p.top = lines[len(lines)-p.size.rows].at
	}
}

// settle reads what is shown: as many lines as there is room for, also at the end.
func (p *pager) settle() {
	if p.size.rows == 0 || p.text.src == nil || p.binary {
		return
	}
	p.top = min(p.top, p.text.size)
	if p.follow {
		p.toEnd()
	}
	for range 2 {
		if p.shown, p.err = p.text.lines(p.top, p.size.rows); p.err != nil || len(p.shown) == p.size.rows || p.top == 0 {
			return
		}
		p.toEnd()
	}
}

// find starts a search; the pager stays usable.
func (p *pager) find(back bool, at int64) tea.Cmd {
	p.cancel()
	if p.word == "" || p.text.src == nil {
		return nil
	}
	p.follow, p.said = false, "searching…"
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	t, word, round := p.text, []byte(p.word), p.round
	search := t.find
	if back {
		search = t.findBack
	}
	return func() tea.Msg {
		at, err := search(word, at, ctx.Err)
		return found{p, round, at, err}
	}
}

func (p *pager) take(f found) {
	if f.pager != p || f.round != p.round {
		return
	}
	p.cancel()
	switch {
	case f.err != nil:
		p.said = clean(f.err.Error())
	case f.at < 0:
		p.said = "no more " + p.word
	default:
		p.said = ""
		p.top, p.err = p.text.start(f.at)
	}
}

func (p *pager) view(columns, rows int) []string {
	out := p.content(columns)
	for len(out) < rows-1 {
		out = append(out, faint.on("~"))
	}
	return append(out[:min(len(out), rows-1)], p.status(columns))
}

func (p *pager) content(columns int) []string {
	switch {
	case p.err != nil && !errors.Is(p.err, io.EOF):
		return wrap(p.err.Error(), columns)
	case p.binary:
		return []string{fmt.Sprintf("binary content, %s: not shown", sizeText(p.text.size))}
	case p.text.size == 0:
		return []string{faint.on("empty")}
	}
	out := make([]string, 0, len(p.shown))
	for _, l := range p.shown {
		s := clean(string(bytes.TrimSuffix(l.raw, []byte("\r"))))
		if p.left > 0 {
			s = ansi.Cut(s, p.left, p.left+columns+1)
		}
		out = append(out, fit(highlight(s, p.word), columns))
	}
	return out
}

// highlight paints every occurrence of a word.
func highlight(s, word string) string {
	if word == "" {
		return s
	}
	low, want := string(lowered([]byte(s))), string(lowered([]byte(word)))
	var b strings.Builder
	for {
		i := strings.Index(low, want)
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		b.WriteString(match.on(s[i : i+len(want)]))
		s, low = s[i+len(want):], low[i+len(want):]
	}
}

func (p *pager) status(columns int) string {
	if p.search.open {
		return p.search.view(columns)
	}
	var parts []string
	if p.follow {
		parts = append(parts, cyan.on("following"))
	}
	parts = append(parts, sizeText(p.text.size))
	if n := len(p.shown); n > 0 && !p.binary {
		end := p.shown[n-1].at + int64(len(p.shown[n-1].raw))
		parts = append(parts, fmt.Sprintf("%d %%", min(100, 100*(end+1)/max(p.text.size, 1))))
	}
	if p.left > 0 {
		parts = append(parts, fmt.Sprintf("column %d", p.left+1))
	}
	if p.said != "" {
		parts = append(parts, yellow.on(p.said))
	}
	return fit(strings.Join(parts, faint.on(" · ")), columns)
}

func (p *pager) keys() []binding {
	keys := []binding{{"/", "search"}, {"n N", "next, previous"}, {"← →", "sideways"}}
	if p.dir != nil {
		keys = append([]binding{{"f", "follow"}}, keys...)
	}
	return keys
}
