package main

import (
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// mostPrinted is how much of one text from a sandbox a line shows.
const mostPrinted = 500

// printable makes text that came out of a sandbox safe for a terminal: control
// characters are shown, not obeyed, and length is bounded.
func printable(s string) string {
	if r := []rune(s); len(r) > mostPrinted {
		s = string(r[:mostPrinted]) + "…"
	}
	return visible(s)
}

// oneLine is printable text without line ends and tabs, as names are shown.
func oneLine(s string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(printable(s))
}

// printableEnds is printable for a message of which the first line says what failed and
// the end why, as with the output of a build. whole is where all of it can be read.
func printableEnds(s, whole string) string {
	first, rest, _ := strings.Cut(s, "\n")
	end := []rune(rest)
	if len([]rune(s)) <= mostPrinted {
		return printable(s)
	}
	if cut := len(end) - mostPrinted; cut > 0 {
		_, after, found := strings.Cut(string(end[cut:]), "\n")
		if rest = after; !found {
			rest = string(end[cut:])
		}
	}
	return printable(first) + "\n[…, all of it: " + whole + "]\n" + printable(rest)
}

// printableWriter lets nothing through that a terminal would obey. What is written
// at once must be whole characters.
type printableWriter struct{ to io.Writer }

func (w printableWriter) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.to, visible(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// visible writes what a terminal would obey, or show in another place than it stands, as
// Go would: in JSON, too, that is another spelling of the same. Line ends and tabs stay.
func visible(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if !strings.ContainsFunc(s, obeyed) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if obeyed(r) {
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func obeyed(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }
