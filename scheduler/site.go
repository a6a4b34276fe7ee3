package scheduler

import (
	"maps"
	"math/bits"
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

	refused   []Resources // what its shares said no to since something was free: the least of it
	health    health
	why       string // of the health, or of the pause
	coolUntil time.Time
}

func newSite(s Site) site {
	s.MaxBuilds, s.Weight = max(s.MaxBuilds, 1), max(s.Weight, 1)
	return site{Site: s, images: map[string]*image{}, ready: map[class][]int{}}
}

func (s *site) open(now time.Time) bool {
	return s.health == up && !now.Before(s.coolUntil)
}

// refuse keeps what its shares said no to.
func (s *site) refuse(needs Resources) {
	s.refused = append(slices.DeleteFunc(s.refused, needs.within), needs)
}

// refuses reports whether its shares said no to as much, or to less.
func (s *site) refuses(needs Resources) bool {
	return slices.ContainsFunc(s.refused, func(no Resources) bool { return no.within(needs) })
}

// within reports whether r is nowhere more than o.
func (r Resources) within(o Resources) bool {
	return r.CPUs <= o.CPUs && r.MemoryMiB <= o.MemoryMiB && r.DiskMiB <= o.DiskMiB && r.GPUs <= o.GPUs
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

// amounts are Resources in whole numbers, so that what is added comes off again.
type amounts [4]int64

func (r Resources) amounts() amounts {
	return amounts{milli(r.CPUs), r.MemoryMiB, r.DiskMiB, int64(r.GPUs)}
}

// kinds are some of the amounts, a bit for each.
type kinds uint8

// first names the first of some.
func (k kinds) first() string {
	return [...]string{"CPUs", "memory", "disk", "GPUs"}[bits.TrailingZeros8(uint8(k))]
}

// takes are the kinds that are declared.
func (r Resources) takes() (out kinds) {
	for k, n := range r.amounts() {
		if n > 0 {
			out |= 1 << k
		}
	}
	return out
}

// load is what running work takes of a site.
type load struct {
	trials, builds int
	used           amounts
}

func (u *load) count(needs Resources, n int64) {
	u.trials += int(n)
	for k, need := range needs.amounts() {
		u.used[k] += n * need
	}
}

// lack are the kinds of which there is too little for needs within a budget. What is not
// declared is not lacking, and what is larger than the whole budget fits where nothing of
// that kind is used.
func (u *load) lack(needs, budget Resources) (out kinds) {
	need, limit := needs.amounts(), budget.amounts()
	for k, used := range u.used {
		if limit[k] > 0 && need[k] > 0 && used > 0 && used+need[k] > limit[k] {
			out |= 1 << k
		}
	}
	return out
}

// holds reports whether needs could ever fit into a budget beside others.
func holds(needs, budget Resources) bool {
	need, limit := needs.amounts(), budget.amounts()
	for k := range need {
		if limit[k] > 0 && need[k] > limit[k] {
			return false
		}
	}
	return true
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
