package scheduler

import "time"

// toldWaits is what a site's Shares know of who waits for them.
type toldWaits struct {
	to   Waits // nil where nobody wants to know
	told int
	seen time.Time // when they were last counted
}

// countEvery is how often those who wait are counted: that looks at each of them.
const countEvery = time.Second

func newWaits(sites []Site) []toldWaits {
	out := make([]toldWaits, len(sites))
	for k := range sites {
		out[k].to, _ = sites[k].Shares.(Waits)
	}
	return out
}

func (w *toldWaits) tell(n int) {
	if w.to != nil && w.told != n {
		w.told = n
		w.to.Waiting(n)
	}
}

// tellWaits tells how many wait at each site, after all started that can. It returns when
// to count again, if nothing happens before; zero is never.
func (l *loop) tellWaits(now time.Time) (wake time.Time) {
	for k := range l.waits {
		w := &l.waits[k]
		switch next := w.seen.Add(countEvery); {
		case w.to == nil:
		case l.state.short(k, 1) == 0:
			w.tell(0)
		case !now.Before(next):
			w.tell(l.state.short(k, l.state.maxTrials))
			w.seen = now
		default:
			wake = earliest(wake, next)
		}
	}
	return wake
}

// short counts up to most trials that wait for room at a site: after place they are all
// that have their images there, as far as the job has slots for them.
func (s *state) short(k, most int) (n int) {
	if s.stopped || s.sites[k].health != up {
		return 0
	}
	most = min(most, s.maxTrials-s.use.trials)
	pools := map[string]int{}
	for c, queue := range s.sites[k].ready {
		free := min(most-n, s.poolLimit(c.pool)-s.use.pools[c.pool]-pools[c.pool])
		for _, i := range queue {
			if free <= 0 {
				break
			}
			if s.trials[i].waitsFor(k) {
				pools[c.pool]++
				n++
				free--
			}
		}
	}
	return n
}
