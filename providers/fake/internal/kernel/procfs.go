package kernel

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"harborgate/providers/fake/internal/vfs"
)

// procEntries is the content of /proc at this moment.
func (m *Machine) procEntries() map[string]*vfs.Node {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]*vfs.Node{
		"uptime":  vfs.Generated(0o444, 0, []byte("1.00 1.00\n")),
		"meminfo": vfs.Generated(0o444, 0, fmt.Appendf(nil, "MemTotal: %d kB\n", m.limits.MemoryBytes>>10)),
	}
	for pid, p := range m.procs {
		entries := p.entries()
		out[itoa(pid)] = vfs.GeneratedDir(func() map[string]*vfs.Node { return entries })
	}
	return out
}

// entries is the content of a process's directory. m.mu is held.
func (p *Proc) entries() map[string]*vfs.Node {
	ppid := 0
	if p.parent != nil {
		ppid = p.parent.PID
	}
	name := ""
	if len(p.args) > 0 {
		name = p.args[0][strings.LastIndexByte(p.args[0], '/')+1:]
	}
	file := func(content string) *vfs.Node { return vfs.Generated(0o444, p.Cred.UID, []byte(content)) }
	return map[string]*vfs.Node{
		"cmdline": file(joinZero(p.args)),
		"comm":    file(name + "\n"),
		"stat":    file(fmt.Sprintf("%d (%s) S %d %d %d 0\n", p.PID, name, ppid, p.sid, p.sid)),
		"status": file(fmt.Sprintf("Name:\t%s\nState:\tS (sleeping)\nPid:\t%d\nPPid:\t%d\nUid:\t%d\t%d\t%d\t%d\n",
			name, p.PID, ppid, p.Cred.UID, p.Cred.UID, p.Cred.UID, p.Cred.UID)),
		"environ": vfs.Generated(0o400, p.Cred.UID, []byte(joinZero(p.env))),
		"cwd":     vfs.GeneratedLink(p.Dir),
	}
}

func joinZero(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return strings.Join(list, "\x00") + "\x00"
}

// ownFD finds /proc/SELF/fd/N and its short names in /dev.
func ownFD(p *Proc, abs string) (int, bool) {
	if fd, ok := map[string]int{"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}[abs]; ok {
		return fd, true
	}
	n, ok := strings.CutPrefix(abs, "/proc/"+itoa(p.PID)+"/fd/")
	if !ok {
		n, ok = strings.CutPrefix(abs, "/dev/fd/")
	}
	var fd int
	if !ok {
		return 0, false
	}
	_, err := fmt.Sscanf(n, "%d", &fd)
	return fd, err == nil
}

// PIDs lists the processes that run now.
func (p *Proc) PIDs() []int {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	return slices.Sorted(maps.Keys(p.m.procs))
}
