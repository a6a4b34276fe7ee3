// Package shell is the shell of fake sandboxes: it parses and expands with
// mvdan.cc/sh and runs on the fake kernel, so that subshells, pipelines and
// background jobs are processes of their own with numbers, signals and
// descriptors.
//
// It is not mvdan.cc/sh/v3/interp, because that one reads standard input,
// pipelines and here-documents through pipes of the host, looks up programs on
// the host's disk, and has neither process numbers nor signals.
//
// Left out: aliases, job control, associative arrays, getopts.
package shell

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"harborgate/providers/fake/internal/kernel"
)

// shell is the state of one shell process.
type shell struct {
	p        *kernel.Proc
	mainPID  int // $$, also in subshells
	builtins map[string]builtin
	cfg      *expand.Config
	vars     *scope
	funcs    map[string]*syntax.Stmt
	name     string
	params   []string
	opts     options

	status      int // $?
	substStatus int // of the last command substitution
	lastJob     int // $!
	jobs        []int
	traps       map[string]string
	inTrap      bool

	quiet   int  // over zero while a failure does not count for errexit
	tail    bool // the next simple command may replace the process
	loops   int
	calls   int
	jump    jump
	opened  []int // descriptors of process substitutions
	keepFDs bool  // set by exec without a command
}

// options are those of set.
type options struct {
	errexit, nounset, xtrace, noglob, allexport, noexec, pipefail bool
}

func (o *options) byFlag(flag byte) *bool {
	return map[byte]*bool{
		'e': &o.errexit, 'u': &o.nounset, 'x': &o.xtrace, 'f': &o.noglob, 'a': &o.allexport, 'n': &o.noexec,
	}[flag]
}

func (o *options) byName(name string) *bool {
	return map[string]*bool{
		"errexit": &o.errexit, "nounset": &o.nounset, "xtrace": &o.xtrace, "noglob": &o.noglob,
		"allexport": &o.allexport, "noexec": &o.noexec, "pipefail": &o.pipefail,
	}[name]
}

// jump is a pending break, continue or return.
type jump struct {
	kind  jumpKind
	loops int // how many loops a break or continue leaves
}

type jumpKind uint8

const (
	noJump jumpKind = iota
	breakLoop
	continueLoop
	returnCall
)

// Main is the program sh, under any of its names.
func Main(p *kernel.Proc) int {
	args := p.Args()
	sh := newShell(p, args[0])
	src, name, code := sh.arguments(args[1:])
	if code != 0 {
		return code
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(src), name)
	if err != nil {
		sh.errorf("%v", err)
		return 2
	}
	sh.stmts(file.Stmts)
	sh.exit(sh.status)
	return 0
}

func newShell(p *kernel.Proc, name string) *shell {
	sh := &shell{
		p: p, mainPID: p.PID, builtins: builtins(), vars: &scope{vars: map[string]expand.Variable{}},
		funcs: map[string]*syntax.Stmt{}, name: name, traps: map[string]string{},
	}
	sh.configure()
	sh.importEnv()
	return sh
}

// arguments reads the command line and returns what to run.
func (sh *shell) arguments(args []string) (src, name string, code int) {
	command, args := sh.flags(args)
	sh.configure()
	switch {
	case command && len(args) == 0:
		sh.errorf("-c: option requires an argument")
		return "", "", 2
	case command:
		if len(args) > 1 {
			sh.name, sh.params = args[1], args[2:]
		}
		return args[0], sh.name, 0
	case len(args) == 0 || args[0] == "-":
		content, err := io.ReadAll(input{sh.p, 0})
		if err != nil {
			sh.errorf("cannot read standard input: %v", err)
			return "", "", 2
		}
		return string(content), sh.name, 0
	}
	content, err := sh.p.FS().ReadFile(sh.p.Cred, sh.p.Abs(args[0]))
	if err != nil {
		sh.errorf("%s: %v", args[0], cause(err))
		return "", "", kernel.ExitCode(err)
	}
	sh.name, sh.params = args[0], args[1:]
	return string(content), args[0], 0
}

