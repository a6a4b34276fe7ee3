package shell

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// simple runs a simple command: assignments, a function, a builtin, a program.
func (sh *shell) simple(c *syntax.CallExpr) {
	tail := sh.tail
	sh.tail = false
	sh.substStatus = 0
	defer sh.closeSubstitutions()
	args, ok := sh.fields(c.Args...)
	if !ok {
		return
	}
	if len(args) == 0 {
		sh.status = 0
		for _, as := range c.Assigns {
			sh.assignOne(as)
		}
		sh.status = max(sh.status, sh.substStatus)
		return
	}
	sh.trace(args)
	if len(c.Assigns) > 0 {
		restore := sh.temporary(c.Assigns)
		defer restore()
	}
	sh.tail = tail
	sh.run(args)
	sh.tail = false
}

func (sh *shell) trace(args []string) {
	if sh.opts.xtrace {
		_, _ = fmt.Fprintf(output{sh.p, 2}, "+ %s\n", strings.Join(args, " "))
	}
}

func (sh *shell) closeSubstitutions() {
	for _, fd := range sh.opened {
		sh.p.Close(fd)
	}
	sh.opened = nil
}

func (sh *shell) assignOne(as *syntax.Assign) {
	name := as.Name.Value
	v := sh.value(as, sh.vars.get(name))
	if err := sh.assign(name, v); err != nil {
		sh.errorf("%v", err)
		sh.status = 1
	}
}

// temporary sets variables for one command and returns how to take them back.
func (sh *shell) temporary(list []*syntax.Assign) (restore func()) {
	local := &scope{vars: map[string]expand.Variable{}, parent: sh.vars}
	for _, as := range list {
		v := sh.value(as, sh.vars.get(as.Name.Value))
		v.Exported = true
		local.vars[as.Name.Value] = v
	}
	outer := sh.vars
	sh.vars = local
	return func() { sh.vars = outer }
}

// run runs a command whose words are expanded.
func (sh *shell) run(args []string) {
	if body, ok := sh.funcs[args[0]]; ok {
		sh.call(body, args[1:])
		return
	}
	if b, ok := sh.builtins[args[0]]; ok {
		sh.status = b(sh, args)
		return
	}
	sh.program(args)
}

// call runs a function.
func (sh *shell) call(body *syntax.Stmt, params []string) {
	outerParams, outerVars, outerLoops := sh.params, sh.vars, sh.loops
	sh.params, sh.loops = params, 0
	sh.vars = &scope{vars: map[string]expand.Variable{}, parent: outerVars}
	sh.calls++
	sh.stmt(body)
	sh.calls--
	sh.params, sh.vars, sh.loops = outerParams, outerVars, outerLoops
	if sh.jump.kind == returnCall {
		sh.jump = jump{}
	}
}

// program runs a program in a child, or in place of a shell that is done.
func (sh *shell) program(args []string) {
	if sh.tail && len(sh.traps) == 0 {
		sh.status = sh.cannotStart(args[0], sh.execute(args))
		return
	}
	pid, err := sh.p.Spawn(args, sh.environ())
	if errors.Is(err, syscall.ENOEXEC) {
		pid, err = sh.p.Spawn(sh.asScript(args), sh.environ())
	}
	if err != nil {
		sh.status = sh.cannotStart(args[0], err)
		return
	}
	sh.wait(pid, nil)
}

// execute replaces the shell by a program. It returns only on error.
func (sh *shell) execute(args []string) error {
	err := sh.p.Exec(args, sh.environ())
	if errors.Is(err, syscall.ENOEXEC) {
		err = sh.p.Exec(sh.asScript(args), sh.environ())
	}
	return err
}

// asScript is what shells do with a file that has no interpreter line.
func (sh *shell) asScript(args []string) []string {
	file, err := sh.p.LookPath(args[0], sh.environ())
	if err != nil {
		file = args[0]
	}
	return slices.Concat([]string{"/bin/sh", file}, args[1:])
}

func (sh *shell) cannotStart(name string, err error) int {
	var errno syscall.Errno
	reason := err.Error()
	switch {
	case errors.Is(err, fs.ErrNotExist) && !strings.Contains(name, "/"):
		reason = "not found"
	case errors.As(err, &errno):
		reason = errno.Error()
	}
	sh.errorf("%s: %s", name, reason)
	return startCode(err)
}

// declare runs export, readonly, local and declare.
func (sh *shell) declare(c *syntax.DeclClause) {
	sh.status = 0
	variant := c.Variant.Value
	flags := map[string]string{"export": "x", "readonly": "r"}[variant]
	local := variant == "local" || (variant == "declare" || variant == "typeset") && sh.calls > 0
	if len(c.Args) == 0 && variant == "export" {
		for _, kv := range sh.environ() {
			name, value, _ := strings.Cut(kv, "=")
			_, _ = fmt.Fprintf(output{sh.p, 1}, "export %s=%s\n", name, strconv.Quote(value))
		}
	}
	for _, as := range c.Args {
		for _, as := range sh.named(as) {
			if opt, ok := strings.CutPrefix(as.Name.Value, "-"); ok {
				flags += opt
				continue
			}
			sh.declareOne(as, flags, local)
		}
	}
}

// named gives a name to a word that only expansion makes one.
func (sh *shell) named(as *syntax.Assign) []*syntax.Assign {
	if as.Name != nil {
		return []*syntax.Assign{as}
	}
	var out []*syntax.Assign
	words, _ := sh.fields(as.Value)
	for _, w := range words {
		name, value, ok := strings.Cut(w, "=")
		n := &syntax.Assign{Name: &syntax.Lit{Value: name}, Naked: !ok}
		if ok {
			n.Value = &syntax.Word{Parts: []syntax.WordPart{&syntax.SglQuoted{Value: value}}}
		}
		out = append(out, n)
	}
	return out
}

