package main

import (
	"strings"
	"testing"
)

func TestPrintableObeysNothing(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain – text":           "plain – text",
		"\x1b]0;title\a\x1b[2J":  `\x1b]0;title\a\x1b[2J`,
		"a\r\nb\tc":              "a\\r\nb\tc",
		"\u202eright to left":    "right to left",
		strings.Repeat("x", 501): strings.Repeat("x", 500) + "…",
	} {
		if got := printable(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
