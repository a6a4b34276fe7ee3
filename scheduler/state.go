package scheduler

import (
	"math"
	"slices"
	"time"
)

// status is where a trial stands.
type status uint8

const (
	waiting status = iota // for its images, or its turn
	asleep                // until the end of a pause
	running
	done
)

// entry is one trial in the state.
type entry struct {
	Trial
	status    status
	able      bool           // its images are ready somewhere
	site      int            // where it runs
	tries     int            // started so far
	moves     int            // of them, those that counted for nothing
	refusals  int            // of those, the ones that found no room
	best      int            // rank of the sites that it has as its first choice
	barred    map[int]string // sites that turned out to be unable to run it, and why
	notBefore time.Time      // of the next try, after a back-off
	queued    time.Time      // since when it waits for what it waits for now
	images    time.Duration  // that it waited for images before that
}

// state is all that placement depends on. A step costs what it changes, not what waits.
type state struct {
	maxTrials int
	pools     map[string]int
	sites     []site

	trials []entry // in the order of the job
	left   int     // trials that are not done
	use    total
	asleep []int // in back-off, who wakes first comes first

	stopped bool // no new work: the job was cancelled
}

func newState(o Options, all []Trial, now time.Time) *state {
	s := &state{
		maxTrials: max(o.MaxTrials, 1), pools: o.Pools, trials: make([]entry, len(all)), left: len(all), use: total{pools: map[string]int{}},
	}
	for _, site := range o.Sites {
		s.sites = append(s.sites, newSite(site))
	}
	for i, t := range all {
		s.trials[i] = entry{Trial: t, queued: now}
		s.trials[i].best = s.best(&s.trials[i])
		for k := range s.sites {
			for _, key := range t.Places[k].Builds {
				if s.sites[k].images[key] == nil {
					s.sites[k].images[key] = &image{}
				}
			}
		}
		s.enqueue(i)
	}
	return s
}

// best is the lowest rank of the sites that can run it.
func (s *state) best(t *entry) int {
	best := math.MaxInt
	for k := range s.sites {
		if s.sites[k].health != lost && s.bar(t, k) == "" {
			best = min(best, s.sites[k].Rank)
		}
	}
	return best
}

// bar is why a trial does not run at a site. One that is larger than the site runs there
// alone only when no other site is large enough. It changes with what sites have, and
// which are left: see requeue.
func (s *state) bar(t *entry, k int) string {
	if why := t.bar(k); why != "" || holds(t.Needs, s.sites[k].Budget) {
		return why
	}
	for other := range s.sites {
		if s.sites[other].health != lost && t.bar(other) == "" && holds(t.Needs, s.sites[other].Budget) {
			return "it is too small"
		}
	}
	return ""
}

func (t *entry) bar(k int) string {
	if why, ok := t.barred[k]; ok {
		return why
	}
	return t.Places[k].Bar
}

// others counts the sites beside k that could run a trial, now or later.
func (s *state) others(i, k int) (n int) {
	for other := range s.sites {
		if other != k && s.sites[other].health != lost && s.bar(&s.trials[i], other) == "" {
			n++
		}
	}
	return n
}

// enqueue puts a waiting trial where it waits, at each site that can run it.
func (s *state) enqueue(i int) {
	for k := range s.sites {
		if s.sites[k].health != lost && s.bar(&s.trials[i], k) == "" {
			s.enqueueAt(k, i)
		}
	}
}

// requeue makes all queues afresh, after a change of what sites have, or which are left.
func (s *state) requeue() {
	for k := range s.sites {
		s.sites[k].clear()
	}
	for i := range s.trials {
		t := &s.trials[i]
		t.best = s.best(t)
		if t.status == waiting {
			s.enqueue(i)
		}
	}
}

func (s *state) enqueueAt(k, i int) {
	t, site := &s.trials[i], &s.sites[k]
	for _, key := range t.Places[k].Builds {
		if img := site.images[key]; img.status != buildFinished {
			img.blocked = append(img.blocked, i)
			site.want(key, site.Rank == t.best)
			return
		}
	}
	t.able = true
	site.insert(t.class(), i)
}

// wake lets the trials go whose pause is over, and forgets builds that nobody waits for.
func (s *state) wake(now time.Time) {
	for len(s.asleep) > 0 && !now.Before(s.trials[s.asleep[0]].notBefore) {
		i := s.asleep[0]
		s.asleep = s.asleep[1:]
		s.trials[i].status = waiting
		s.enqueue(i)
	}
	for k := range s.sites {
		s.tidy(k)
	}
}

// tidy drops what begins a site's queues and is over, so that nobody passes it by again.
func (s *state) tidy(k int) {
	at := &s.sites[k]
	for len(at.due) > 0 && !s.awaited(k, at.due[0]) {
		at.images[at.due[0]].first = false
		at.due = at.due[1:]
	}
	for len(at.spare) > 0 && !s.awaited(k, at.spare[0]) {
		at.images[at.spare[0]].spare = false
		at.spare = at.spare[1:]
	}
	for c, queue := range at.ready {
		if left := s.pending(k, queue); len(left) == 0 {
			delete(at.ready, c)
		} else if len(left) < len(queue) {
			at.ready[c] = left
		}
	}
}

