package lint

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// command is a command of a script: its words, in the line where it begins. Words that
// are only known when the script runs are nil.
type command struct {
	words []*string
	line  int
	kept  bool // its output goes to a file or to another command
}

// commands lists the simple commands of a script, also those inside of functions,
// substitutions and strings for `sh -c`. A script that is no shell has none.
func commands(script string) []command { return commandsFrom(script, 1, 0) }

// maxNesting bounds scripts within strings within scripts.
const maxNesting = 4

func commandsFrom(script string, first, depth int) []command {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil || depth > maxNesting {
		return nil
	}
	var out []command
	kept := map[syntax.Node]bool{}
	syntax.Walk(file, func(n syntax.Node) bool {
		keeps(n, kept)
		call, ok := n.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		c := command{line: first + int(call.Pos().Line()) - 1, kept: kept[call]}
		for _, w := range call.Args {
			c.words = append(c.words, literal(w))
		}
		out = append(out, c.expanded(depth)...)
		return true
	})
	return out
}

// keeps marks the command whose output a node redirects or passes on.
func keeps(n syntax.Node, kept map[syntax.Node]bool) {
	switch n := n.(type) {
	case *syntax.BinaryCmd:
		if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
			kept[n.X.Cmd] = true
		}
	case *syntax.Stmt:
		for _, r := range n.Redirs {
			if r.Op == syntax.RdrOut || r.Op == syntax.AppOut {
				kept[n.Cmd] = kept[n.Cmd] || literalText(r.Word) != "/dev/null"
			}
		}
	}
}

func literalText(w *syntax.Word) string {
	if s := literal(w); s != nil {
		return *s
	}
	return ""
}

// literal is the text of a word without anything to expand, or nil.
func literal(w *syntax.Word) *string {
	var b strings.Builder
	for _, part := range w.Parts {
		switch p := part.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(p.Value, `\`, ""))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			for _, inner := range p.Parts {
				lit, ok := inner.(*syntax.Lit)
				if !ok {
					return nil
				}
				b.WriteString(lit.Value)
			}
		default:
			return nil
		}
	}
	s := b.String()
	return &s
}

// wrappers run the command that follows their own options; with is how many plain
// arguments come before it.
var wrappers = map[string]int{"sudo": 0, "env": 0, "exec": 0, "command": 0, "nohup": 0, "time": 0, "nice": 0, "xargs": 0, "eval": 0, "timeout": 1}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// expanded is the command without what only runs it, and what a shell's -c runs.
func (c command) expanded(depth int) []command {
	c = c.unwrapped()
	if len(c.words) == 0 {
		return nil
	}
	out := []command{c}
	if !slices.Contains([]string{"sh", "bash", "dash", "zsh"}, c.name()) {
		return out
	}
	for i := 1; i+1 < len(c.words); i++ {
		if flag := c.word(i); strings.HasPrefix(flag, "-") && strings.HasSuffix(flag, "c") && c.words[i+1] != nil {
			return append(out, commandsFrom(c.word(i+1), c.line, depth+1)...)
		}
	}
	return out
}

// unwrapped takes wrappers off, with their options, assignments and arguments.
func (c command) unwrapped() command {
	for len(c.words) > 0 {
		plain, ok := wrappers[path.Base(c.word(0))]
		if !ok {
			break
		}
		for c.words = c.words[1:]; len(c.words) > 0; c.words = c.words[1:] {
			if strings.HasPrefix(c.word(0), "-") || assignment.MatchString(c.word(0)) {
				continue
			}
			if plain == 0 {
				break
			}
			plain--
		}
	}
	return c
}

// word is the i-th word, "" when it is not known or not there.
func (c command) word(i int) string {
	if i >= len(c.words) || c.words[i] == nil {
		return ""
	}
	return *c.words[i]
}

// name is what is run, without its directory.
func (c command) name() string { return path.Base(c.word(0)) }

// begins reports whether the command's name and first plain words are these; it
// returns the words that follow.
func (c command) begins(words ...string) ([]*string, bool) {
	if len(c.words) == 0 || c.name() != words[0] {
		return nil, false
	}
	rest := c.words[1:]
	for _, want := range words[1:] {
		for len(rest) > 0 && rest[0] != nil && strings.HasPrefix(*rest[0], "-") && !strings.HasPrefix(want, "-") {
			rest = rest[1:]
		}
		if len(rest) == 0 || rest[0] == nil || *rest[0] != want {
			return nil, false
		}
		rest = rest[1:]
	}
	return rest, true
}
