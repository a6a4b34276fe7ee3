package view

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

const (
	tabStop  = 8
	mostMark = 4 // combining marks on one letter; more of them would leave its line
)

// clean makes one line of foreign text safe to show. Colours are taken out; what
// else a terminal would obey, or what would show in another place than it stands,
// is written so that it can be read: ␛ and the like for control characters, <U+202E>
// for those that turn the direction, <FF> for bytes that are no UTF-8. Tabs become
// spaces. The result has no control and no format characters.
func clean(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	c := cleaner{out: &b}
	for len(s) > 0 {
		if n := colour(s); n > 0 {
			s = s[n:]
			continue
		}
		r, size := utf8.DecodeRuneInString(s)
		c.add(r, s[:size])
		s = s[size:]
	}
	return b.String()
}

func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// cleaner writes one line.
type cleaner struct {
	out    *strings.Builder
	column int
	marks  int // on the last letter; -1 before the first
}

func (c *cleaner) add(r rune, raw string) {
	switch {
	case r == '\t':
		c.put(strings.Repeat(" ", tabStop-c.column%tabStop))
	case r == utf8.RuneError && len(raw) == 1:
		c.put(fmt.Sprintf("<%02X>", raw[0]))
	case r < ' ':
		c.put(string('␀' + r))
	case r == 0x7f:
		c.put("␡")
	case unicode.In(r, unicode.Mn, unicode.Me):
		c.mark(r)
	case unicode.Is(unicode.Zs, r):
		c.put(" ")
	case unicode.IsPrint(r):
		c.put(raw)
	default:
		c.put(fmt.Sprintf("<U+%04X>", r))
	}
}

func (c *cleaner) put(s string) {
	c.out.WriteString(s)
	c.column += width(s)
	c.marks = 0
}

// mark adds a combining mark to the letter before it, if it has room.
func (c *cleaner) mark(r rune) {
	if c.column == 0 || c.marks == mostMark {
		c.put(fmt.Sprintf("<U+%04X>", r))
		c.marks = mostMark // the next one does not belong to the >
		return
	}
	c.out.WriteRune(r)
	c.marks++
}

// colour is the length of the sequence that a text starts with, if that only sets
// colours or clears the rest of a line.
func colour(s string) int {
	if !strings.HasPrefix(s, "\x1b[") {
		return 0
	}
	for i := 2; i < len(s); i++ {
		switch c := s[i]; {
		case c >= '0' && c <= '9' || c == ';' || c == ':':
		case c == 'm' || c == 'K':
			return i + 1
		default:
			return 0
		}
	}
	return 0
}

// width is how many columns a text takes, colours aside.
func width(s string) int {
	if isPlain(s) {
		return len(s)
	}
	return ansi.StringWidth(s)
}

// fit makes a text exactly so many columns wide: cut, with … for what is missing,
// or filled up with spaces.
func fit(s string, columns int) string {
	if columns <= 0 {
		return ""
	}
	w := width(s)
	if w > columns {
		s = ansi.Truncate(s, columns, "…")
		w = width(s)
	}
	return s + strings.Repeat(" ", max(0, columns-w))
}

// fitRight is fit for numbers, which end in one column.
func fitRight(s string, columns int) string {
	if w := width(s); w < columns {
		return strings.Repeat(" ", columns-w) + s
	}
	return fit(s, columns)
}

// wrap breaks a text, which may have several lines, into lines of so many columns:
// between words, so that commands can be copied, and within those that are too long.
func wrap(s string, columns int) []string {
	columns = max(columns, 1)
	var out []string
	for line := range strings.Lines(s) {
		row := ""
		for word := range strings.SplitAfterSeq(clean(strings.TrimRight(line, "\r\n")), " ") {
			if row != "" && width(row)+width(strings.TrimRight(word, " ")) > columns {
				out, row = append(out, row), ""
			}
			for row == "" && width(word) > columns {
				head := ansi.Truncate(word, columns, "")
				if head == "" {
					break // a wide character on one column
				}
				out, word = append(out, head), word[len(head):]
			}
			row += word
		}
		out = append(out, row)
	}
	return out
}

// firstLine is what a text says before its first line break.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return clean(line)
}

// paint is how a text looks: the parameters of an SGR sequence. Terminals without
// colours get none, so nothing is said by a colour alone.
type paint string

const (
	bold    paint = "1"
	faint   paint = "2"
	reverse paint = "7"
	red     paint = "31"
	green   paint = "32"
	yellow  paint = "33"
	cyan    paint = "36"
	title   paint = "1;36"
	match   paint = "30;43"
)

// on paints a text that is clean.
func (p paint) on(s string) string {
	if p == "" || s == "" {
		return s
	}
	return "\x1b[" + string(p) + "m" + s + "\x1b[m"
}

// sizeText prints a number of bytes.
func sizeText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	x, names := float64(n)/unit, "KMGT"
	for x >= unit && len(names) > 1 {
		x, names = x/unit, names[1:]
	}
	return fmt.Sprintf("%.1f %ciB", x, names[0])
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// unpainted takes the paint off.
func unpainted(s string) string { return ansi.Strip(s) }