// pending is a site's queue without those at its beginning that do not wait for it.
func (s *state) pending(k int, queue []int) []int {
	for len(queue) > 0 && !s.trials[queue[0]].waitsFor(k) {
		queue = queue[1:]
	}
	return queue
}

// waitsFor reports whether an entry in a site's queue holds.
func (t *entry) waitsFor(k int) bool { return t.status == waiting && t.barred[k] == "" }

// awaited reports whether a build has not begun and a trial waits for it.
func (s *state) awaited(k int, key string) bool {
	img := s.sites[k].images[key]
	img.blocked = s.pending(k, img.blocked) // who waits again is appended again
	return img.status == buildNeeded && len(img.blocked) > 0
}

func (s *state) buildStarted(k int, key string) {
	s.sites[k].images[key].status = buildRunning
	s.sites[k].use.builds++
}

// buildEnded lets the trials go on that waited for an image: to their next one, or
// into the queue for a slot, whose time begins only now.
func (s *state) buildEnded(k int, key string, now time.Time) {
	img := s.sites[k].images[key]
	s.sites[k].use.builds--
	img.status = buildFinished
	blocked := img.blocked
	img.blocked = nil
	for _, i := range blocked {
		t := &s.trials[i]
		if !t.waitsFor(k) {
			continue
		}
		if !t.able {
			t.images += now.Sub(t.queued)
			t.queued = now
		}
		s.enqueueAt(k, i)
	}
}

// tryStarted takes a trial out of all queues: its entries are passed by from now on.
func (s *state) tryStarted(i, k int) {
	t := &s.trials[i]
	t.status, t.site = running, k
	t.tries++
	s.sites[k].begun++
	s.count(t, 1)
}

func (s *state) count(t *entry, n int) {
	s.use.count(t.Pool, n)
	s.sites[t.site].use.count(t.Needs, int64(n))
}

func (s *state) tryEnded(i int) {
	s.trials[i].status = done
	s.left--
	s.count(&s.trials[i], -1)
}

// trySlept is the end of a try after which there is another, not before the time.
func (s *state) trySlept(i int, until time.Time) {
	t := &s.trials[i]
	s.count(t, -1)
	t.status, t.able, t.notBefore, t.queued, t.images = asleep, false, until, until, 0
	at, _ := slices.BinarySearchFunc(s.asleep, until, func(j int, until time.Time) int {
		return s.trials[j].notBefore.Compare(until)
	})
	s.asleep = slices.Insert(s.asleep, at, i)
}

// tryMoved is the end of a try that counted for nothing. A Bar keeps the trial from
// its site for good.
func (s *state) tryMoved(i int, out Outcome, now time.Time) {
	t := &s.trials[i]
	s.count(t, -1)
	t.moves++
	if out.Cool > 0 {
		t.refusals++
	}
	if out.Bar != "" {
		if t.barred == nil {
			t.barred = map[int]string{}
		}
		t.barred[t.site] = out.Bar
		t.best = s.best(t)
	}
	t.status, t.able, t.queued, t.images = waiting, false, now, 0
	s.enqueue(i)
}

// doubt takes a site out. It reports whether the site was in.
func (s *state) doubt(k int, why string) bool {
	if s.sites[k].health != up {
		return false
	}
	s.sites[k].health, s.sites[k].why = down, why
	return true
}

// recovered takes a site in again, with what it has. What others of its rank did
// meanwhile it need not make up for.
func (s *state) recovered(k int, budget Resources) {
	site := &s.sites[k]
	site.health, site.why = up, ""
	for i := range s.sites {
		if other := &s.sites[i]; i != k && other.Rank == site.Rank {
			site.begun = max(site.begun, other.begun*site.Weight/other.Weight)
		}
	}
	if site.Budget != budget {
		site.Budget = budget
		s.requeue()
	}
}

// giveUp takes a site out for good. It reports whether another is left.
func (s *state) giveUp(k int, why string) bool {
	s.sites[k].health, s.sites[k].why = lost, why
	s.requeue()
	return slices.ContainsFunc(s.sites, func(s site) bool { return s.health != lost })
}

// cool keeps new tries from a site.
func (s *state) cool(k int, until time.Time, why string) {
	if until.After(s.sites[k].coolUntil) {
		s.sites[k].coolUntil = until
		if s.sites[k].health == up {
			s.sites[k].why = why
		}
	}
}

// refusing reports whether a site that works said no: it will say when it is free.
func (s *state) refusing() bool {
	return slices.ContainsFunc(s.sites, func(s site) bool { return len(s.refused) > 0 && s.health == up })
}

func milli(cpus float64) int64 { return int64(math.Round(1000 * cpus)) }
