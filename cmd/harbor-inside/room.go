package main

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// room is how many processes and threads the sandbox must still be allowed before
// a supervisor starts anew.
const room = 64

// roomForThreads reports whether the sandbox is far from its process limit. A Go
// program that starts and gets no threads dies, and a supervisor's death is its
// command's: a fork bomb would end the image's services. Where the limit cannot be
// read, there may be none left.
func roomForThreads() bool {
	v2, v1 := ownGroups("pids")
	for _, dir := range []string{
		path.Join("/sys/fs/cgroup", v2), "/sys/fs/cgroup",
		path.Join("/sys/fs/cgroup/pids", v1), "/sys/fs/cgroup/pids",
	} {
		limit, err := os.ReadFile(dir + "/pids.max")
		if err != nil {
			if _, err := os.Stat(dir + "/cgroup.procs"); err == nil {
				return true // the root of all groups has no limit
			}
			continue
		}
		used, err := os.ReadFile(dir + "/pids.current")
		return err == nil && hasRoom(string(used), string(limit))
	}
	return false
}

// hasRoom compares the contents of pids.current and pids.max.
func hasRoom(used, limit string) bool {
	limit = strings.TrimSpace(limit)
	if limit == "max" {
		return true
	}
	most, err := strconv.Atoi(limit)
	if err != nil {
		return false
	}
	now, err := strconv.Atoi(strings.TrimSpace(used))
	return err == nil && now+room <= most
}
