package scheduler

import (
	"maps"
	"slices"
	"time"
)

// buildStatus is where a build stands. One that failed is finished: its trials
// run, meet the remembered failure and say so in their results.
type buildStatus uint8

const (
	buildNeeded buildStatus = iota
	buildRunning
	buildFinished
)

// image is one that trials need at a site.
type image struct {
	status  buildStatus
	first   bool  // it is in the site's due
	spare   bool  // it is in the site's spare
	blocked []int // trials that wait for it there, or did
}

// health is whether a site takes tries.
type health uint8

const (
	up health = iota
	down
	lost // for the rest of the job
)

// class is what decides whether a trial fits. Trials of one class wait in one
// queue of a site: when its first does not fit, none does.
type class struct {
	pool  string
	needs Resources
}

func (d *Demand) class() class { return class{d.Pool, d.Needs} }

// site is a Site in the state. A trial that waits is, at each site that can run it, in
// the queue of its class or with the image that it lacks there. When it starts
// somewhere its entries elsewhere are not looked for: who meets one passes it by.
type site struct {
	Site
	use    load
	begun  int // tries that began here, or as many as its share was while it was away
	images map[string]*image
	ready  map[class][]int // in the order of the job

	// Keys of builds that have not begun, in the order of the trials that need them: due
	// are those of trials that have this site as their first choice, spare the others.
	due, spare []string

	refused   bool // its shares said no, and not since that something is free
	health    health
	why       string // of the health, or of the pause
	coolUntil time.Time
}

func newSite(s Site) site {
	s.MaxBuilds, s.Weight = max(s.MaxBuilds, 1), max(s.Weight, 1)
	return site{Site: s, images: map[string]*image{}, ready: map[class][]int{}}
}

func (s *site) open(now time.Time) bool {
	return s.health == up && !s.refused && !now.Before(s.coolUntil)
}

// want lists a build that has not begun.
func (s *site) want(key string, first bool) {
	img := s.images[key]
	switch {
	case img.status != buildNeeded:
	case first && !img.first:
		img.first = true
		s.due = append(s.due, key)
	case !first && !img.spare:
		img.spare = true
		s.spare = append(s.spare, key)
	}
}

// clear empties its queues.
func (s *site) clear() {
	clear(s.ready)
	s.due, s.spare = nil, nil
	for _, img := range s.images {
		img.first, img.spare, img.blocked = false, false, nil
	}
}

// insert puts a trial into its queue, once.
func (s *site) insert(c class, i int) {
	queue := s.ready[c]
	if at, there := slices.BinarySearch(queue, i); !there {
		s.ready[c] = slices.Insert(queue, at, i)
	}
}

// load is what running work takes of a site.
type load struct {
	trials, builds int
	milliCPUs      int64 // whole numbers, so that what is added comes off again
	memoryMiB      int64
	diskMiB        int64
	gpus           int64
}

func (u *load) count(needs Resources, n int64) {
	u.trials += int(n)
	u.milliCPUs += n * milli(needs.CPUs)
	u.memoryMiB += n * needs.MemoryMiB
	u.diskMiB += n * needs.DiskMiB
	u.gpus += n * int64(needs.GPUs)
}

// lack names what there is too little of for needs within a budget, "" when they fit.
// What is larger than the whole budget fits when it is alone.
func (u *load) lack(needs, budget Resources) string {
	switch {
	case u.trials == 0:
		return ""
	case !within(u.milliCPUs, milli(needs.CPUs), milli(budget.CPUs)):
		return "CPUs"
	case !within(u.memoryMiB, needs.MemoryMiB, budget.MemoryMiB):
		return "memory"
	case !within(u.diskMiB, needs.DiskMiB, budget.DiskMiB):
		return "disk"
	case !within(u.gpus, int64(needs.GPUs), int64(budget.GPUs)):
		return "GPUs"
	}
	return ""
}

// holds reports whether needs could ever fit into a budget beside others.
func holds(needs, budget Resources) bool {
	return within(0, milli(needs.CPUs), milli(budget.CPUs)) && within(0, needs.MemoryMiB, budget.MemoryMiB) &&
		within(0, needs.DiskMiB, budget.DiskMiB) && within(0, int64(needs.GPUs), int64(budget.GPUs))
}

// within holds what is used and needed against a limit; undeclared needs count
// nothing.
func within(used, needed, limit int64) bool {
	return limit == 0 || needed == 0 || used+needed <= limit
}

// total is what running work takes over all sites.
type total struct {
	trials int
	pools  map[string]int
}

func (t *total) clone() total { return total{t.trials, maps.Clone(t.pools)} }

func (t *total) count(pool string, n int) {
	t.trials += n
	t.pools[pool] += n
}
