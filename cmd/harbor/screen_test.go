package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"harborgate/trials"
)

// What is written to a terminal in pieces is shown as if it had been one: nothing is
// obeyed, no letter is lost.
func TestScreenObeysNothing(t *testing.T) {
	t.Parallel()
	const text = "größer \x1b]0;title\a\x1b[2J\u202e\u009b31m 世界\tend\n\xff\n"
	for size := range 7 {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		s := &screen{file: w}
		for rest := text; rest != ""; {
			n := min(size+1, len(rest))
			if _, err := io.WriteString(s, rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if want := `größer \x1b]0;title\a\x1b[2J\u202e\u009b31m 世界` + "\tend\n\ufffd\n"; string(got) != want {
			t.Errorf("in pieces of %d: %q, want %q", size+1, got, want)
		}
	}
}

// A line end in a name draws no line of its own, here as elsewhere.
func TestNamesTakeOneLineEverywhere(t *testing.T) {
	t.Parallel()
	s := newJobState(1)
	s.waits = "waits\nfor"
	for name, text := range map[string]string{
		"progress": s.line(event(trials.EventEnd, "a\nb", 1, nil), "%s: done", "a\nb"),
		"alive":    s.alive(s.started),
	} {
		if strings.Contains(text, "\n") {
			t.Errorf("%s: %q", name, text)
		}
	}
}
