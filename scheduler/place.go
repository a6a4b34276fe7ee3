package scheduler

import (
	"time"
)

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
//
// It looks at one trial of each class and at those that it starts, however many
// wait.
func place(s *state, now time.Time) work {
	var w work
	if s.stopped {
		return w
	}
	w.builds = s.toBuild[:max(0, min(s.maxBuilds-s.use.builds, len(s.toBuild)))]
	if len(s.asleep) > 0 {
		w.wake = s.trials[s.asleep[0]].notBefore
	}
	if s.refused {
		return w
	}
	use := s.use.clone()
	for open := s.heads(); use.trials < s.maxTrials; {
		c := first(open)
		if c == nil {
			break
		}
		t := &s.trials[c.queue[c.next]]
		switch {
		case use.pools[t.Pool] >= s.poolLimit(t.Pool):
			c.closed = true
		case use.fits(t.Needs, s.budget):
			use.add(t)
			w.tries = append(w.tries, c.queue[c.next])
			c.next++
		case now.Sub(t.queued) > patience:
			return w // it waited long enough: nobody passes it any more
		default:
			w.wake = earliest(w.wake, t.queued.Add(patience))
			c.closed = true
		}
	}
	return w
}

// head is place's position in the queue of a class.
type head struct {
	queue  []int
	next   int
	closed bool
}

func (s *state) heads() []head {
	out := make([]head, 0, len(s.ready))
	for _, queue := range s.ready {
		out = append(out, head{queue: queue})
	}
	return out
}

// first returns the class whose next trial comes first in the job; nil when none
// has one that may start.
func first(heads []head) *head {
	var out *head
	for i := range heads {
		h := &heads[i]
		if h.closed || h.next == len(h.queue) {
			continue
		}
		if out == nil || h.queue[h.next] < out.queue[out.next] {
			out = h
		}
	}
	return out
}

func (s *state) poolLimit(pool string) int {
	if n, ok := s.pools[pool]; ok {
		return n
	}
	return s.maxTrials
}

// earliest treats the zero time as never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
