package shell

import (
	"fmt"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"harborgate/providers/fake/internal/kernel"
)

func (sh *shell) stmts(list []*syntax.Stmt) {
	tail := sh.tail && len(list) == 1
	sh.tail = false
	for _, st := range list {
		if sh.jump.kind != noJump {
			return
		}
		sh.tail = tail
		sh.stmt(st)
	}
}

// stmt runs one statement and sets the status.
func (sh *shell) stmt(st *syntax.Stmt) {
	sh.p.Check()
	sh.runTraps()
	if sh.opts.noexec {
		return
	}
	if st.Background {
		sh.background(st)
		return
	}
	tail := sh.tail && !st.Negated && len(sh.traps) == 0
	sh.tail = false
	if st.Negated {
		sh.quiet++
	}
	sh.foreground(st, tail)
	if st.Negated {
		sh.quiet--
		sh.status = oneIf(sh.status == 0)
		return
	}
	counts := sh.status != 0 && sh.quiet == 0 && sh.jump.kind == noJump && !isList(st.Cmd)
	if counts && sh.opts.errexit {
		sh.exit(sh.status)
	}
}

// foreground runs a statement under its redirections.
func (sh *shell) foreground(st *syntax.Stmt, tail bool) {
	restore, ok := sh.redirect(st.Redirs)
	switch {
	case ok && st.Cmd != nil:
		sh.tail = tail && mayReplace(st.Cmd)
		sh.command(st.Cmd)
	case ok:
		sh.status = 0
	}
	sh.tail = false
	if !sh.keepFDs {
		restore()
	}
	sh.keepFDs = false
}

// mayReplace reports whether nothing of the shell is left to do after cmd, if
// nothing is left to do after its statement.
func mayReplace(cmd syntax.Command) bool {
	switch cmd.(type) {
	case *syntax.CallExpr, *syntax.Block:
		return true
	}
	return false
}

