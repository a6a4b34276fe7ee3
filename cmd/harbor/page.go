package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
)

// page is what a command says, to be written as text or as Markdown. Its strings
// may come from anywhere: both writers make them harmless.
type page []block

// block is a part of a page. What is empty is left out.
type block struct {
	heading string
	facts   []fact
	head    []string // of the table
	rows    [][]string
	notes   []string // below it
}

// fact is a label and what belongs to it.
type fact struct {
	label string
	parts []string
}

// add appends a fact that has parts.
func (b *block) add(label string, parts ...string) {
	if len(parts) > 0 {
		b.facts = append(b.facts, fact{label, parts})
	}
}

// note appends a sentence.
func (b *block) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

// says reports whether a mark stands in the facts or rows.
func (b *block) says(mark string) bool {
	marked := func(cell string) bool { return strings.Contains(cell, mark) }
	return slices.ContainsFunc(b.facts, func(f fact) bool { return slices.ContainsFunc(f.parts, marked) }) ||
		slices.ContainsFunc(b.rows, func(row []string) bool { return slices.ContainsFunc(row, marked) })
}

// writeText writes for a terminal of 80 columns; tables may be wider.
func (p page) writeText(w io.Writer) {
	for i, b := range p {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, oneLine(b.heading))
		for _, f := range b.facts {
			writeFact(w, f)
		}
		b.textTable(w)
		for _, n := range b.notes {
			fmt.Fprintln(w, "  "+oneLine(n))
		}
	}
}

func writeFact(w io.Writer, f fact) {
	label, row := oneLine(f.label), ""
	if utf8.RuneCountInString(label) >= labelWidth {
		fmt.Fprintln(w, "  "+label)
		label = ""
	}
	flush := func() {
		fmt.Fprintf(w, "  %-*s%s\n", labelWidth, label, row)
		label, row = "", ""
	}
	for _, part := range f.parts {
		part = oneLine(part)
		switch {
		case row == "":
			row = part
		case 2+labelWidth+utf8.RuneCountInString(row+" · "+part) <= columns:
			row += " · " + part
		default:
			flush()
			row = part
		}
	}
	flush()
}

func (b *block) textTable(w io.Writer) {
	if len(b.rows) == 0 {
		return
	}
	if len(b.facts) > 0 {
		fmt.Fprintln(w)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{b.head}, b.rows...) {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = oneLine(c)
		}
		fmt.Fprintln(t, strings.TrimRight("  "+strings.Join(cells, "\t"), "\t"))
	}
	_ = t.Flush() // as with every print here: when it fails, nobody reads any more
}

// writeMarkdown writes in the dialect of GitHub. level is that of the first heading.
func (p page) writeMarkdown(w io.Writer, level int) {
	for i, b := range p {
		if i > 0 {
			fmt.Fprintln(w)
		}
		at := level
		if i > 0 {
			at++
		}
		fmt.Fprintf(w, "%s %s\n", strings.Repeat("#", at), markdown(b.heading))
		if len(b.facts) > 0 {
			fmt.Fprintln(w)
		}
		for _, f := range b.facts {
			parts := make([]string, len(f.parts))
			for i, p := range f.parts {
				parts[i] = markdown(p)
			}
			bullet := "  - " // continues the fact above
			if f.label != "" {
				bullet = "- **" + markdown(f.label) + ":** "
			}
			fmt.Fprintln(w, bullet+strings.Join(parts, " · "))
		}
		b.markdownTable(w)
		for _, n := range b.notes {
			fmt.Fprintf(w, "\n%s\n", markdown(n))
		}
	}
}

func (b *block) markdownTable(w io.Writer) {
	if len(b.rows) == 0 {
		return
	}
	fmt.Fprintln(w)
	line := func(cells []string) {
		for _, c := range cells {
			fmt.Fprint(w, "| ", markdown(c), " ")
		}
		fmt.Fprintln(w, "|")
	}
	line(b.head)
	fmt.Fprintln(w, strings.Repeat("|---", len(b.head))+"|")
	for _, row := range b.rows {
		line(row)
	}
}

// markdown makes text mean itself.
func markdown(s string) string {
	return harmlessMentions(markdownEscapes().Replace(oneLine(s)))
}

// harmlessMentions escapes the @ of what would mention somebody, and leaves pass@k alone.
func harmlessMentions(s string) string {
	var b strings.Builder
	before := ' '
	for _, r := range s {
		if r == '@' && !unicode.IsLetter(before) && !unicode.IsDigit(before) {
			b.WriteString("&#64;")
		} else {
			b.WriteRune(r)
		}
		before = r
	}
	return b.String()
}

func markdownEscapes() *strings.Replacer {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", `\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "#", `\#`)
}
