package tools

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

func grep(c *call) int {
	opt, args, err := c.parse("qivncFEoxsrRhHwle:")
	if err == nil && opt.has('e') {
		args = slices.Insert(args, 0, opt['e'])
	}
	if err == nil && len(args) == 0 {
		err = errors.New("missing pattern")
	}
	if err != nil {
		return c.usage(err)
	}
	re, err := grepPattern(opt, args[0])
	if err != nil {
		return c.usage(err)
	}
	return c.grepAll(opt, re, args[1:])
}

// grepAll returns 0 when a line matched, 1 when none did, 2 when that is not
// known.
func (c *call) grepAll(opt flags, re *regexp.Regexp, names []string) int {
	matched := false
	code := c.each(names, func(name string, r io.Reader) error {
		label := ""
		if len(names) > 1 && !opt.has('h') {
			label = name + ":"
		}
		hit, err := c.grepFile(opt, re, label, r)
		matched = matched || hit
		return err
	})
	switch {
	case code != 0 && !matched:
		return 2
	case matched:
		return 0
	}
	return 1
}

func grepPattern(opt flags, pattern string) (*regexp.Regexp, error) {
	if opt.has('F') {
		pattern = regexp.QuoteMeta(pattern)
	} else if !opt.has('E') {
		pattern = basicRegexp(pattern)
	}
	if opt.has('w') {
		pattern = `\b(?:` + pattern + `)\b`
	}
	if opt.has('x') {
		pattern = `^(?:` + pattern + `)$`
	}
	if opt.has('i') {
		pattern = `(?i)` + pattern
	}
	return regexp.Compile(pattern)
}

// basicRegexp swaps the meaning of escaped and plain operators.
func basicRegexp(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && strings.IndexByte("+?|(){}", s[i+1]) >= 0:
			i++
			b.WriteByte(s[i])
		case strings.IndexByte("+?|(){}", s[i]) >= 0:
			b.WriteByte('\\')
			b.WriteByte(s[i])
		case s[i] == '\\' && i+1 < len(s):
			b.WriteByte(s[i])
			i++
			b.WriteByte(s[i])
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func (c *call) grepFile(opt flags, re *regexp.Regexp, label string, r io.Reader) (bool, error) {
	hits, number := 0, 0
	err := c.lines(r, func(line string) error {
		number++
		if re.MatchString(line) == opt.has('v') {
			return nil
		}
		hits++
		if opt.has('q') || opt.has('l') {
			return errEnough
		}
		if opt.has('c') {
			return nil
		}
		if opt.has('n') {
			_, _ = fmt.Fprintf(c.out, "%s%d:%s\n", label, number, line)
			return nil
		}
		out := []string{line}
		if opt.has('o') {
			out = re.FindAllString(line, -1)
		}
		for _, s := range out {
			_, _ = fmt.Fprintln(c.out, label+s)
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	if opt.has('c') {
		_, _ = fmt.Fprintf(c.out, "%s%d\n", label, hits)
	}
	return hits > 0, err
}
