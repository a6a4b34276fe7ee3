package kernel

import (
	"slices"
	"strconv"
	"syscall"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Disposition is what a process does with a signal.
type Disposition uint8

// Dispositions.
const (
	Default Disposition = iota
	Ignore
	Catch // see Pending
)

// harmless signals do nothing by default. Stopping is not simulated.
func harmless(sig syscall.Signal) bool {
	switch sig {
	case 0, syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGURG, syscall.SIGWINCH:
		return true
	}
	return false
}

// Handle sets the disposition of a signal. SIGKILL cannot be handled.
func (p *Proc) Handle(sig syscall.Signal, d Disposition) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	p.ignored[sig] = d == Ignore
	p.caught[sig] = d == Catch
}

// Pending returns the caught signals that arrived since the last call.
func (p *Proc) Pending() []syscall.Signal {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	out := p.pending
	p.pending = nil
	select {
	case <-p.woken:
	default:
	}
	return out
}

// Signal sends a signal: ESRCH when nobody has that number, EPERM when the
// sender may not.
func (p *Proc) Signal(pid int, sig syscall.Signal) error {
	p.Check()
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	target, ok := p.m.procs[pid]
	switch {
	case !ok:
		return syscall.ESRCH
	case p.Cred.UID != 0 && p.Cred.UID != target.Cred.UID:
		return syscall.EPERM
	}
	if target != p.m.init {
		target.deliver(sig)
	}
	return nil
}

// deliver needs m.mu.
func (p *Proc) deliver(sig syscall.Signal) {
	switch {
	case sig == syscall.SIGKILL:
	case p.ignored[sig]:
		return
	case p.caught[sig]:
		if !slices.Contains(p.pending, sig) {
			p.pending = append(p.pending, sig)
		}
		select {
		case p.woken <- struct{}{}:
		default:
		}
		return
	case harmless(sig):
		return
	}
	p.kill(Status{Code: 128 + int(sig), Signal: int(sig)})
}

// kill needs m.mu.
func (p *Proc) kill(s Status) {
	if p.killed {
		return
	}
	p.killed = true
	p.status = s
	close(p.dead)
}

// Charge accounts n more bytes of memory to the process. Over the machine's
// limit the process is killed.
func (p *Proc) Charge(n int64) {
	p.m.mu.Lock()
	p.held += n
	p.m.memory += n
	if limit := p.m.limits.MemoryBytes; limit > 0 && p.m.memory > limit {
		p.m.oomKills++
		p.kill(Status{Code: 128 + int(syscall.SIGKILL), Signal: int(syscall.SIGKILL)})
	}
	p.m.mu.Unlock()
	p.Check()
}

// Job is a command with everything that it started, however deep and detached.
type Job struct {
	live  map[int]*Proc // guarded by Machine.mu
	ended bool          // guarded by Machine.mu; no process can join any more
	empty chan struct{} // closed when no process is left
}

func newJob() *Job { return &Job{live: map[int]*Proc{}, empty: make(chan struct{})} }

func (j *Job) add(p *Proc) { j.live[p.PID] = p }

func (j *Job) remove(p *Proc) {
	delete(j.live, p.PID)
	if len(j.live) == 0 {
		j.ended = true
		close(j.empty)
	}
}

// Empty is closed when no process of the job is left.
func (j *Job) Empty() <-chan struct{} { return j.empty }

// SignalJob sends a signal to all processes of the job and returns how many
// there were. Any goroutine may call it.
func (m *Machine) SignalJob(j *Job, sig syscall.Signal) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range j.live {
		p.deliver(sig)
	}
	return len(j.live)
}

// KillJob kills all processes of the job, lets no other start, and waits until
// they are gone. It returns how many there were.
func (m *Machine) KillJob(j *Job) int {
	m.mu.Lock()
	j.ended = true
	n := len(j.live)
	for _, p := range j.live {
		p.deliver(syscall.SIGKILL)
	}
	m.mu.Unlock()
	if n > 0 {
		<-j.empty
	}
	return n
}
