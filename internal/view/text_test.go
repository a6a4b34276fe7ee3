package view

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":                           "plain",
		"":                                "",
		"\x1b[31mred\x1b[0m":              "red",
		"\x1b[1;38:5:9mx\x1b[K":           "x",
		"\x1b[2J\x1b[H":                   "␛[2J␛[H",
		"\x1b]0;title\a":                  "␛]0;title␇",
		"\x1b[31":                         "␛[31",
		"a\rb\x00\x7f":                    "a␍b␀␡",
		"\u009b31mx":                      "<U+009B>31mx",
		"rl\u202eo":                       "rl<U+202E>o",
		"zero\u200bwidth\ufeff":           "zero<U+200B>width<U+FEFF>",
		"\xff\xfe":                        "<FF><FE>",
		"a\tb":                            "a       b",
		"1234567\tb\t":                    "1234567 b       ",
		"日本\tx":                           "日本    x",
		"e\u0301":                         "e\u0301",
		"\u0301x":                         "<U+0301>x",
		"e" + strings.Repeat("\u0301", 6): "e" + strings.Repeat("\u0301", 4) + "<U+0301><U+0301>",
		"a\u00a0b\u3000c":                 "a b c",
		"\U000e0041":                      "<U+E0041>",
		"line\u2028break":                 "line<U+2028>break",
		"\ue000":                          "<U+E000>",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

// obeyed finds what a terminal would act on, beside our own colours.
func obeyed(s string) string {
	for _, p := range []paint{bold, faint, reverse, red, green, yellow, cyan, title, match} {
		s = strings.ReplaceAll(s, "\x1b["+string(p)+"m", "")
	}
	s = strings.ReplaceAll(s, "\x1b[m", "")
	for _, r := range s {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)) {
			return string(r)
		}
	}
	if !utf8.ValidString(s) {
		return "invalid UTF-8"
	}
	return ""
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"plain", "\x1b[31mred\x1b[m\x1b[2J", "\u202e\u0301\xff\t日本", "\x1b[38;5", "👩‍👩‍👧🇩🇪"} {
		f.Add(s, 7)
	}
	f.Fuzz(func(t *testing.T, s string, columns int) {
		columns = max(1, min(columns, 300))
		got := clean(s)
		if bad := obeyed(got); bad != "" || strings.ContainsRune(got, '\n') && !strings.ContainsRune(s, '\n') {
			t.Fatalf("clean(%q) = %q has %q", s, got, bad)
		}
		if again := clean(got); again != got {
			t.Errorf("clean(%q) = %q, which is not clean: %q", s, got, again)
		}
		if w := width(fit(got, columns)); w != columns {
			t.Errorf("fit(%q, %d) has %d columns", got, columns, w)
		}
		if columns > 1 {
			for _, l := range wrap(s, columns) {
				if w := width(strings.TrimRight(l, " ")); w > columns {
					t.Errorf("wrap(%q, %d) has a line of %d columns: %q", s, columns, w, l)
				}
			}
		}
	})
}

func TestFit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in      string
		columns int
		want    string
	}{
		{"abc", 5, "abc  "}, {"abcdef", 4, "abc…"}, {"日本語", 4, "日… "}, {"x", 0, ""}, {"e\u0301e\u0301", 3, "e\u0301e\u0301 "},
	} {
		if got := fit(c.in, c.columns); got != c.want {
			t.Errorf("fit(%q, %d) = %q, want %q", c.in, c.columns, got, c.want)
		}
	}
}

func TestWrapKeepsWordsWhole(t *testing.T) {
	t.Parallel()
	got := wrap("then `harbor job resume --retry-failed infrastructure`\n  indented", 22)
	want := []string{"then `harbor job ", "resume --retry-failed ", "infrastructure`", "  indented"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSizeText(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 5 << 20: "5.0 MiB", 3 << 40: "3.0 TiB"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
