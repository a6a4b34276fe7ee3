// Package kernel is what a fake sandbox has instead of an operating system:
// processes (goroutines), descriptors, pipes, signals, limits, a loopback network
// and /proc, all in memory. Programs are Go functions. It waits on channels and
// timers only, so it works inside testing/synctest bubbles.
//
// A process that is killed, or that calls Exit, leaves its goroutine inside its
// next system call and never returns from it, as with a real kernel; programs
// hold no locks over system calls and need no code for being killed.
package kernel

import (
	"io/fs"
	"sync"
	"syscall"
	"time"

	"harborgate/providers/fake/internal/vfs"
)

// Program is what runs in a process. Its result is the exit code.
type Program func(p *Proc) int

// Limits of a machine; zero is no limit.
type Limits struct {
	PIDs        int
	MemoryBytes int64
}

// Options configure New.
type Options struct {
	FS       *vfs.FS
	Programs map[string]Program // by the name in a program file, see Binary
	Limits   Limits
	Outside  Dialer // the network beyond loopback; nil is none
}

// Machine is one running sandbox. All methods may be called concurrently.
type Machine struct {
	FS       *vfs.FS
	programs map[string]Program
	limits   Limits
	net      *network
	init     *Proc
	running  sync.WaitGroup

	mu       sync.Mutex // guards what follows and the marked fields of Proc
	procs    map[int]*Proc
	lastPID  int
	memory   int64
	oomKills int
	off      bool
}

// Binary is the content of a program file that runs programs[name].
func Binary(name string) []byte { return []byte(binaryMagic + name + "\n") }

const binaryMagic = "\x7fPROG "

// New makes a machine whose first process does nothing but adopt orphans.
// The tree gets /proc and /dev.
func New(o Options) (*Machine, error) {
	m := &Machine{
		FS: o.FS, programs: o.Programs, limits: o.Limits, net: newNetwork(o.Outside),
		procs: map[int]*Proc{},
	}
	if err := m.mountSystem(); err != nil {
		return nil, err
	}
	m.init = m.newProc(nil, nil)
	m.init.args = []string{"init"}
	m.procs[m.init.PID] = m.init
	return m, nil
}

func (m *Machine) mountSystem() error {
	devices := map[string]fs.FileMode{"null": 0o666, "zero": 0o666, "full": 0o666, "urandom": 0o666, "random": 0o666, "tty": 0o666}
	for _, dir := range []string{"/dev", "/tmp"} {
		if err := m.FS.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := m.FS.Chmod(vfs.Root(), "/tmp", 0o777|fs.ModeSticky); err != nil {
		return err
	}
	for name, perm := range devices {
		if _, err := m.FS.Stat(vfs.Root(), "/dev/"+name, false); err == nil {
			continue
		}
		if err := m.FS.Mkdev("/dev/"+name, name, perm); err != nil {
			return err
		}
	}
	for link, target := range map[string]string{"stdin": "0", "stdout": "1", "stderr": "2"} {
		err := m.FS.Symlink(vfs.Root(), "/proc/self/fd/"+target, "/dev/"+link)
		if err != nil && !isExist(err) {
			return err
		}
	}
	return m.FS.Mount("/proc", vfs.GeneratedDir(m.procEntries))
}

// OOMKills is how many processes the machine has killed for memory.
func (m *Machine) OOMKills() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.oomKills
}

// PowerOff kills every process, ends all connections and waits until nothing
// runs. No process can start any more.
func (m *Machine) PowerOff() {
	m.mu.Lock()
	m.off = true
	for _, p := range m.procs {
		if p != m.init {
			p.kill(Status{Code: 128 + int(syscall.SIGKILL), Signal: int(syscall.SIGKILL)})
		}
	}
	m.mu.Unlock()
	m.net.close()
	m.running.Wait()
}

// Start runs a program as the first process of a new job.
func (m *Machine) Start(s Spawn) (*Proc, error) {
	job := newJob()
	p, err := m.start(m.init, job, s)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// clock is how far a busy program goes before the machine lets time pass, so
// that endless loops do not stop the clock of a synctest bubble.
const (
	stepsPerSlice = 4096
	slice         = time.Millisecond
)
