package shell

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"harborgate/providers/fake/internal/kernel"
)

// scope holds the variables of the shell, or the local ones of a function call.
type scope struct {
	vars   map[string]expand.Variable
	parent *scope
}

func (s *scope) get(name string) expand.Variable {
	for at := s; at != nil; at = at.parent {
		if v, ok := at.vars[name]; ok {
			return v
		}
	}
	return expand.Variable{}
}

// home is the scope that holds name, or the outermost.
func (s *scope) home(name string) *scope {
	at := s
	for at.parent != nil {
		if _, ok := at.vars[name]; ok {
			break
		}
		at = at.parent
	}
	return at
}

// all returns every visible variable.
func (s *scope) all() map[string]expand.Variable {
	if s.parent == nil {
		return s.vars
	}
	out := maps.Clone(s.parent.all())
	maps.Copy(out, s.vars)
	return out
}

// environment shows the shell's variables and parameters to the expander.
type environment struct{ sh *shell }

func (e environment) Get(name string) expand.Variable {
	if v, ok := e.sh.special(name); ok {
		return v
	}
	return e.sh.vars.get(name)
}

func (e environment) Each(f func(string, expand.Variable) bool) {
	for name, v := range e.sh.vars.all() {
		if !f(name, v) {
			return
		}
	}
}

func (e environment) Set(name string, v expand.Variable) error { return e.sh.assign(name, v) }

func text(s string) expand.Variable {
	return expand.Variable{Set: true, Kind: expand.String, Str: s}
}

func (sh *shell) special(name string) (expand.Variable, bool) {
	switch name {
	case "#":
		return text(strconv.Itoa(len(sh.params))), true
	case "@", "*":
		return expand.Variable{Set: true, Kind: expand.Indexed, List: append([]string{}, sh.params...)}, true
	case "?":
		return text(strconv.Itoa(sh.status)), true
	case "$":
		return text(strconv.Itoa(sh.mainPID)), true
	case "!":
		return expand.Variable{Set: sh.lastJob > 0, Kind: expand.String, Str: strconv.Itoa(sh.lastJob)}, true
	case "0":
		return text(sh.name), true
	case "PPID":
		return text(strconv.Itoa(sh.p.PPID())), true
	case "BASHPID":
		return text(strconv.Itoa(sh.p.PID)), true
	case "UID", "EUID":
		return text(strconv.Itoa(sh.p.Cred.UID)), true
	}
	return sh.computed(name)
}

// computed are the parameters by number and, by a name that the expander has
// invented, the homes of users.
func (sh *shell) computed(name string) (expand.Variable, bool) {
	if user, ok := strings.CutPrefix(name, "HOME "); ok {
		return text(sh.homeOf(user)), true
	}
	n, err := strconv.Atoi(name)
	switch {
	case err != nil:
		return expand.Variable{}, false
	case n > len(sh.params):
		return expand.Variable{}, true
	}
	return text(sh.params[n-1]), true
}

// homeOf answers ~user from the sandbox's own accounts. An unknown user keeps
// the tilde, so that the expander never asks the host.
func (sh *shell) homeOf(user string) string {
	content, err := sh.p.FS().ReadFile(sh.p.Cred, "/etc/passwd")
	if err == nil {
		for line := range strings.Lines(string(content)) {
			fields := strings.Split(strings.TrimSpace(line), ":")
			if len(fields) > 5 && fields[0] == user {
				return fields[5]
			}
		}
	}
	return "~" + user
}

func (sh *shell) get(name string) string { return environment{sh}.Get(name).String() }

func (sh *shell) set(name, value string) {
	v := sh.vars.get(name)
	v.Set, v.Kind, v.Str = true, expand.String, value
	sh.vars.home(name).vars[name] = v
}

var errReadOnly = errors.New("readonly variable")

// assign stores a variable where it lives. Attributes are the caller's.
func (sh *shell) assign(name string, v expand.Variable) error {
	at := sh.vars.home(name)
	old := at.vars[name]
	switch {
	case old.ReadOnly:
		return fmt.Errorf("%s: %w", name, errReadOnly)
	case !v.Declared():
		delete(at.vars, name)
		return nil
	}
	v.Exported = v.Exported || old.Exported || sh.opts.allexport
	at.vars[name] = v
	return nil
}

// configure gives the shell its own expander.
func (sh *shell) configure() {
	sh.cfg = &expand.Config{
		Env:       environment{sh},
		CmdSubst:  sh.commandSubstitution,
		ProcSubst: sh.processSubstitution,
		NoUnset:   sh.opts.nounset,
		ExtGlob:   true,
	}
	if !sh.opts.noglob {
		sh.cfg.ReadDir2 = sh.readDir
	}
}

