package main

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// process is one line of the process table.
type process struct {
	pid, ppid int
	zombie    bool
	start     uint64 // clock ticks since boot; with the pid it names a process for good
}

// processes reads the process table. Who vanishes meanwhile is left out.
func processes() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var out []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			out = append(out, p)
		}
	}
	return out
}

func readProcess(pid int) (process, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	return parseStat(pid, stat)
}

// parseStat reads /proc/PID/stat. The program's name in it, in parentheses, may
// hold anything, parentheses and newlines too.
func parseStat(pid int, stat []byte) (process, bool) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return process{}, false
	}
	const state, ppid, threads, start = 0, 1, 17, 19 // fields behind the name
	f := bytes.Fields(stat[end+1:])
	if len(f) <= start {
		return process{}, false
	}
	parent, err := strconv.Atoi(string(f[ppid]))
	if err != nil {
		return process{}, false
	}
	ticks, err := strconv.ParseUint(string(f[start]), 10, 64)
	if err != nil {
		return process{}, false
	}
	// A first thread that has ended shows as a zombie while others of the process run.
	dead := (f[state][0] == 'Z' || f[state][0] == 'X') && (string(f[threads]) == "0" || string(f[threads]) == "1")
	return process{pid: pid, ppid: parent, zombie: dead, start: ticks}, true
}

// descendants returns the living processes below root. What spare says is left
// out, with everything below it.
func descendants(all []process, root int, spare func(process) bool) []process {
	children := make(map[int][]process, len(all))
	for _, p := range all {
		children[p.ppid] = append(children[p.ppid], p)
	}
	var out []process
	queue := []int{root}
	for len(queue) > 0 {
		parent := queue[0]
		queue = queue[1:]
		for _, p := range children[parent] {
			if spare != nil && spare(p) {
				continue
			}
			queue = append(queue, p.pid)
			if !p.zombie {
				out = append(out, p)
			}
		}
		delete(children, parent)
	}
	return out
}

// signal sends sig unless the pid is somebody else's by now: the handle is taken
// first, then compared. It reports whether the signal was sent.
func (p process) signal(sig syscall.Signal) bool {
	handle, err := os.FindProcess(p.pid)
	if err != nil {
		return false
	}
	defer func() { _ = handle.Release() }()
	if now, ok := readProcess(p.pid); !ok || now.start != p.start {
		return false
	}
	return handle.Signal(sig) == nil
}

// killTrees kills the processes that choose finds in the process table, again and
// again until it finds none. All are stopped before the first is killed, so that
// none can start another one meanwhile. Each victim is announced once, before
// anything is done to it. It reports whether none was left when over came; nil is
// never. A process table that does not even hold us proves nothing.
func killTrees(choose func([]process) []process, announce func(process), over <-chan time.Time) bool {
	seen := map[process]bool{}
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		victims := stopAll(choose, seen, announce)
		if len(victims) == 0 {
			_, readable := readProcess(os.Getpid()) // root may have mounted something over it
			return readable
		}
		for _, p := range victims {
			p.signal(syscall.SIGKILL)
		}
		select {
		case <-over:
			return false
		case <-time.After(wait):
		}
	}
}

// maxStops bounds how often stopAll looks: victims that start others faster than
// they are stopped also die by being killed.
const maxStops = 16

// stopAll stops what choose finds until a look finds nobody new.
func stopAll(choose func([]process) []process, seen map[process]bool, announce func(process)) []process {
	var found []process
	for range maxStops {
		fresh := false
		found = choose(processes())
		for _, p := range found {
			p.ppid = 0 // changes when a parent dies
			if seen[p] {
				continue
			}
			seen[p] = true
			fresh = true
			announce(p)
			p.signal(syscall.SIGSTOP)
		}
		if !fresh {
			break
		}
	}
	return found
}
