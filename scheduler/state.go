package scheduler

import (
	"maps"
	"math"
	"slices"
	"time"
)

// status is where a trial stands.
type status uint8

const (
	waiting status = iota // for its images, its turn, or the end of a pause
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
	tries     int           // started so far
	notBefore time.Time     // of the next try, after a back-off
	queued    time.Time     // since when it waits for what it waits for now
	images    time.Duration // that it waited for images before that
}

// class is what decides whether a trial fits. Trials of one class wait in one
// queue: when its first does not fit, none does.
type class struct {
	pool  string
	needs Resources
}

func (t *Trial) class() class { return class{t.Pool, t.Needs} }

// state is all that placement depends on. A waiting trial is in exactly one of
// blocked, ready and asleep, so that a step costs what it changes, not what waits.
type state struct {
	maxTrials, maxBuilds int
	budget               Resources // of the host; zero fields are no limit
	pools                map[string]int

	trials []entry // in the order of the job
	builds map[string]buildStatus
	left   int   // trials that are not done
	use    usage // of what is running

	toBuild []string         // in the order of the trials that need them
	blocked map[string][]int // by an image that is not there yet
	ready   map[class][]int  // in the order of the job
	asleep  []int            // in back-off, who wakes first comes first

	stopped bool // no new work: the job was cancelled
	refused bool // Shares said no since it last said that something is free
}

func newState(o Options, all []Trial, now time.Time) *state {
	s := &state{
		maxTrials: max(o.MaxTrials, 1), maxBuilds: max(o.MaxBuilds, 1), budget: o.Budget, pools: o.Pools,
		trials: make([]entry, len(all)), builds: map[string]buildStatus{}, left: len(all), use: usage{pools: map[string]int{}},
		blocked: map[string][]int{}, ready: map[class][]int{},
	}
	for i, t := range all {
		s.trials[i] = entry{Trial: t, queued: now}
		for _, key := range t.Builds {
			if _, known := s.builds[key]; !known {
				s.builds[key] = buildNeeded
				s.toBuild = append(s.toBuild, key)
			}
		}
		s.enqueue(i)
	}
	return s
}

// enqueue puts a waiting trial where it waits.
func (s *state) enqueue(i int) {
	t := &s.trials[i]
	for _, key := range t.Builds {
		if s.builds[key] != buildFinished {
			s.blocked[key] = append(s.blocked[key], i)
			return
		}
	}
	queue := s.ready[t.class()]
	at, _ := slices.BinarySearch(queue, i)
	s.ready[t.class()] = slices.Insert(queue, at, i)
}

// wake lets the trials go whose pause is over.
func (s *state) wake(now time.Time) {
	for len(s.asleep) > 0 && !now.Before(s.trials[s.asleep[0]].notBefore) {
		s.enqueue(s.asleep[0])
		s.asleep = s.asleep[1:]
	}
}

func (s *state) buildStarted(key string) {
	s.builds[key] = buildRunning
	s.use.builds++
	at := slices.Index(s.toBuild, key) // the first, unless a step was cut short
	s.toBuild = slices.Delete(s.toBuild, at, at+1)
}

// buildEnded lets the trials go on that waited for an image: to their next one, or
// into the queue for a slot, whose time begins only now.
func (s *state) buildEnded(key string, now time.Time) {
	s.builds[key] = buildFinished
	s.use.builds--
	waited := s.blocked[key]
	delete(s.blocked, key)
	for _, i := range waited {
		t := &s.trials[i]
		t.images += now.Sub(t.queued)
		t.queued = now
		s.enqueue(i)
	}
}

// tryStarted takes a trial off its queue, whose first it is.
func (s *state) tryStarted(i int) {
	t := &s.trials[i]
	t.status = running
	t.tries++
	s.use.add(t)
	if queue := s.ready[t.class()][1:]; len(queue) > 0 {
		s.ready[t.class()] = queue
	} else {
		delete(s.ready, t.class())
	}
}

func (s *state) tryEnded(i int) {
	s.trials[i].status = done
	s.left--
	s.use.remove(&s.trials[i])
}

// trySlept is the end of a try after which there is another, not before the time.
func (s *state) trySlept(i int, until time.Time) {
	t := &s.trials[i]
	t.status, t.notBefore, t.queued, t.images = waiting, until, until, 0
	s.use.remove(t)
	at, _ := slices.BinarySearchFunc(s.asleep, until, func(j int, until time.Time) int {
		return s.trials[j].notBefore.Compare(until)
	})
	s.asleep = slices.Insert(s.asleep, at, i)
}

// usage is what running work takes.
type usage struct {
	trials, builds int
	milliCPUs      int64 // whole numbers, so that what is added comes off again
	memoryMiB      int64
	pools          map[string]int
}

func (u *usage) clone() usage {
	c := *u
	c.pools = maps.Clone(u.pools)
	return c
}

func (u *usage) add(t *entry)    { u.count(t, 1) }
func (u *usage) remove(t *entry) { u.count(t, -1) }

func (u *usage) count(t *entry, n int64) {
	u.trials += int(n)
	u.milliCPUs += n * milli(t.Needs.CPUs)
	u.memoryMiB += n * t.Needs.MemoryMiB
	u.pools[t.Pool] += int(n)
}

// fits reports whether needs go into the budget. One that is larger than the
// whole budget runs when it is alone.
func (u *usage) fits(needs, budget Resources) bool {
	return u.trials == 0 ||
		within(u.milliCPUs, milli(needs.CPUs), milli(budget.CPUs)) && within(u.memoryMiB, needs.MemoryMiB, budget.MemoryMiB)
}

// within holds what is used and needed against a limit; undeclared needs count
// nothing.
func within(used, needed, limit int64) bool {
	return limit == 0 || needed == 0 || used+needed <= limit
}

func milli(cpus float64) int64 { return int64(math.Round(1000 * cpus)) }