func (sh *shell) readDir(name string) ([]fs.DirEntry, error) {
	infos, err := sh.p.FS().ReadDir(sh.p.Cred, sh.p.Abs(name))
	if errors.Is(err, syscall.EACCES) {
		return nil, nil
	}
	out := make([]fs.DirEntry, len(infos))
	for i, info := range infos {
		out[i] = fs.FileInfoToDirEntry(info)
	}
	return out, err
}

func (sh *shell) commandSubstitution(w io.Writer, cs *syntax.CmdSubst) error {
	r, wr := sh.p.Pipe()
	pid, err := sh.fork(func(p *kernel.Proc) { _ = p.Dup(wr, 1) }, func(sh *shell) {
		sh.tail = true
		sh.stmts(cs.Stmts)
	})
	sh.p.Close(wr)
	defer sh.p.Close(r)
	if err != nil {
		return fmt.Errorf("cannot fork: %w", err)
	}
	if _, err := io.Copy(charged{sh.p, w}, input{sh.p, r}); err != nil {
		return err
	}
	s, _, _ := sh.p.Wait(pid, false)
	sh.substStatus = s.Code
	return nil
}

// charged accounts what is kept in memory to the process.
type charged struct {
	p *kernel.Proc
	w io.Writer
}

func (c charged) Write(b []byte) (int, error) {
	c.p.Charge(int64(len(b)))
	return c.w.Write(b)
}

// firstSubstFD is where bash, too, puts the pipes of process substitutions.
const firstSubstFD = 63

func (sh *shell) processSubstitution(ps *syntax.ProcSubst) (string, error) {
	r, w := sh.p.Pipe()
	inner, innerFD, outer := w, 1, r
	if ps.Op == syntax.CmdOut {
		inner, innerFD, outer = r, 0, w
	}
	fd := firstSubstFD
	for sh.p.HasFD(fd) {
		fd--
	}
	_, err := sh.fork(func(p *kernel.Proc) { _ = p.Dup(inner, innerFD) }, func(sh *shell) { sh.stmts(ps.Stmts) })
	if err == nil {
		err = sh.p.Dup(outer, fd)
	}
	sh.p.Close(r)
	sh.p.Close(w)
	if err != nil {
		return "", fmt.Errorf("process substitution: %w", err)
	}
	sh.opened = append(sh.opened, fd)
	return "/dev/fd/" + strconv.Itoa(fd), nil
}

// expandFailed reports an error of the expander. Those that end a shell do.
func (sh *shell) expandFailed(err error) {
	sh.errorf("%v", err)
	sh.status = 1
	var unset expand.UnsetParameterError
	if errors.As(err, &unset) {
		sh.exit(1)
	}
}

func (sh *shell) fields(words ...*syntax.Word) ([]string, bool) {
	out, err := expand.Fields(sh.cfg, words...)
	if err != nil {
		sh.expandFailed(err)
	}
	return out, err == nil
}

func (sh *shell) literal(w *syntax.Word) string {
	out, err := expand.Literal(sh.cfg, w)
	if err != nil {
		sh.expandFailed(err)
	}
	return out
}

func (sh *shell) pattern(w *syntax.Word) string {
	out, err := expand.Pattern(sh.cfg, w)
	if err != nil {
		sh.expandFailed(err)
	}
	return out
}

func (sh *shell) arithm(e syntax.ArithmExpr) int {
	n, err := expand.Arithm(sh.cfg, e)
	if err != nil {
		sh.expandFailed(err)
	}
	return n
}

// value is what an assignment gives to a variable that was old.
func (sh *shell) value(as *syntax.Assign, old expand.Variable) expand.Variable {
	v := expand.Variable{Set: true, Kind: expand.String, Exported: old.Exported, ReadOnly: old.ReadOnly, Local: old.Local}
	if as.Array != nil {
		v.Kind = expand.Indexed
		if as.Append && old.Kind == expand.Indexed {
			v.List = slices.Clone(old.List)
		}
		for _, e := range as.Array.Elems {
			f, _ := sh.fields(e.Value)
			v.List = append(v.List, f...)
		}
		return v
	}
	s := sh.literal(as.Value)
	if as.Index != nil {
		return sh.element(as, old, s)
	}
	if as.Append {
		s = old.String() + s
	}
	v.Str = s
	return v
}

// element sets one element of an indexed array.
func (sh *shell) element(as *syntax.Assign, old expand.Variable, s string) expand.Variable {
	i := sh.arithm(as.Index)
	list := slices.Clone(old.List)
	if old.Kind == expand.String && old.Set {
		list = []string{old.Str}
	}
	if i < 0 || i > 1<<16 {
		sh.errorf("%s: bad array subscript", as.Name.Value)
		sh.status = 1
		return old
	}
	for len(list) <= i {
		list = append(list, "")
	}
	list[i] = s
	old.Set, old.Kind, old.List = true, expand.Indexed, list
	return old
}
