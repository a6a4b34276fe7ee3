package shell

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"harborgate/providers/fake/internal/kernel"
)

// builtin is a command of the shell itself. args[0] is its name; the result is
// the status.
type builtin func(sh *shell, args []string) int

func builtins() map[string]builtin {
	ok := func(*shell, []string) int { return 0 }
	return map[string]builtin{
		":": ok, "true": ok, "hash": ok, "ulimit": ok, "shopt": ok, "disown": ok,
		"false": func(*shell, []string) int { return 1 },
		"echo":  (*shell).echo, "printf": (*shell).printf, "pwd": (*shell).pwd, "cd": (*shell).cd,
		"exit": (*shell).exitBuiltin, "return": (*shell).returnBuiltin, "break": (*shell).leave, "continue": (*shell).leave,
		"set": (*shell).setBuiltin, "unset": (*shell).unset, "shift": (*shell).shift, "eval": (*shell).evalBuiltin,
		".": (*shell).source, "source": (*shell).source, "exec": (*shell).exec, "command": (*shell).commandBuiltin,
		"type": (*shell).typeBuiltin, "test": (*shell).test, "[": (*shell).test, "read": (*shell).read,
		"wait": (*shell).waitBuiltin, "trap": (*shell).trap, "kill": (*shell).kill, "umask": (*shell).umask,
	}
}

// cause strips a path from an error: the caller names it.
func cause(err error) error {
	var perr *fs.PathError
	if errors.As(err, &perr) {
		return perr.Err
	}
	return err
}

func startCode(err error) int { return kernel.ExitCode(err) }

func matchRegexp(expr, s string) bool {
	re, err := regexp.Compile(expr)
	return err == nil && re.MatchString(s)
}

// write prints to standard output; a full disk is a failure.
func (sh *shell) write(s string) int {
	if _, err := sh.p.Write(1, []byte(s)); err != nil {
		sh.errorf("write error: %v", err)
		return 1
	}
	return 0
}

func (sh *shell) echo(args []string) int {
	end, escapes := "\n", false
	args = args[1:]
	for len(args) > 0 && (args[0] == "-n" || args[0] == "-e" || args[0] == "-ne" || args[0] == "-en") {
		if strings.Contains(args[0], "n") {
			end = ""
		}
		escapes = escapes || strings.Contains(args[0], "e")
		args = args[1:]
	}
	out := strings.Join(args, " ")
	if escapes {
		out, _, _ = expand.Format(sh.cfg, strings.ReplaceAll(out, "%", "%%"), nil)
	}
	return sh.write(out + end)
}

func (sh *shell) printf(args []string) int {
	if len(args) < 2 {
		sh.errorf("usage: printf format [arguments]")
		return 2
	}
	format, args := args[1], args[2:]
	var out strings.Builder
	for {
		s, used, err := expand.Format(sh.cfg, format, args)
		if err != nil {
			sh.errorf("printf: %v", err)
			return 1
		}
		out.WriteString(s)
		args = args[used:]
		if used == 0 || len(args) == 0 {
			return sh.write(out.String())
		}
	}
}

func (sh *shell) pwd([]string) int { return sh.write(sh.p.Dir + "\n") }

func (sh *shell) cd(args []string) int {
	dir := sh.get("HOME")
	if len(args) > 1 {
		dir = args[len(args)-1]
	}
	if dir == "-" {
		dir = sh.get("OLDPWD")
		defer sh.write(dir + "\n")
	}
	abs := path.Clean(sh.p.Abs(dir))
	info, err := sh.p.FS().Stat(sh.p.Cred, abs, true)
	switch {
	case err != nil:
		sh.errorf("cd: %s: %v", dir, cause(err))
		return 1
	case !info.IsDir():
		sh.errorf("cd: %s: not a directory", dir)
		return 1
	}
	sh.set("OLDPWD", sh.p.Dir)
	sh.p.Dir = abs
	sh.set("PWD", abs)
	return 0
}

// count reads an optional number.
func (sh *shell) count(args []string, otherwise int) (int, bool) {
	if len(args) < 2 {
		return otherwise, true
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		sh.errorf("%s: illegal number: %s", args[0], args[1])
	}
	return n, err == nil
}

func (sh *shell) exitBuiltin(args []string) int {
	n, ok := sh.count(args, sh.status)
	if !ok {
		n = 2
	}
	sh.exit(n)
	return n
}

func (sh *shell) returnBuiltin(args []string) int {
	n, ok := sh.count(args, sh.status)
	if !ok {
		return 2
	}
	sh.jump = jump{kind: returnCall}
	return n & 0xff
}

func (sh *shell) leave(args []string) int {
	n, ok := sh.count(args, 1)
	if !ok || sh.loops == 0 {
		return oneIf(!ok)
	}
	sh.jump = jump{kind: breakLoop, loops: min(n, sh.loops)}
	if args[0] == "continue" {
		sh.jump.kind = continueLoop
	}
	return 0
}

func (sh *shell) setBuiltin(args []string) int {
	args = args[1:]
	for isFlag(args) {
		flags := args[0]
		args = args[1:]
		if flags == "--" {
			sh.params = slices.Clone(args)
			break
		}
		var bad byte
		if args, bad = sh.setFlags(flags, args); bad != 0 {
			sh.errorf("set: illegal option -%c", bad)
			return 2
		}
	}
	if len(args) > 0 {
		sh.params = slices.Clone(args)
	}
	sh.configure()
	return 0
}

