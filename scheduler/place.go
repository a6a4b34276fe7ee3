package scheduler

import (
	"cmp"
	"slices"
	"time"
)

// status is where a trial stands.
type status uint8

const (
	waiting status = iota // in the queue; after a retry's pause too
	running
	done
)

// buildStatus is where a build stands. One that failed is finished: its trials
// run, meet the remembered failure and say so in their results.
type buildStatus uint8

const (
	buildNeeded buildStatus = iota
	buildRunning
	buildFinished
)

// entry is one trial in the state.
type entry struct {
	Trial
	status    status
	tries     int       // started so far
	notBefore time.Time // of the next try, after a back-off
	queued    time.Time // since when it waits for a slot
}

// state is all that placement depends on.
type state struct {
	trials []entry // in the order of the job
	builds map[string]buildStatus

	maxTrials, maxBuilds int
	budget               Resources // of the host; zero fields are no limit
	pools                map[string]int

	stopped bool // no new work: the job was cancelled
	refused bool // Shares said no since it last said that something is free
}

// work is what to start now, and when to look again if nothing happens before.
type work struct {
	builds []string
	tries  []int
	wake   time.Time // zero is never
}

// patience is how long a trial that does not fit lets smaller ones pass.
const patience = time.Minute

// place decides what starts now. It is a pure function: trials go in the order of
// the job, except that one in back-off, without its images or too large for what
// is free lets others pass, the last one only for so long. It never exceeds
// maxTrials, maxBuilds, the budget or a pool.
func place(s *state, now time.Time) work {
	var w work
	if s.stopped {
		return w
	}
	use := s.inUse()
	for i := range s.trials {
		t := &s.trials[i]
		if t.status != waiting {
			continue
		}
		if now.Before(t.notBefore) {
			w.wake = earliest(w.wake, t.notBefore)
			continue
		}
		if !s.ready(t, &use, &w) || s.refused || use.trials >= s.maxTrials || use.pool(t.Pool) >= s.poolLimit(t.Pool) {
			continue
		}
		if !use.fits(t.Needs, s.budget) {
			if now.Sub(t.queued) > patience {
				break // it waited long enough: nobody passes it any more
			}
			w.wake = earliest(w.wake, t.queued.Add(patience))
			continue
		}
		use.add(t)
		w.tries = append(w.tries, i)
	}
	return w
}

// ready reports whether all images of a trial are there, and starts what is not
// even being built.
func (s *state) ready(t *entry, use *usage, w *work) bool {
	ok := true
	for _, key := range t.Builds {
		switch s.builds[key] {
		case buildFinished:
		case buildRunning:
			ok = false
		case buildNeeded:
			ok = false
			if use.builds < s.maxBuilds && !slices.Contains(w.builds, key) {
				use.builds++
				w.builds = append(w.builds, key)
			}
		}
	}
	return ok
}

func (s *state) poolLimit(pool string) int {
	if n, ok := s.pools[pool]; ok {
		return n
	}
	return s.maxTrials
}

// usage is what running work takes.
type usage struct {
	trials, builds int
	res            Resources
	pools          map[string]int
}

func (s *state) inUse() usage {
	u := usage{pools: map[string]int{}}
	for i := range s.trials {
		if s.trials[i].status == running {
			u.add(&s.trials[i])
		}
	}
	for _, b := range s.builds {
		if b == buildRunning {
			u.builds++
		}
	}
	return u
}

func (u *usage) add(t *entry) {
	u.trials++
	u.res.CPUs += t.Needs.CPUs
	u.res.MemoryMiB += t.Needs.MemoryMiB
	u.pools[t.Pool]++
}

func (u *usage) pool(name string) int { return u.pools[name] }

// fits reports whether needs go into the budget. One that is larger than the
// whole budget runs when it is alone.
func (u *usage) fits(needs, budget Resources) bool {
	if u.trials == 0 {
		return true
	}
	return (budget.CPUs == 0 || needs.CPUs == 0 || u.res.CPUs+needs.CPUs <= budget.CPUs) &&
		(budget.MemoryMiB == 0 || needs.MemoryMiB == 0 || u.res.MemoryMiB+needs.MemoryMiB <= budget.MemoryMiB)
}

// earliest treats the zero time as never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && cmp.Compare(b.UnixNano(), a.UnixNano()) < 0 {
		return b
	}
	return a
}