func (sh *shell) declareOne(as *syntax.Assign, flags string, local bool) {
	name := as.Name.Value
	if !syntax.ValidName(name) {
		sh.errorf("%s: bad variable name", name)
		sh.status = 2
		return
	}
	v := sh.vars.get(name)
	at := sh.vars.home(name)
	if local {
		v, at = expand.Variable{Local: true}, sh.callScope()
	}
	if v.ReadOnly && !as.Naked {
		sh.errorf("%s: %v", name, errReadOnly)
		sh.status = 1
		return
	}
	if !as.Naked {
		v = sh.value(as, v)
		v.Local = local
	}
	v.Exported = v.Exported && !strings.Contains(flags, "n") || strings.Contains(flags, "x")
	v.ReadOnly = v.ReadOnly || strings.Contains(flags, "r")
	at.vars[name] = v
}

// callScope is the innermost scope, which belongs to the running function.
func (sh *shell) callScope() *scope { return sh.vars }

// redirect applies redirections and returns how to take them back.
func (sh *shell) redirect(list []*syntax.Redirect) (restore func(), ok bool) {
	type saved struct{ fd, copy int }
	var undo []saved
	restore = func() {
		for _, s := range slices.Backward(undo) {
			sh.p.Close(s.fd)
			if s.copy >= 0 {
				_ = sh.p.Dup(s.copy, s.fd)
				sh.p.Close(s.copy)
			}
		}
	}
	for _, r := range list {
		fds := targets(r)
		for _, fd := range fds {
			undo = append(undo, saved{fd, sh.p.Save(fd)})
		}
		if err := sh.redirectOne(r, fds); err != nil {
			sh.errorf("%v", err)
			sh.status = 1
			return restore, false
		}
	}
	return restore, true
}

// targets are the descriptors that a redirection changes.
func targets(r *syntax.Redirect) []int {
	if r.N != nil {
		n, err := strconv.Atoi(r.N.Value)
		if err == nil {
			return []int{n}
		}
	}
	switch r.Op {
	case syntax.RdrAll, syntax.AppAll:
		return []int{1, 2}
	case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return []int{0}
	}
	return []int{1}
}

// openFlags are those of the redirections that open a file.
func openFlags(op syntax.RedirOperator) (flags int, ok bool) {
	switch op {
	case syntax.RdrIn:
		return syscall.O_RDONLY, true
	case syntax.RdrInOut:
		return syscall.O_RDWR | syscall.O_CREAT, true
	case syntax.RdrOut, syntax.RdrClob, syntax.RdrAll:
		return syscall.O_WRONLY | syscall.O_CREAT | syscall.O_TRUNC, true
	case syntax.AppOut, syntax.AppAll:
		return syscall.O_WRONLY | syscall.O_CREAT | syscall.O_APPEND, true
	}
	return 0, false
}

func (sh *shell) redirectOne(r *syntax.Redirect, fds []int) error {
	if flags, ok := openFlags(r.Op); ok {
		return sh.openTo(sh.literal(r.Word), flags, fds)
	}
	switch r.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		return sh.give(sh.document(r), fds[0])
	case syntax.WordHdoc:
		return sh.give(sh.literal(r.Word)+"\n", fds[0])
	case syntax.DplIn, syntax.DplOut:
		return sh.duplicate(r, fds[0])
	}
	return fmt.Errorf("redirection %s is not supported by the fake shell", r.Op)
}

func (sh *shell) openTo(name string, flags int, fds []int) error {
	fd, err := sh.p.Open(name, flags, 0o666)
	if err != nil {
		return fmt.Errorf("%s: %w", name, cause(err))
	}
	defer sh.p.Close(fd)
	for _, to := range fds {
		if err := sh.p.Dup(fd, to); err != nil {
			return err
		}
	}
	return nil
}

func (sh *shell) give(content string, to int) error {
	fd := sh.p.Memory(content)
	defer sh.p.Close(fd)
	return sh.p.Dup(fd, to)
}

func (sh *shell) duplicate(r *syntax.Redirect, to int) error {
	word := sh.literal(r.Word)
	if word == "-" {
		sh.p.Close(to)
		return nil
	}
	from, err := strconv.Atoi(word)
	if err != nil && r.Op == syntax.DplOut && r.N == nil {
		return sh.openTo(word, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_TRUNC, []int{1, 2})
	}
	if err == nil {
		err = sh.p.Dup(from, to)
	}
	if err != nil {
		return fmt.Errorf("%s: bad file descriptor", word)
	}
	return nil
}

// document is the content of a here-document.
func (sh *shell) document(r *syntax.Redirect) string {
	if r.Hdoc == nil {
		return ""
	}
	var out string
	if quoted(r.Word) {
		out = r.Hdoc.Lit()
	} else {
		expanded, err := expand.Document(sh.cfg, r.Hdoc)
		if err != nil {
			sh.expandFailed(err)
		}
		out = expanded
	}
	if r.Op != syntax.DashHdoc {
		return out
	}
	lines := strings.SplitAfter(out, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimLeft(line, "\t")
	}
	return strings.Join(lines, "")
}

func quoted(w *syntax.Word) bool {
	for _, part := range w.Parts {
		lit, ok := part.(*syntax.Lit)
		if !ok || strings.Contains(lit.Value, `\`) {
			return true
		}
	}
	return false
}

// matches reports whether a pattern of the shell matches the whole of s.
func matches(pat, s string) bool {
	match, err := pattern.Regexp(pat, pattern.EntireString|pattern.ExtendedOperators)
	return err == nil && matchRegexp(match, s)
}
