package scheduler

import (
	"time"
)

// work is what to start now, and when to look again if nothing happens before.
type work struct {
	builds []build
	starts []start
	wake   time.Time // zero is never
}

type build struct {
	site int
	key  string
}

type start struct {
	trial, site int
	passed      []Passed
}

// patience is how long a trial that does not fit lets others have what it needs.
const patience = time.Minute

// place decides what starts now. It is a pure function: trials go in the order of
// the job, each to the first site that can take it, except that one in back-off,
// without its images or too large for what is free lets others pass, the last one only
// for so long. It never exceeds maxTrials, a pool, or what a site has.
//
// It looks at one trial of each class and site, and at those that it starts, however
// many wait.
func place(s *state, now time.Time) work {
	if s.stopped {
		return work{}
	}
	p := newPlacing(s, now)
	for p.use.trials < s.maxTrials {
		h := p.first()
		if h == nil {
			break
		}
		p.consider(h)
	}
	p.builds()
	return p.work
}

// placing is one run of place: a state, and what is decided beyond it.
type placing struct {
	*state
	now   time.Time
	use   total
	loads []load
	kept  []kinds // of what sites lack for trials that wait for it, and are passed by nobody
	begun []int
	full  []bool // sites where something did not fit
	heads []head
	last  int // trial that was placed last; those before it are placed or closed
	work  work
}

// head is place's position in a queue of a site.
type head struct {
	site    int
	queue   []int
	takes   kinds // of its class
	refused bool  // the site's shares say no to its class
	closed  bool
}

func newPlacing(s *state, now time.Time) *placing {
	n := len(s.sites)
	p := &placing{
		state: s, now: now, use: s.use.clone(), loads: make([]load, n), kept: make([]kinds, n), begun: make([]int, n), full: make([]bool, n), last: -1,
	}
	if len(s.asleep) > 0 {
		p.work.wake = s.trials[s.asleep[0]].notBefore
	}
	for k := range s.sites {
		site := &s.sites[k]
		p.loads[k], p.begun[k], p.full[k] = site.use, site.begun, len(site.refused) > 0
		if now.Before(site.coolUntil) && site.health == up {
			p.work.wake = earliest(p.work.wake, site.coolUntil)
		}
		if !site.open(now) {
			continue
		}
		for c, queue := range site.ready {
			p.heads = append(p.heads, head{site: k, queue: queue, takes: c.needs.takes(), refused: site.refuses(c.needs)})
		}
	}
	return p
}

// first returns the head whose next trial comes first in the job, that of the
// preferred site when there are several; nil when none has one that may start.
func (p *placing) first() *head {
	var out *head
	for i := range p.heads {
		h := &p.heads[i]
		if h.closed || !p.advance(h) {
			continue
		}
		if out == nil || h.queue[0] < out.queue[0] || h.queue[0] == out.queue[0] && p.preferred(h.site, out.site, h.queue[0]) {
			out = h
		}
	}
	return out
}

// advance passes by what is placed already. It reports whether anything is left.
func (p *placing) advance(h *head) bool {
	for len(h.queue) > 0 && (!p.trials[h.queue[0]].waitsFor(h.site) || h.queue[0] <= p.last) {
		h.queue = h.queue[1:]
	}
	return len(h.queue) > 0
}

// preferred reports whether site a comes before b for a trial: by rank, then by
// what each had of its share, then by cost, then by the order of the sites.
func (p *placing) preferred(a, b, trial int) bool {
	x, y := &p.sites[a], &p.sites[b]
	if x.Rank != y.Rank {
		return x.Rank < y.Rank
	}
	if l, r := (p.begun[a]+1)*y.Weight, (p.begun[b]+1)*x.Weight; l != r {
		return l < r
	}
	if l, r := p.trials[trial].Places[a].Cost, p.trials[trial].Places[b].Cost; l != r {
		return l < r
	}
	return a < b
}

