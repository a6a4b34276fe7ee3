package tasks

import (
	"regexp"
	"strings"
)

// ignoreRule is one line of a .gitignore.
type ignoreRule struct {
	pattern *regexp.Regexp
	keep    bool // a "!" rule
	dirOnly bool
}

// ignoreRules decide like git: the last rule that matches wins.
type ignoreRules []ignoreRule

// parseIgnore reads the content of a .gitignore or .harborignore. Lines that are
// no valid pattern match nothing, as with git.
func parseIgnore(content string) ignoreRules {
	var rules ignoreRules
	for line := range strings.SplitSeq(content, "\n") {
		line = trimIgnoreLine(line)
		if line == "" || line[0] == '#' {
			continue
		}
		var r ignoreRule
		line, r.keep = strings.CutPrefix(line, "!")
		line, r.dirOnly = strings.CutSuffix(line, "/")
		anchored := strings.Contains(line, "/")
		line = strings.TrimPrefix(line, "/")
		if line == "" {
			continue
		}
		expr := globExpr(line)
		if !anchored {
			expr = "(.*/)?" + expr
		}
		pattern, err := regexp.Compile("^" + expr + "$")
		if err != nil {
			continue
		}
		r.pattern = pattern
		rules = append(rules, r)
	}
	return rules
}

// trimIgnoreLine removes what git ignores at the end of a line: spaces that are
// not escaped, and a carriage return.
func trimIgnoreLine(s string) string {
	s = strings.TrimSuffix(s, "\r")
	for strings.HasSuffix(s, " ") && !strings.HasSuffix(s, `\ `) {
		s = s[:len(s)-1]
	}
	return s
}

// globExpr turns a gitignore pattern without leading and trailing slash into a
// regular expression.
func globExpr(glob string) string {
	var b strings.Builder
	for i := 0; i < len(glob); i++ {
		rest := glob[i:]
		switch c := glob[i]; {
		case rest == "**":
			b.WriteString(".*")
			i++
		case strings.HasPrefix(rest, "**/") && (i == 0 || glob[i-1] == '/'):
			b.WriteString("(.*/)?")
			i += 2
		case c == '*':
			b.WriteString("[^/]*")
		case c == '?':
			b.WriteString("[^/]")
		case c == '[':
			class, n := globClass(rest)
			b.WriteString(class)
			i += n - 1
		case c == '\\' && i+1 < len(glob):
			i++
			b.WriteString(regexp.QuoteMeta(string(glob[i])))
		default:
			b.WriteString(quoteByte(c))
		}
	}
	return b.String()
}

// quoteByte leaves the bytes of longer runes alone.
func quoteByte(c byte) string {
	if c >= 0x80 {
		return string([]byte{c})
	}
	return regexp.QuoteMeta(string(rune(c)))
}

// globClass translates a bracket expression and says how long it was. One that
// does not end is a plain bracket.
func globClass(s string) (string, int) {
	end := strings.IndexByte(s[1:], ']')
	if end == 0 || end == 1 && (s[1] == '!' || s[1] == '^') {
		next := strings.IndexByte(s[end+2:], ']')
		if next < 0 {
			return `\[`, 1
		}
		end += next + 1
	}
	if end < 0 {
		return `\[`, 1
	}
	class := s[1 : end+1]
	if class[0] == '!' {
		class = "^" + class[1:]
	}
	return "[" + strings.NewReplacer(`[`, `\[`, `]`, `\]`).Replace(class) + "]", end + 2
}

// ignored reports whether the file at rel, or a directory above it, is ignored.
// rel is slash-separated and relative to the directory of the rules.
func (rs ignoreRules) ignored(rel string) bool {
	for i, c := range rel {
		if c == '/' && rs.match(rel[:i], true) {
			return true
		}
	}
	return rs.match(rel, false)
}

func (rs ignoreRules) match(rel string, isDir bool) bool {
	for i := len(rs) - 1; i >= 0; i-- {
		if r := rs[i]; (isDir || !r.dirOnly) && r.pattern.MatchString(rel) {
			return !r.keep
		}
	}
	return false
}
