package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"harborgate/trials"
	"harborgate/trials/stats"
)

// sideOf is an arm with a verdict for each reward.
func sideOf(name string, rewards ...float64) stats.Side {
	s := stats.Side{Name: name}
	for i, r := range rewards {
		s.Trials = append(s.Trials, finished(fmt.Sprintf("task-%02d", i), 1, "reward", r))
	}
	return s
}

func comparedOf(t *testing.T, how stats.Comparing, sides ...stats.Side) compared {
	t.Helper()
	cs, err := stats.Compare(sides, how)
	if err != nil {
		t.Fatal(err)
	}
	c := compared{Comparisons: cs, Baseline: how.Baseline, ExcludeSuspect: how.ExcludeSuspect}
	for _, s := range sides {
		c.Arms = append(c.Arms, comparedArm{Name: s.Name, Job: "jobs/" + s.Name, Arm: "oracle", Row: s.Row(how.RewardKey)})
	}
	return c
}

func comparisons(t *testing.T) map[string]compared {
	t.Helper()
	base := sideOf("monday", 0, 0, 0, 0, 0, 1, 1, 1)
	base.Trials = append(base.Trials, failed(finished("lost", 1), trials.BlameInfrastructure, trials.ExcSandboxLost), finished("lone", 1, "reward", 1.0))
	base.Trials[0].Settings = []stats.Setting{{Name: "agent limit", Value: "60 s"}, {Name: "task digest", Value: "a"}}
	next := sideOf("tuesday", 1, 1, 1, 1, 1, 1, 1, 0)
	next.Trials[0] = suspect(next.Trials[0], "nothing_collected")
	next.Trials[0].Settings = []stats.Setting{{Name: "agent limit", Value: "90 s"}, {Name: "task digest", Value: "b"}}
	next.Pending = []stats.Trial{{Task: "lost", Row: base.Trials[0].Row}}

	hostile := sideOf("\x1b[31mred|`x`")
	hostile.Trials = append(hostile.Trials, finished("a\x1b]0;title\x07|*b*_c_<script>\n# x", 1, "reward", 1.0))
	plain := sideOf("plain")
	plain.Trials = append(plain.Trials, finished("a\x1b]0;title\x07|*b*_c_<script>\n# x", 1, "reward", 0.0))

	var graded, other []float64
	for i := range 60 {
		graded, other = append(graded, float64(i%5)/4), append(other, float64(i%7)/6)
	}
	return map[string]compared{
		"two":             comparedOf(t, stats.Comparing{Seed: 1}, base, next),
		"without-suspect": comparedOf(t, stats.Comparing{Seed: 1, ExcludeSuspect: true}, base, next),
		"three":           comparedOf(t, stats.Comparing{Seed: 1, Baseline: "monday"}, base, next, sideOf("wednesday", 0, 0.5, 1)),
		"drawn":           comparedOf(t, stats.Comparing{Seed: 7}, sideOf("graded", graded...), sideOf("other", other...)),
		"nothing":         comparedOf(t, stats.Comparing{}, sideOf("empty"), sideOf("one", 1)),
		"hostile":         comparedOf(t, stats.Comparing{}, plain, hostile),
	}
}

func TestComparePage(t *testing.T) {
	t.Parallel()
	for name, c := range comparisons(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text, md bytes.Buffer
			c.page().writeText(&text)
			c.page().writeMarkdown(&md, 2)
			for _, out := range []string{text.String(), md.String()} {
				if strings.ContainsAny(out, "\x1b\x07") {
					t.Errorf("control characters came through: %q", out)
				}
				for line := range strings.Lines(out) {
					if strings.Contains(line, "mean 0") && !strings.Contains(line, "n = ") {
						t.Errorf("a mean without a number: %s", line)
					}
				}
			}
			golden(t, filepath.Join("testdata", "compare", name+".golden"), text.Bytes())
			golden(t, filepath.Join("testdata", "compare", name+".md"), md.Bytes())
		})
	}
}

// TestB088MarkdownMeansItself holds that no name can break out of its cell.
func TestB088MarkdownMeansItself(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a|b": `a\|b`, "a\nb": "a b", "<b>": "&lt;b>", "`x`": "\\`x\\`", "a_b*c": `a\_b\*c`, "[x](y)": `\[x\](y)`, "\x1b[1m": `\\x1b\[1m`, "@someone": "&#64;someone", "(@@x)": "(&#64;&#64;x)", "pass@k": "pass@k",
	} {
		if got := markdown(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestBaselineByPartOfItsName(t *testing.T) {
	t.Parallel()
	arms := []arm{{side: stats.Side{Name: "j:nop"}}, {side: stats.Side{Name: "j:pi · m"}}, {side: stats.Side{Name: "j:pi"}}}
	for wanted, want := range map[string]string{"": "", "nop": "j:nop", "j:pi": "j:pi", "m": "j:pi · m"} {
		if got, err := baseline(arms, wanted); err != nil || got != want {
			t.Errorf("%q: %q, %v", wanted, got, err)
		}
	}
	for _, wanted := range []string{"pi", "x"} {
		if _, err := baseline(arms, wanted); err == nil || !strings.Contains(err.Error(), "j:nop, j:pi · m, j:pi") {
			t.Errorf("%q: %v", wanted, err)
		}
	}
}

func TestArmsAreNamedBriefly(t *testing.T) {
	t.Parallel()
	one, two := []arm{{job: "x/one", name: "nop"}}, []arm{{job: "x/two", name: "nop"}, {job: "x/two", name: "pi"}}
	same := []arm{{job: "y/one", name: "nop"}}
	for _, c := range []struct {
		loaded map[string][]arm
		want   string
	}{
		{map[string][]arm{"x/two": two}, "nop pi"},
		{map[string][]arm{"x/one": one, "x/two": two}, "one two:nop two:pi"},
		{map[string][]arm{"x/one": one, "y/one": same}, "x/one y/one"},
	} {
		var all []arm
		for _, dir := range sortedNames(c.loaded) {
			all = append(all, c.loaded[dir]...)
		}
		if err := nameSides(all, c.loaded); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, a := range all {
			names = append(names, a.side.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	long := strings.Repeat("x", 100)
	cut := []arm{{job: "j", name: long + "1"}, {job: "j", name: long + "2"}}
	if err := nameSides(cut, map[string][]arm{"j": cut}); err != nil || cut[0].side.Name == cut[1].side.Name || len(cut[1].side.Name) > 50 {
		t.Error(cut, err)
	}
	if err := nameSides(append(one, one...), map[string][]arm{"x/one": one}); err == nil {
		t.Error("an arm that is given twice")
	}
}