// consider starts the next trial of a head, or closes the head.
func (p *placing) consider(h *head) {
	i := h.queue[0]
	t := &p.trials[i]
	lack := p.loads[h.site].lack(t.Needs, p.sites[h.site].Budget)
	switch {
	case p.use.pools[t.Pool] >= p.poolLimit(t.Pool):
		h.closed = true
	case lack == 0 && !h.refused:
		p.work.starts = append(p.work.starts, start{trial: i, site: h.site, passed: p.passed(i, h.site)})
		p.use.count(t.Pool, 1)
		p.loads[h.site].count(t.Needs, 1)
		p.begun[h.site]++
		p.last = i
	default:
		h.closed, p.full[h.site] = true, true
		if until := t.queued.Add(patience); until.After(p.now) {
			p.work.wake = earliest(p.work.wake, until)
		} else if !p.elsewhere(i, h) {
			p.keep(h, t.Needs, lack)
		}
	}
}

// keep has nobody pass a trial any more that waited long enough: what it needs counts as
// used, once for each kind that is lacking. Of what there is too little for a lease nobody
// knows: there those wait who take of all that the trial takes.
func (p *placing) keep(h *head, needs Resources, lack kinds) {
	if lack&^p.kept[h.site] != 0 {
		p.kept[h.site] |= lack
		p.loads[h.site].count(needs, 1)
	}
	for k := range p.heads {
		if o := &p.heads[k]; lack == 0 && o.site == h.site && h.takes&^o.takes == 0 {
			o.closed = true
		}
	}
}

// elsewhere reports whether another site may still take a trial in this run.
func (p *placing) elsewhere(i int, but *head) bool {
	for k := range p.heads {
		if h := &p.heads[k]; h != but && !h.closed && p.advance(h) && h.queue[0] == i {
			return true
		}
	}
	return false
}

func (s *state) poolLimit(pool string) int {
	if n, ok := s.pools[pool]; ok {
		return n
	}
	return s.maxTrials
}

// builds chooses what is built: at each site what trials need that have it as their
// first choice, and what the others need only when no better site can take them now.
func (p *placing) builds() {
	for k := range p.sites {
		site := &p.sites[k]
		if site.health != up {
			continue
		}
		free := site.MaxBuilds - p.loads[k].builds
		free = p.build(k, site.due, free)
		if p.saturated(site.Rank) {
			p.build(k, site.spare, free)
		}
	}
}

func (p *placing) build(k int, keys []string, free int) int {
	for _, key := range keys {
		if free <= 0 {
			break
		}
		if b := (build{k, key}); p.awaited(k, key) && !p.chosen(b) {
			p.work.builds = append(p.work.builds, b)
			free--
		}
	}
	return free
}

func (p *placing) chosen(b build) bool {
	for _, other := range p.work.builds {
		if other == b {
			return true
		}
	}
	return false
}

// saturated reports whether no site below a rank takes more now.
func (p *placing) saturated(rank int) bool {
	for k := range p.sites {
		if s := &p.sites[k]; s.Rank < rank && s.open(p.now) && !p.full[k] {
			return false
		}
	}
	return true
}

// passed says why preferred sites do not take a trial that another takes.
func (p *placing) passed(i, chosen int) []Passed {
	var out []Passed
	for k := range p.sites {
		if k == chosen || p.sites[k].Rank > p.sites[chosen].Rank {
			continue
		}
		if why := p.why(i, k); why != "" {
			out = append(out, Passed{k, why})
		}
	}
	return out
}

// why tells what keeps a trial from a site; "" when nothing does but the preference.
func (p *placing) why(i, k int) string {
	t, site := &p.trials[i], &p.sites[k]
	if why := p.bar(t, k); why != "" {
		return why
	}
	switch {
	case site.health == lost:
		return "given up: " + site.why
	case site.health == down && site.why != "":
		return "down: " + site.why
	case site.health == down:
		return "down"
	case p.now.Before(site.coolUntil):
		return "pausing: " + site.why
	case site.refuses(t.Needs):
		return "full: the limits of all harbor processes are reached"
	}
	for _, key := range t.Places[k].Builds {
		if site.images[key].status != buildFinished {
			return "its image is not there"
		}
	}
	if lack := p.loads[k].lack(t.Needs, site.Budget); lack != 0 {
		return "full: too little " + lack.first()
	}
	return ""
}

// earliest treats the zero time as never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
