package app

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// What a process needs of open files: for itself, and for each running trial
// (session, directory, logs, a transfer, calls to the engine).
const (
	ownFiles   = 64
	trialFiles = 8
)

// parallel is how many trials run at once: as many as were asked for, unless the
// process may not open enough files. Running out in the middle of a trial would
// cost its verdict.
func (j *Job) parallel() int {
	n := j.Plan.Config.NConcurrentTrials
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return n
	}
	most := mostTrials(limit.Cur)
	if n <= most {
		return n
	}
	message := fmt.Sprintf("%d instead of %d trials run at once, because this process may open only %d files: raise `ulimit -n`", most, n, limit.Cur)
	j.note("few_files", message)
	return most
}

// mostTrials is how many trials a limit of open files allows, at least one.
func mostTrials(files uint64) int {
	const enough = 1 << 20
	if files > enough {
		return enough
	}
	return max(1, (int(files)-ownFiles)/trialFiles)
}