func (sh *shell) unset(args []string) int {
	for _, name := range args[1:] {
		if strings.HasPrefix(name, "-") {
			continue
		}
		at := sh.vars.home(name)
		if at.vars[name].ReadOnly {
			sh.errorf("unset: %s: %v", name, errReadOnly)
			return 1
		}
		if _, ok := at.vars[name]; !ok {
			delete(sh.funcs, name)
		}
		delete(at.vars, name)
	}
	return 0
}

func (sh *shell) shift(args []string) int {
	n, ok := sh.count(args, 1)
	if !ok || n > len(sh.params) || n < 0 {
		return 1
	}
	sh.params = sh.params[n:]
	return 0
}

// eval runs source text in this shell.
func (sh *shell) eval(src string) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(src), sh.name)
	if err != nil {
		sh.errorf("%v", err)
		sh.status = 2
		return
	}
	sh.tail = false
	if len(file.Stmts) == 0 {
		sh.status = 0
	}
	sh.stmts(file.Stmts)
}

func (sh *shell) evalBuiltin(args []string) int {
	sh.eval(strings.Join(args[1:], " "))
	return sh.status
}

func (sh *shell) source(args []string) int {
	if len(args) < 2 {
		sh.errorf("%s: filename argument required", args[0])
		return 2
	}
	content, err := sh.p.FS().ReadFile(sh.p.Cred, sh.p.Abs(args[1]))
	if err != nil {
		sh.errorf("%s: %v", args[1], cause(err))
		return 1
	}
	outer := sh.params
	if len(args) > 2 {
		sh.params = args[2:]
	}
	sh.eval(string(content))
	sh.params = outer
	if sh.jump.kind == returnCall {
		sh.jump = jump{}
	}
	return sh.status
}

func (sh *shell) exec(args []string) int {
	if len(args) < 2 {
		sh.keepFDs = true
		return 0
	}
	sh.exit(sh.cannotStart(args[1], sh.execute(args[1:])))
	return 0
}

func (sh *shell) commandBuiltin(args []string) int {
	args = args[1:]
	if len(args) > 1 && (args[0] == "-v" || args[0] == "-V") {
		return sh.describe(args[1])
	}
	if len(args) == 0 {
		return 0
	}
	if b, ok := sh.builtins[args[0]]; ok {
		return b(sh, args)
	}
	sh.program(args)
	return sh.status
}

func (sh *shell) typeBuiltin(args []string) int {
	status := 0
	for _, name := range args[1:] {
		status = max(status, sh.describe(name))
	}
	return status
}

func (sh *shell) describe(name string) int {
	_, isFunc := sh.funcs[name]
	_, isBuiltin := sh.builtins[name]
	if isFunc || isBuiltin {
		return sh.write(name + "\n")
	}
	file, err := sh.p.LookPath(name, sh.environ())
	if err != nil {
		return 127
	}
	return sh.write(file + "\n")
}

func (sh *shell) umask(args []string) int {
	if len(args) < 2 {
		return sh.write(fmt.Sprintf("%04o\n", sh.p.Umask))
	}
	n, err := strconv.ParseUint(args[1], 8, 12)
	if err != nil {
		sh.errorf("umask: illegal number: %s", args[1])
		return 2
	}
	sh.p.Umask = int(n)
	return 0
}

func (sh *shell) read(args []string) int {
	raw, delim := false, byte('\n')
	args = args[1:]
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		flags := args[0]
		args = args[1:]
		raw = raw || strings.Contains(flags, "r")
		if strings.HasSuffix(flags, "d") && len(args) > 0 {
			delim = (args[0] + "\x00")[0]
			args = args[1:]
		}
		if strings.ContainsAny(flags[len(flags)-1:], "ptn") && len(args) > 0 {
			args = args[1:]
		}
	}
	if len(args) == 0 {
		args = []string{"REPLY"}
	}
	line, complete := sh.readLine(raw, delim)
	values := expand.ReadFields(sh.cfg, line, len(args), raw)
	for i, name := range args {
		value := ""
		if i < len(values) {
			value = values[i]
		}
		sh.set(name, value)
	}
	return oneIf(!complete)
}

// readLine takes one byte at a time, as the rest belongs to other commands.
func (sh *shell) readLine(raw bool, delim byte) (line string, complete bool) {
	var out []byte
	b := make([]byte, 1)
	for {
		n, err := sh.p.Read(0, b)
		switch {
		case n == 0 || err != nil:
			return string(out), false
		case b[0] == delim && !raw && len(out) > 0 && out[len(out)-1] == '\\':
			out = out[:len(out)-1]
		case b[0] == delim:
			return string(out), true
		default:
			out = append(out, b[0])
		}
	}
}

// Builtin is a builtin of the shell as a program of its own, as in /bin/echo.
func Builtin(name string) kernel.Program {
	return func(p *kernel.Proc) int {
		args := p.Args()
		args[0] = name
		sh := newShell(p, name)
		return sh.builtins[name](sh, args)
	}
}
