package tools

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

func tr(c *call) int {
	opt, sets, err := c.parse("dsc")
	if err == nil && (len(sets) == 0 || len(sets) == 1 && !opt.has('d') && !opt.has('s')) {
		err = errors.New("missing operand")
	}
	if err != nil {
		return c.usage(err)
	}
	t := newTranslation(opt, sets)
	b := make([]byte, 32<<10)
	for {
		n, err := c.p.Read(0, b)
		for _, ch := range b[:n] {
			if out, keep := t.translate(ch); keep {
				_ = c.out.WriteByte(out)
			}
		}
		if err != nil {
			return 0
		}
		if err := c.out.Flush(); err != nil {
			return c.failf("write error: %v", err)
		}
	}
}

// translation is what tr does with each byte.
type translation struct {
	from, to        []byte
	remove, squeeze bool
	last            int // the byte written last, -1 before the first
}

func newTranslation(opt flags, sets []string) *translation {
	t := &translation{from: trSet(sets[0]), remove: opt.has('d'), squeeze: opt.has('s'), last: -1}
	if opt.has('c') {
		listed := t.from
		t.from = nil
		for i := range 256 {
			if !slices.Contains(listed, byte(i)) {
				t.from = append(t.from, byte(i))
			}
		}
	}
	if len(sets) > 1 {
		t.to = trSet(sets[1])
	}
	return t
}

func (t *translation) translate(ch byte) (out byte, keep bool) {
	i := slices.Index(t.from, ch)
	listed := i >= 0
	switch {
	case listed && t.remove:
		return 0, false
	case listed && len(t.to) > 0:
		ch = t.to[min(i, len(t.to)-1)]
	}
	if t.squeeze && listed && t.last == int(ch) {
		return 0, false
	}
	t.last = int(ch)
	return ch, true
}

// trSet expands ranges, classes and escapes.
func trSet(s string) []byte {
	for class, members := range map[string]string{
		"[:lower:]": "a-z", "[:upper:]": "A-Z", "[:digit:]": "0-9", "[:space:]": " \t\n\v\f\r", "[:alpha:]": "a-zA-Z",
		"[:alnum:]": "0-9A-Za-z",
	} {
		s = strings.ReplaceAll(s, class, members)
	}
	if unquoted, err := strconv.Unquote(`"` + strings.NewReplacer(`"`, `\"`, `\0`, `\x00`).Replace(s) + `"`); err == nil {
		s = unquoted
	}
	var out []byte
	for i := 0; i < len(s); i++ {
		if i+2 < len(s) && s[i+1] == '-' && s[i] <= s[i+2] {
			for ch := int(s[i]); ch <= int(s[i+2]); ch++ {
				out = append(out, byte(ch))
			}
			i += 2
			continue
		}
		out = append(out, s[i])
	}
	return out
}
