package kernel

import (
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"harborgate/providers/fake/internal/vfs"
)

// Status is how a process ended. Code is 128+Signal after a signal.
type Status struct {
	Code   int
	Signal int
}

// Spawn says what a new process runs.
type Spawn struct {
	Args  []string
	Env   []string // NAME=value
	Dir   string
	Cred  vfs.Cred
	Stdio [3]*Desc // taken over: closed when the process ends or cannot start
}

// Proc is one process. Its methods are for the process's own goroutine unless
// they say otherwise.
type Proc struct {
	m       *Machine
	job     *Job
	PID     int
	Cred    vfs.Cred
	Dir     string
	Umask   int
	fds     map[int]*Desc
	steps   int
	held    int64   // bytes charged
	exiting *Status // set before the goroutine is left early

	done chan struct{} // closed when it ended; then status is set
	dead chan struct{} // closed by kill

	// The rest is guarded by m.mu.
	parent   *Proc
	args     []string
	env      []string
	sid      int
	status   Status
	killed   bool
	children map[int]*Proc
	ignored  map[syscall.Signal]bool
	caught   map[syscall.Signal]bool
	pending  []syscall.Signal
	woken    chan struct{} // capacity 1, filled by a caught signal
}

func (m *Machine) newProc(parent *Proc, job *Job) *Proc {
	m.lastPID++
	p := &Proc{
		m: m, job: job, PID: m.lastPID, parent: parent, Umask: 0o022,
		fds: map[int]*Desc{}, done: make(chan struct{}), dead: make(chan struct{}),
		children: map[int]*Proc{}, ignored: map[syscall.Signal]bool{}, caught: map[syscall.Signal]bool{},
		woken: make(chan struct{}, 1), sid: m.lastPID,
	}
	return p
}

// fork makes a child of parent that runs body. fds are the child's.
func (m *Machine) fork(parent *Proc, job *Job, prepare func(*Proc), body Program) (*Proc, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.off, job.ended:
		return nil, syscall.EAGAIN
	case m.limits.PIDs > 0 && len(m.procs) >= m.limits.PIDs:
		return nil, syscall.EAGAIN
	}
	p := m.newProc(parent, job)
	prepare(p)
	m.procs[p.PID] = p
	parent.children[p.PID] = p
	job.add(p)
	m.running.Add(1)
	go p.run(body)
	return p, nil
}

func (p *Proc) run(body Program) {
	status := Status{Code: 1}
	defer func() { p.finish(status) }()
	defer func() {
		if p.exiting != nil {
			status = *p.exiting
		}
	}()
	status = Status{Code: body(p) & 0xff}
}

// finish is what the kernel does when a process has ended.
func (p *Proc) finish(s Status) {
	for fd := range p.fds {
		p.Close(fd)
	}
	m := p.m
	m.mu.Lock()
	if p.killed {
		s = p.status
	}
	p.status = s
	m.memory -= p.held
	delete(m.procs, p.PID)
	for pid, child := range p.children {
		child.parent = m.init
		select {
		case <-child.done:
		default:
			m.init.children[pid] = child
		}
	}
	if p.parent == m.init {
		delete(m.init.children, p.PID)
	}
	close(p.done)
	p.job.remove(p)
	m.mu.Unlock()
	m.running.Done()
}

// Exit ends the process. It does not return.
func (p *Proc) Exit(code int) {
	p.exiting = &Status{Code: code & 0xff}
	runtime.Goexit()
}

func (p *Proc) die() {
	p.exiting = &Status{Code: 1}
	runtime.Goexit()
}

// Check is a system call that does nothing: a killed process ends here, and a
// busy one gives way after a while. Loops of programs call it.
func (p *Proc) Check() {
	select {
	case <-p.dead:
		p.die()
	default:
	}
	if p.steps++; p.steps%stepsPerSlice == 0 {
		p.Sleep(slice)
	}
}

// Sleep waits for d, or until a caught signal arrives: then it returns false.
func (p *Proc) Sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.woken:
		return false
	case <-p.dead:
		p.die()
		return false
	}
}

// Now is the time on the machine's clock.
func (p *Proc) Now() time.Time { return time.Now() }

// FS is the machine's tree. Paths of its calls are absolute; see Abs.
func (p *Proc) FS() *vfs.FS { return p.m.FS }

// Abs makes a path absolute. It cleans nothing, as ".." after a link matters.
func (p *Proc) Abs(name string) string {
	switch {
	case name == "":
		return "" // a lookup of the empty path fails, as it should
	case strings.HasPrefix(name, "/"):
		return p.selfPath(name)
	}
	return p.selfPath(strings.TrimSuffix(p.Dir, "/") + "/" + name)
}

// selfPath gives /proc/self its meaning, which depends on who asks.
func (p *Proc) selfPath(name string) string {
	if rest, ok := strings.CutPrefix(name, "/proc/self"); ok && (rest == "" || rest[0] == '/') {
		return path.Join("/proc", itoa(p.PID)) + rest
	}
	return name
}

// Args are the program's name and its arguments.
func (p *Proc) Args() []string {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	return slices.Clone(p.args)
}

// Env is the environment that the program started with.
func (p *Proc) Env() []string {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	return slices.Clone(p.env)
}

// Getenv returns a variable of Env, "" when it is not there.
func (p *Proc) Getenv(name string) string {
	for _, kv := range p.Env() {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// PPID is the parent's number now.
func (p *Proc) PPID() int {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if p.parent == nil {
		return 0
	}
	return p.parent.PID
}

// Setsid starts a session. It changes nothing about who may kill the process.
func (p *Proc) Setsid() {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	p.sid = p.PID
}

// Fork runs body in a child that shares the open descriptors.
func (p *Proc) Fork(body Program) (int, error) {
	p.Check()
	child, err := p.m.fork(p, p.job, func(c *Proc) { c.inherit(p) }, body)
	if err != nil {
		return 0, err
	}
	return child.PID, nil
}

// inherit copies what a child has of its parent. m.mu is held.
func (p *Proc) inherit(parent *Proc) {
	p.Cred, p.Dir, p.Umask, p.sid = parent.Cred, parent.Dir, parent.Umask, parent.sid
	p.args, p.env = parent.args, parent.env
	p.ignored = maps.Clone(parent.ignored)
	for fd, d := range parent.fds {
		p.fds[fd] = d.dup()
	}
}

// Wait waits for a child and returns how it ended; ok is false for a process
// that is no child. A caught signal ends the wait early when interruptible.
func (p *Proc) Wait(pid int, interruptible bool) (s Status, ok, interrupted bool) {
	p.m.mu.Lock()
	child, ok := p.children[pid]
	p.m.mu.Unlock()
	if !ok {
		return Status{}, false, false
	}
	var woken chan struct{}
	if interruptible {
		woken = p.woken
	}
	select {
	case <-child.done:
	case <-woken:
		return Status{}, true, true
	case <-p.dead:
		p.die()
	}
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	delete(p.children, pid)
	return child.status, true, false
}

// Done is closed when the process has ended. Any goroutine may use it.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Result is how the process ended, once Done is closed.
func (p *Proc) Result() Status {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	return p.status
}

// Job is what the process was started for. Any goroutine may use it.
func (p *Proc) Job() *Job { return p.job }
