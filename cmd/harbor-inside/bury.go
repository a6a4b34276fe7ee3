package main

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Times that each way of killing orphans has before the next one is tried. Their
// sum stays below the time that hosts wait for a kill.
const (
	buryGently = time.Second
	buryFrozen = 7 * time.Second
	buryAll    = 5 * time.Second
)

// overrule kills a supervisor that does not obey, and all that it supervises.
func (d *daemon) overrule(s *supervisor) {
	d.forget(s.pid) // which makes it an orphan like those below it
	killed, _ := d.bury(s.pid, true)
	s.buried.Add(int64(killed))
}

// bury kills our children that are no supervisors, with all theirs: they were a
// command's whose supervisor is dead, or to die with them. It returns how many it
// killed, besides the supervisor, and whether none is left. urgent says that
// somebody defends them.
func (d *daemon) bury(supervisor int, urgent bool) (killed int, dead bool) {
	d.burial.Lock()
	defer d.burial.Unlock()
	announce := func(p process) {
		if p.pid != supervisor {
			killed++
		}
	}
	if !urgent && killTrees(d.orphans, announce, time.After(buryGently)) {
		return killed, true
	}
	if os.Getpid() != 1 {
		return killed, killTrees(d.orphans, announce, time.After(buryFrozen))
	}
	// As PID 1 we reach everybody in the sandbox but ourselves with one call, during
	// which nobody can fork: a fork bomb, which would start processes faster than
	// we read the process table, holds still. So do the image's services and other
	// commands, until the kill is done; then those too go on that were stopped before.
	_ = unix.Kill(-1, syscall.SIGSTOP)
	defer func() { _ = unix.Kill(-1, syscall.SIGCONT) }()
	if killTrees(d.orphans, announce, time.After(buryFrozen)) {
		return killed, true
	}
	// The last resort takes the image's services along, and every other command. It
	// is better than a command that lives on while its work is judged.
	for _, p := range processes() {
		if p.pid != os.Getpid() && !p.zombie {
			killed++
		}
	}
	_ = unix.Kill(-1, syscall.SIGKILL)
	return killed, killTrees(d.orphans, func(process) {}, time.After(buryAll))
}

// orphans chooses the living processes below us that no supervisor has.
func (d *daemon) orphans(all []process) []process {
	d.mu.Lock()
	defer d.mu.Unlock()
	return descendants(all, os.Getpid(), func(p process) bool { return d.supervisors[p.pid] })
}