// flags sets options and returns the other arguments; command says that the
// first of them is what to run. Long options change nothing here.
func (sh *shell) flags(args []string) (command bool, rest []string) {
	for isFlag(args) {
		flags := args[0]
		args = args[1:]
		switch {
		case flags == "--":
			return command, args
		case strings.HasPrefix(flags, "--"):
			continue
		}
		command = command || strings.Contains(flags, "c")
		args, _ = sh.setFlags(flags, args)
	}
	return command, args
}

// isFlag reports whether the first argument starts with "-" or "+".
func isFlag(args []string) bool {
	return len(args) > 0 && len(args[0]) > 1 && (args[0][0] == '-' || args[0][0] == '+')
}

// setFlags sets the options of one argument; the name that -o wants is taken
// from rest. bad is a flag that does not exist, or 0.
func (sh *shell) setFlags(flags string, rest []string) (left []string, bad byte) {
	for _, flag := range []byte(flags[1:]) {
		opt := sh.opts.byFlag(flag)
		if flag == 'o' && len(rest) > 0 {
			opt = sh.opts.byName(rest[0])
			rest = rest[1:]
		}
		if opt == nil {
			bad = flag
			continue
		}
		*opt = flags[0] == '-'
	}
	return rest, bad
}

// importEnv makes variables of the environment.
func (sh *shell) importEnv() {
	for _, kv := range sh.p.Env() {
		name, value, ok := strings.Cut(kv, "=")
		if ok && syntax.ValidName(name) {
			sh.vars.vars[name] = expand.Variable{Set: true, Exported: true, Kind: expand.String, Str: value}
		}
	}
	sh.set("PWD", sh.p.Dir)
	sh.set("IFS", " \t\n")
	if !sh.vars.get("PATH").IsSet() {
		sh.set("PATH", kernel.DefaultPath)
	}
}

// environ is what a program is started with.
func (sh *shell) environ() []string {
	var out []string
	for name, v := range sh.vars.all() {
		if v.Exported && v.IsSet() && v.Kind == expand.String {
			out = append(out, name+"="+v.Str)
		}
	}
	slices.Sort(out)
	return out
}

// clone is the shell that a child starts with.
func (sh *shell) clone() *shell {
	c := *sh
	c.vars = &scope{vars: maps.Collect(maps.All(sh.vars.all()))}
	c.funcs = maps.Clone(sh.funcs)
	c.traps = map[string]string{}
	for name, action := range sh.traps {
		if action == "" {
			c.traps[name] = ""
		}
	}
	c.jobs, c.opened, c.tail = nil, nil, false
	c.configure()
	return &c
}

// fork runs body in a subshell. prepare runs first, in the child, to set up its
// descriptors.
func (sh *shell) fork(prepare func(p *kernel.Proc), body func(sh *shell)) (int, error) {
	child := sh.clone()
	return sh.p.Fork(func(p *kernel.Proc) int {
		child.p = p
		prepare(p)
		p.ClosePrivate()
		body(child)
		child.exit(child.status)
		return 0
	})
}

// exit runs the exit trap and ends the process.
func (sh *shell) exit(code int) {
	sh.status = code
	if action := sh.traps["EXIT"]; action != "" {
		delete(sh.traps, "EXIT")
		sh.jump = jump{}
		sh.eval(action)
		sh.status = code
	}
	sh.p.Exit(sh.status)
}

func (sh *shell) errorf(format string, args ...any) {
	_, _ = fmt.Fprintf(output{sh.p, 2}, path.Base(sh.name)+": "+format+"\n", args...)
}

// input and output are descriptors as readers and writers.
type input struct {
	p  *kernel.Proc
	fd int
}

func (in input) Read(b []byte) (int, error) { return in.p.Read(in.fd, b) }

type output struct {
	p  *kernel.Proc
	fd int
}

func (out output) Write(b []byte) (int, error) { return out.p.Write(out.fd, b) }