// isList reports whether failures inside were dealt with where they happened.
func isList(cmd syntax.Command) bool {
	b, ok := cmd.(*syntax.BinaryCmd)
	return ok && (b.Op == syntax.AndStmt || b.Op == syntax.OrStmt)
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (sh *shell) background(st *syntax.Stmt) {
	inner := *st
	inner.Background = false
	pid, err := sh.fork(func(p *kernel.Proc) {
		if fd, err := p.Open("/dev/null", 0, 0); err == nil {
			_ = p.Dup(fd, 0)
		}
	}, func(sh *shell) {
		sh.tail = true
		sh.stmt(&inner)
	})
	if err != nil {
		sh.errorf("cannot fork: %v", err)
		sh.status = 2
		return
	}
	sh.lastJob = pid
	sh.jobs = append(sh.jobs, pid)
	sh.status = 0
}

func (sh *shell) command(cmd syntax.Command) {
	switch c := cmd.(type) {
	case *syntax.CallExpr:
		sh.simple(c)
	case *syntax.Block:
		sh.stmts(c.Stmts)
	case *syntax.Subshell:
		sh.wait(sh.fork(func(*kernel.Proc) {}, func(sh *shell) { sh.stmts(c.Stmts) }))
	case *syntax.BinaryCmd:
		sh.binary(c)
	case *syntax.IfClause:
		sh.ifClause(c)
	case *syntax.WhileClause:
		sh.whileClause(c)
	case *syntax.ForClause:
		sh.forClause(c)
	case *syntax.CaseClause:
		sh.caseClause(c)
	default:
		sh.declaration(cmd)
	}
}

// declaration runs the commands that have no command inside.
func (sh *shell) declaration(cmd syntax.Command) {
	switch c := cmd.(type) {
	case *syntax.FuncDecl:
		sh.funcs[c.Name.Value] = c.Body
		sh.status = 0
	case *syntax.DeclClause:
		sh.declare(c)
	case *syntax.ArithmCmd:
		sh.status = 0
		sh.status = max(sh.status, oneIf(sh.arithm(c.X) == 0))
	case *syntax.LetClause:
		for _, e := range c.Exprs {
			sh.status = oneIf(sh.arithm(e) == 0)
		}
	case *syntax.TestClause:
		sh.status = oneIf(!sh.testExpr(c.X))
	case *syntax.TimeClause:
		start := sh.p.Now()
		if c.Stmt != nil {
			sh.stmt(c.Stmt)
		}
		_, _ = fmt.Fprintf(output{sh.p, 2}, "real %.2f\nuser 0.00\nsys 0.00\n", time.Since(start).Seconds())
	default:
		sh.errorf("%T is not supported by the fake shell", cmd)
		sh.status = 2
	}
}

// wait waits for a child just forked and takes over its status.
func (sh *shell) wait(pid int, err error) {
	if err != nil {
		sh.errorf("cannot fork: %v", err)
		sh.status = 2
		return
	}
	s, _, _ := sh.p.Wait(pid, false)
	sh.status = s.Code
	sh.runTraps()
}

func (sh *shell) binary(c *syntax.BinaryCmd) {
	switch c.Op {
	case syntax.Pipe, syntax.PipeAll:
		sh.pipeline(c)
	case syntax.AndStmt, syntax.OrStmt:
		sh.quiet++
		sh.stmt(c.X)
		sh.quiet--
		if sh.jump.kind == noJump && (sh.status == 0) == (c.Op == syntax.AndStmt) {
			sh.stmt(c.Y)
		}
	default:
		sh.errorf("operator %s is not supported by the fake shell", c.Op)
		sh.status = 2
	}
}

func (sh *shell) pipeline(c *syntax.BinaryCmd) {
	r, w := sh.p.Pipe()
	left, err := sh.fork(func(p *kernel.Proc) {
		_ = p.Dup(w, 1)
		if c.Op == syntax.PipeAll {
			_ = p.Dup(w, 2)
		}
	}, func(sh *shell) {
		sh.tail = true
		sh.stmt(c.X)
	})
	sh.p.Close(w)
	if err != nil {
		sh.p.Close(r)
		sh.wait(0, err)
		return
	}
	right, err := sh.fork(func(p *kernel.Proc) { _ = p.Dup(r, 0) }, func(sh *shell) {
		sh.tail = true
		sh.stmt(c.Y)
	})
	sh.p.Close(r)
	sh.wait(right, err)
	s, _, _ := sh.p.Wait(left, false)
	if sh.opts.pipefail && sh.status == 0 {
		sh.status = s.Code
	}
}

func (sh *shell) condition(list []*syntax.Stmt) bool {
	sh.quiet++
	sh.stmts(list)
	sh.quiet--
	return sh.status == 0
}

func (sh *shell) ifClause(c *syntax.IfClause) {
	for ; c != nil; c = c.Else {
		if len(c.Cond) == 0 || sh.condition(c.Cond) {
			if sh.jump.kind == noJump {
				sh.stmts(c.Then)
			}
			return
		}
		if sh.jump.kind != noJump {
			return
		}
	}
	sh.status = 0
}

// body runs the statements of a loop and reports whether it goes on.
func (sh *shell) body(list []*syntax.Stmt) bool {
	sh.p.Check()
	sh.loops++
	sh.stmts(list)
	sh.loops--
	switch sh.jump.kind {
	case noJump:
		return true
	case returnCall:
		return false
	}
	goesOn := sh.jump.kind == continueLoop && sh.jump.loops == 1
	if sh.jump.loops--; sh.jump.loops <= 0 {
		sh.jump = jump{}
	}
	return goesOn
}

func (sh *shell) whileClause(c *syntax.WhileClause) {
	status := 0
	for sh.condition(c.Cond) != c.Until && sh.jump.kind == noJump {
		goesOn := sh.body(c.Do)
		status = sh.status
		if !goesOn {
			break
		}
	}
	if sh.jump.kind != returnCall {
		sh.status = status
	}
}

func (sh *shell) forClause(c *syntax.ForClause) {
	switch loop := c.Loop.(type) {
	case *syntax.WordIter:
		items := sh.params
		if loop.InPos.IsValid() {
			items, _ = sh.fields(loop.Items...)
		}
		sh.status = 0
		for _, item := range items {
			sh.set(loop.Name.Value, item)
			if !sh.body(c.Do) {
				return
			}
		}
	case *syntax.CStyleLoop:
		if loop.Init != nil {
			sh.arithm(loop.Init)
		}
		for loop.Cond == nil || sh.arithm(loop.Cond) != 0 {
			if !sh.body(c.Do) {
				return
			}
			if loop.Post != nil {
				sh.arithm(loop.Post)
			}
		}
	}
}

func (sh *shell) caseClause(c *syntax.CaseClause) {
	word := sh.literal(c.Word)
	sh.status = 0
	fall := false
	for _, item := range c.Items {
		if !fall && !sh.caseMatches(item, word) {
			continue
		}
		sh.stmts(item.Stmts)
		fall = item.Op == syntax.Fallthrough
		if item.Op == syntax.Break {
			return
		}
	}
}

func (sh *shell) caseMatches(item *syntax.CaseItem, word string) bool {
	for _, w := range item.Patterns {
		if matches(sh.pattern(w), word) {
			return true
		}
	}
	return false
}
