package main

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// oomCounter is the file in which the kernel counts the processes of this sandbox
// that it killed for memory; "" when there is none.
type oomCounter string

// findOOMCounter looks where cgroup v2 and v1 keep it. Inside a container the
// mount usually shows its own group as the root, whatever /proc/self/cgroup says.
func findOOMCounter() oomCounter {
	v2, v1 := ownGroups("memory")
	for _, file := range []string{
		path.Join("/sys/fs/cgroup", v2, "memory.events"),
		"/sys/fs/cgroup/memory.events",
		path.Join("/sys/fs/cgroup/memory", v1, "memory.oom_control"),
		"/sys/fs/cgroup/memory/memory.oom_control",
	} {
		if _, ok := oomCounter(file).read(); ok {
			return oomCounter(file)
		}
	}
	return ""
}

// ownGroups returns our path in the unified hierarchy of control groups and that
// of a v1 controller.
func ownGroups(controller string) (v2, v1 string) {
	file, _ := os.ReadFile("/proc/self/cgroup")
	return cgroupPaths(string(file), controller)
}

// cgroupPaths reads the content of /proc/self/cgroup.
func cgroupPaths(file, controller string) (v2, v1 string) {
	for line := range strings.Lines(file) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(f) != 3:
		case f[0] == "0" && f[1] == "":
			v2 = f[2]
		case f[1] == controller:
			v1 = f[2]
		}
	}
	return v2, v1
}

// kills returns the count so far, 0 when it is unknown.
func (c oomCounter) kills() int64 {
	n, _ := c.read()
	return n
}

func (c oomCounter) read() (int64, bool) {
	if c == "" {
		return 0, false
	}
	text, err := os.ReadFile(string(c))
	if err != nil {
		return 0, false
	}
	return parseOOMKills(string(text))
}

func parseOOMKills(text string) (int64, bool) {
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != "oom_kill" {
			continue
		}
		n, err := strconv.ParseInt(value, 10, 64)
		return n, err == nil
	}
	return 0, false
}
