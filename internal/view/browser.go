package view

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// page is one level of the browser: a list of jobs, a job, a trial, a text. All of
// its methods are called by one goroutine; what takes time happens in commands.
type page interface {
	title() string
	// start returns the command that reads what the page shows.
	start() tea.Cmd
	// update takes keys while the page is in front, and at all times a size of its
	// body, ticks, and the answers to its commands.
	update(msg tea.Msg) action
	// view returns at most so many lines of at most so many columns.
	view(columns, rows int) []string
	keys() []binding
	// typing reports that a text is being entered: every key belongs to it.
	typing() bool
	close()
}

// action is what a page wants to happen.
type action struct {
	cmd  tea.Cmd
	open page // goes in front
}

// binding is one line of the help, and a part of the footer when it is short.
type binding struct{ key, does string }

// tick comes at human speed, for whatever may have changed on disk: it works on
// every file system, and costs a few calls.
type tick struct{ time.Time }

const tickPause = 500 * time.Millisecond

func nextTick() tea.Cmd {
	return tea.Tick(tickPause, func(t time.Time) tea.Msg { return tick{t} })
}

// size is that of a page's body.
type size struct{ columns, rows int }

// What the frame takes of the screen, and what a page needs at least.
const (
	frameRows    = 3 // title, rule, footer
	leastColumns = 24
	leastRows    = frameRows + 3
)

// browser is the program's model: a stack of pages, the last in front.
type browser struct {
	pages         []page
	columns, rows int
	help          *list // the help is in front
}

func newBrowser(first page) *browser { return &browser{pages: []page{first}} }

// Init implements tea.Model.
func (b *browser) Init() tea.Cmd { return tea.Batch(b.front().start(), nextTick()) }

func (b *browser) front() page { return b.pages[len(b.pages)-1] }

func (b *browser) body() size { return size{b.columns, max(b.rows-frameRows, 0)} }

// Update implements tea.Model.
func (b *browser) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		b.columns, b.rows = msg.Width, msg.Height
		return b, b.tell(b.body())
	case tea.KeyPressMsg:
		return b, b.key(msg)
	case tea.PasteMsg:
		if b.front().typing() {
			return b, b.do(b.front().update(msg))
		}
		return b, nil
	case tick:
		return b, tea.Batch(b.tell(msg), nextTick())
	}
	return b, b.tell(msg)
}

// tell is for all pages: one in the back goes on reading.
func (b *browser) tell(msg tea.Msg) tea.Cmd {
	var cmds []tea.Cmd
	for _, p := range b.pages {
		cmds = append(cmds, p.update(msg).cmd)
	}
	return tea.Batch(cmds...)
}

func (b *browser) do(a action) tea.Cmd {
	if a.open == nil {
		return a.cmd
	}
	b.pages = append(b.pages, a.open)
	first := a.open.update(b.body())
	return tea.Batch(a.cmd, first.cmd, a.open.start())
}

func (b *browser) key(msg tea.KeyPressMsg) tea.Cmd {
	k := msg.String()
	switch {
	case k == "ctrl+c":
		return b.quit()
	case k == "ctrl+z":
		return tea.Suspend
	case b.front().typing():
		return b.do(b.front().update(msg))
	case b.help != nil:
		b.helpKey(k)
		return nil
	}
	switch k {
	case "q":
		return b.quit()
	case "?":
		b.help = &list{}
		return nil
	case "esc", "backspace":
		return b.back()
	}
	return b.do(b.front().update(msg))
}

func (b *browser) helpKey(k string) {
	if !b.help.key(k) {
		b.help = nil
	}
}

// back leaves the page in front; there is always one.
func (b *browser) back() tea.Cmd {
	if len(b.pages) > 1 {
		b.front().close()
		b.pages = b.pages[:len(b.pages)-1]
	}
	return nil
}

func (b *browser) quit() tea.Cmd {
	for _, p := range b.pages {
		p.close()
	}
	return tea.Quit
}

// View implements tea.Model.
func (b *browser) View() tea.View {
	v := tea.NewView(b.screen())
	v.AltScreen = true
	return v
}

func (b *browser) screen() string {
	if b.columns == 0 {
		return ""
	}
	if b.columns < leastColumns || b.rows < leastRows {
		return fit(fmt.Sprintf("%d×%d is too small", b.columns, b.rows), b.columns)
	}
	s := b.body()
	lines := []string{b.heading(), faint.on(strings.Repeat("─", b.columns))}
	var body []string
	if b.help != nil {
		body = b.helpText(s)
	} else {
		body = b.front().view(s.columns, s.rows)
	}
	for _, l := range body[:min(len(body), s.rows)] {
		lines = append(lines, fit(l, s.columns))
	}
	for len(lines) < b.rows-1 {
		lines = append(lines, "")
	}
	return strings.Join(append(lines, b.footer()), "\n")
}

// heading is the way to the page in front; of a long one the end is shown.
func (b *browser) heading() string {
	const sep = " › "
	names := make([]string, len(b.pages))
	for i, p := range b.pages {
		names[i] = p.title()
	}
	for len(names) > 1 && width(strings.Join(names, sep)) > b.columns {
		names = names[1:]
		if w := width("… " + strings.Join(names, sep)); w <= b.columns || len(names) == 1 {
			names[0] = "… " + names[0]
			break
		}
	}
	last := len(names) - 1
	path := strings.Join(names[:last], sep)
	if path != "" {
		path += sep
	}
	return fit(faint.on(path)+title.on(names[last]), b.columns)
}

// everywhere are keys that every page has.
func everywhere() []binding {
	return []binding{{"esc", "back"}, {"?", "help"}, {"q", "quit"}}
}

// footer shows as many keys as there is room for; help and quit are always there.
func (b *browser) footer() string {
	const gap = "  "
	keys := b.front().keys()
	always := everywhere()
	if len(b.pages) == 1 {
		always = always[1:]
	}
	if b.help != nil {
		keys, always = nil, []binding{{"any key", "closes the help"}}
	}
	if b.front().typing() {
		keys, always = nil, []binding{{"enter", "take"}, {"esc", "drop"}}
	}
	room := b.columns
	for _, k := range always {
		room -= width(k.key+" "+k.does) + len(gap)
	}
	var parts []string
	for _, k := range keys {
		if room -= width(k.key+" "+k.does) + len(gap); room < 0 {
			break
		}
		parts = append(parts, bold.on(k.key)+" "+faint.on(k.does))
	}
	for _, k := range always {
		parts = append(parts, bold.on(k.key)+" "+faint.on(k.does))
	}
	return fit(strings.Join(parts, gap), b.columns)
}

// moving are the keys that move in lists and texts.
func moving() []binding {
	return []binding{
		{"↑ ↓  k j", "one row up or down"}, {"pgup pgdn  ctrl+b space", "one screen up or down"},
		{"ctrl+u ctrl+d", "half a screen up or down"}, {"home end  g G", "to the first or last row"},
	}
}

func (b *browser) helpText(s size) []string {
	var lines []string
	add := func(heading string, keys []binding) {
		lines = append(lines, "", "  "+bold.on(heading))
		for _, k := range keys {
			lines = append(lines, fit("    "+fit(k.key, 26)+k.does, s.columns))
		}
	}
	add("Here", b.front().keys())
	add("Moving", moving())
	add("Everywhere", append(everywhere(), binding{"ctrl+c", "quit, also while typing"}))
	b.help.resize(len(lines)-s.rows+1, 1)
	return lines[min(b.help.cursor, max(0, len(lines)-s.rows)):]
}
