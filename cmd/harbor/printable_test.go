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
		"\u202eright to left":    `\u202eright to left`,
		strings.Repeat("x", 501): strings.Repeat("x", 500) + "…",
	} {
		if got := printable(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// The error of a build names the failing step at its end: that is what is kept of a
// long one, in whole lines, and where the rest is.
func TestFailingBuildStepIsNotCutOff(t *testing.T) {
	t.Parallel()
	log := strings.Repeat("#5 transferring context: 34B done\n", 100) + "#6 [2/2] RUN exit 3\n#6 ERROR: exit code: 3"
	got := strings.Split(printableEnds("docker build of t/Dockerfile failed: exit code: 3\n"+log, "j/t/exception.txt"), "\n")
	if got[0] != "docker build of t/Dockerfile failed: exit code: 3" || got[1] != "[…, all of it: j/t/exception.txt]" || got[2] != "#5 transferring context: 34B done" {
		t.Errorf("it begins with %q", got[:3])
	}
	if end := strings.Join(got[len(got)-2:], "\n"); end != "#6 [2/2] RUN exit 3\n#6 ERROR: exit code: 3" {
		t.Errorf("it ends with %q", end)
	}
	for in, want := range map[string]string{
		"short\nand whole": "short\nand whole",
		strings.Repeat("x", 400) + "\n" + strings.Repeat("y", 400):             strings.Repeat("x", 400) + "\n[…, all of it: f]\n" + strings.Repeat("y", 400),
		"no line ends\n" + strings.Repeat("y", 400) + strings.Repeat("z", 400): "no line ends\n[…, all of it: f]\n" + strings.Repeat("y", 100) + strings.Repeat("z", 400),
		strings.Repeat("x", 501): strings.Repeat("x", 500) + "…\n[…, all of it: f]\n",
		"failed\n\x1b[2J":        "failed\n\\x1b[2J",
	} {
		if got := printableEnds(in, "f"); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
