package shell

import (
	"io/fs"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"harborgate/providers/fake/internal/vfs"
)

// test is the builtin "test", also called "[".
func (sh *shell) test(args []string) int {
	if args[0] == "[" {
		if args[len(args)-1] != "]" {
			sh.errorf("[: missing ]")
			return 2
		}
		args = args[:len(args)-1]
	}
	t := &testArgs{sh: sh, rest: args[1:]}
	if len(t.rest) == 0 {
		return 1
	}
	result := t.or()
	if t.bad || len(t.rest) > 0 {
		sh.errorf("%s: syntax error in %q", args[0], args[1:])
		return 2
	}
	return oneIf(!result)
}

// testArgs evaluates the arguments of test from left to right.
type testArgs struct {
	sh   *shell
	rest []string
	bad  bool
}

func (t *testArgs) next() string {
	if len(t.rest) == 0 {
		t.bad = true
		return ""
	}
	s := t.rest[0]
	t.rest = t.rest[1:]
	return s
}

func (t *testArgs) at(s string) bool { return len(t.rest) > 0 && t.rest[0] == s }

func (t *testArgs) or() bool {
	v := t.and()
	for t.at("-o") {
		t.next()
		v = t.and() || v
	}
	return v
}

func (t *testArgs) and() bool {
	v := t.primary()
	for t.at("-a") {
		t.next()
		v = t.primary() && v
	}
	return v
}

func (t *testArgs) primary() bool {
	if len(t.rest) >= 3 && isBinary(t.rest[1]) {
		x, op, y := t.next(), t.next(), t.next()
		v, ok := t.sh.binaryTest(op, x, y)
		t.bad = t.bad || !ok
		return v
	}
	switch {
	case t.at("!") && len(t.rest) > 1:
		t.next()
		return !t.primary()
	case t.at("(") && len(t.rest) > 2:
		t.next()
		v := t.or()
		t.bad = t.next() != ")" || t.bad
		return v
	}
	return t.unary()
}

// unary is an operator with its operand, or a word that counts by its length.
func (t *testArgs) unary() bool {
	word := t.next()
	isOperator := len(word) == 2 && word[0] == '-' && len(t.rest) > 0
	if !isOperator || t.at("-a") || t.at("-o") {
		return word != ""
	}
	v, ok := t.sh.unaryTest(word, t.next())
	t.bad = t.bad || !ok
	return v
}

func isBinary(op string) bool {
	switch op {
	case "=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef":
		return true
	}
	return false
}

// testExpr evaluates what is inside [[ ]].
func (sh *shell) testExpr(e syntax.TestExpr) bool {
	switch x := e.(type) {
	case *syntax.Word:
		return sh.literal(x) != ""
	case *syntax.ParenTest:
		return sh.testExpr(x.X)
	case *syntax.UnaryTest:
		if x.Op == syntax.TsNot {
			return !sh.testExpr(x.X)
		}
		word, _ := x.X.(*syntax.Word)
		v, _ := sh.unaryTest(x.Op.String(), sh.literal(word))
		return v
	case *syntax.BinaryTest:
		return sh.binaryExpr(x)
	}
	return false
}

func (sh *shell) binaryExpr(x *syntax.BinaryTest) bool {
	switch x.Op {
	case syntax.AndTest:
		return sh.testExpr(x.X) && sh.testExpr(x.Y)
	case syntax.OrTest:
		return sh.testExpr(x.X) || sh.testExpr(x.Y)
	}
	left, _ := x.X.(*syntax.Word)
	right, _ := x.Y.(*syntax.Word)
	word := sh.literal(left)
	switch x.Op {
	case syntax.TsMatch, syntax.TsMatchShort:
		return matches(sh.pattern(right), word)
	case syntax.TsNoMatch:
		return !matches(sh.pattern(right), word)
	case syntax.TsReMatch:
		return matchRegexp(sh.literal(right), word)
	}
	v, _ := sh.binaryTest(x.Op.String(), word, sh.literal(right))
	return v
}

func (sh *shell) binaryTest(op, x, y string) (result, ok bool) {
	switch op {
	case "=", "==":
		return x == y, true
	case "!=":
		return x != y, true
	case "<":
		return x < y, true
	case ">":
		return x > y, true
	case "-nt", "-ot", "-ef":
		return sh.compareFiles(op, x, y), true
	}
	a, errA := strconv.Atoi(strings.TrimSpace(x))
	b, errB := strconv.Atoi(strings.TrimSpace(y))
	if errA != nil || errB != nil {
		return false, false
	}
	return map[string]bool{
		"-eq": a == b, "-ne": a != b, "-lt": a < b, "-le": a <= b, "-gt": a > b, "-ge": a >= b,
	}[op], true
}

func (sh *shell) compareFiles(op, x, y string) bool {
	a, errA := sh.stat(x, true)
	b, errB := sh.stat(y, true)
	switch {
	case errA != nil || errB != nil:
		return op == "-nt" && errA == nil || op == "-ot" && errB == nil
	case op == "-nt":
		return a.Changed.After(b.Changed)
	case op == "-ot":
		return b.Changed.After(a.Changed)
	}
	return a.Ino == b.Ino
}

func (sh *shell) stat(name string, follow bool) (vfs.Info, error) {
	return sh.p.FS().Stat(sh.p.Cred, sh.p.Abs(name), follow)
}

func (sh *shell) unaryTest(op, x string) (result, ok bool) {
	switch op {
	case "-z":
		return x == "", true
	case "-n":
		return x != "", true
	case "-t":
		fd, err := strconv.Atoi(x)
		_, is := sh.p.Terminal(fd)
		return err == nil && is, true
	case "-v":
		return environment{sh}.Get(x).IsSet(), true
	case "-o":
		opt := sh.opts.byName(x)
		return opt != nil && *opt, true
	case "-L", "-h":
		info, err := sh.stat(x, false)
		return err == nil && info.Bits&fs.ModeSymlink != 0, true
	}
	info, err := sh.stat(x, true)
	v, ok := sh.fileTest(op, info)
	return v && err == nil, ok
}

func (sh *shell) fileTest(op string, info vfs.Info) (result, ok bool) {
	access := func(want fs.FileMode) bool { return sh.p.Cred.Allows(info.Bits, info.UID, info.GID, want) }
	tests := map[string]bool{
		"-e": true, "-a": true,
		"-f": info.Bits.IsRegular(), "-d": info.Bits.IsDir(), "-s": info.Bytes > 0,
		"-p": info.Bits&fs.ModeNamedPipe != 0, "-c": info.Bits&fs.ModeCharDevice != 0,
		"-S": info.Bits&fs.ModeSocket != 0, "-b": false,
		"-u": info.Bits&fs.ModeSetuid != 0, "-g": info.Bits&fs.ModeSetgid != 0, "-k": info.Bits&fs.ModeSticky != 0,
		"-r": access(4), "-w": access(2), "-x": access(1),
		"-O": info.UID == sh.p.Cred.UID, "-G": info.GID == sh.p.Cred.GID,
	}
	v, ok := tests[op]
	return v, ok
}

var _ expand.Environ = environment{}
