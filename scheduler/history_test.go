package scheduler

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// TestPlaceProperties plays random jobs over random sites to their end: sites go down
// and come back or are given up, leases are refused, tries are retried, moved and
// cooled. At every step no bound is exceeded, nothing starts where it must not, and at
// the end every trial that had a site left has run.
func TestPlaceProperties(t *testing.T) {
	t.Parallel()
	events := 100_000
	if os.Getenv("HARBOR_SOAK") != "" {
		events = 1_000_000
	}
	for seed := uint64(0); events > 0; seed++ {
		h := newHistory(seed)
		for h.s.left > 0 && !h.stranded() {
			if err := h.step(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, h.steps, err)
			}
		}
		if err := h.everyoneRan(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		events -= h.events
	}
}

// history is one random job under way.
type history struct {
	r      *rand.Rand
	s      *state
	now    time.Time
	steps  int
	events int
	quiet  int         // steps without an event
	has    []Resources // what sites are seen to have when they recover
}

func newHistory(seed uint64) *history {
	r := rand.New(rand.NewPCG(seed, 1))
	o := Options{MaxTrials: 1 + r.IntN(12), Pools: map[string]int{"p": 1 + r.IntN(3)}}
	for k := range 1 + r.IntN(4) {
		o.Sites = append(o.Sites, Site{
			Name: strconv.Itoa(k), Rank: r.IntN(3), Weight: r.IntN(4), MaxBuilds: r.IntN(3),
			Budget: Resources{CPUs: float64(r.IntN(5)), MemoryMiB: int64(r.IntN(4000)), DiskMiB: int64(r.IntN(2) * 500), GPUs: r.IntN(2)},
		})
	}
	demands := make([]*Demand, 1+r.IntN(8))
	for i := range demands {
		demands[i] = randomDemand(r, len(o.Sites))
	}
	all := make([]Trial, 1+r.IntN(120))
	for i := range all {
		all[i] = Trial{Name: strconv.Itoa(i), Demand: demands[r.IntN(len(demands))]}
	}
	h := &history{r: r, now: start0}
	for k := range o.Sites {
		h.has = append(h.has, o.Sites[k].Budget)
		if o.Sites[k].Down = r.IntN(4) == 0; o.Sites[k].Down {
			o.Sites[k].Budget = Resources{}
		}
	}
	h.s = newState(o, all, start0)
	for k := range o.Sites {
		if o.Sites[k].Down {
			h.s.doubt(k, "")
		}
	}
	return h
}

func randomDemand(r *rand.Rand, sites int) *Demand {
	d := &Demand{
		Needs: Resources{CPUs: float64(r.IntN(6)), MemoryMiB: int64(r.IntN(3000)), DiskMiB: int64(r.IntN(300)), GPUs: r.IntN(8) / 7},
		Pool:  []string{"p", "q"}[r.IntN(2)],
	}
	for range sites {
		p := Place{Cost: float64(r.IntN(2))}
		if r.IntN(5) == 0 {
			p.Bar = "barred"
		}
		p.Builds = []string{"a", "b", "c"}[:r.IntN(3)]
		d.Places = append(d.Places, p)
	}
	d.Places[r.IntN(sites)].Bar = ""
	return d
}

// step lets place decide, does it, looks at the bounds, and lets something happen.
func (h *history) step() error {
	h.steps++
	before := h.events
	h.s.wake(h.now)
	w := place(h.s, h.now)
	for _, b := range w.builds {
		if img := h.s.sites[b.site].images[b.key]; img.status != buildNeeded || h.s.sites[b.site].health != up {
			return fmt.Errorf("build %s at %d: %v", b.key, b.site, img.status)
		}
		h.s.buildStarted(b.site, b.key)
		h.events++
	}
	for _, x := range w.starts {
		if err := h.start(x); err != nil {
			return err
		}
	}
	if err := h.bounds(); err != nil {
		return err
	}
	h.happen()
	if h.events > before {
		h.quiet = 0
	} else if h.quiet++; h.quiet > 10_000 {
		return fmt.Errorf("nothing happens any more, %d trials are left", h.s.left)
	}
	h.now = h.now.Add(time.Duration(h.r.IntN(1000)) * time.Millisecond)
	if !w.wake.IsZero() && h.r.IntN(2) == 0 && w.wake.After(h.now) {
		h.now = w.wake
	}
	return nil
}

func (h *history) start(x start) error {
	site, t := &h.s.sites[x.site], &h.s.trials[x.trial]
	switch {
	case site.refuses(t.Needs): // since the one before
		return nil
	case h.r.IntN(10) == 0:
		site.refuse(t.Needs)
		return nil
	case t.status != waiting || h.now.Before(t.notBefore):
		return fmt.Errorf("trial %d started while %v", x.trial, t.status)
	case site.health != up || h.now.Before(site.coolUntil):
		return fmt.Errorf("trial %d started at %d, which is %v, cool until %v", x.trial, x.site, site.health, site.coolUntil)
	case h.s.bar(t, x.site) != "":
		return fmt.Errorf("trial %d started where it is barred", x.trial)
	}
	for _, key := range t.Places[x.site].Builds {
		if site.images[key].status != buildFinished {
			return fmt.Errorf("trial %d started without image %s", x.trial, key)
		}
	}
	h.s.tryStarted(x.trial, x.site)
	h.events++
	return nil
}

// bounds takes stock afresh.
func (h *history) bounds() error {
	use, loads := total{pools: map[string]int{}}, make([]load, len(h.s.sites))
	for i := range h.s.trials {
		if t := &h.s.trials[i]; t.status == running {
			use.count(t.Pool, 1)
			loads[t.site].count(t.Needs, 1)
		}
	}
	for k := range h.s.sites {
		site := &h.s.sites[k]
		for _, img := range site.images {
			if img.status == buildRunning {
				loads[k].builds++
			}
		}
		l := loads[k]
		switch {
		case l != site.use:
			return fmt.Errorf("site %d uses %+v, and thinks %+v", k, l, site.use)
		case l.builds > site.MaxBuilds:
			return fmt.Errorf("site %d has %d builds at once", k, l.builds)
		case l.trials > 1 && h.exceeds(k, l):
			return fmt.Errorf("site %d has %+v of %+v", k, l, site.Budget)
		}
	}
	if use.trials > h.s.maxTrials || use.pools["p"] > h.s.pools["p"] || use.trials != h.s.use.trials {
		return fmt.Errorf("%+v at once, thinks %+v", use, h.s.use)
	}
	return nil
}

// exceeds reports whether more than the budget is declared, but for one that is larger
// than the budget beside others that declare nothing of it.
func (h *history) exceeds(k int, l load) bool {
	for kind, limit := range h.s.sites[k].Budget.amounts() {
		declaring := 0
		for i := range h.s.trials {
			if t := &h.s.trials[i]; t.status == running && t.site == k && t.Needs.amounts()[kind] > 0 {
				declaring++
			}
		}
		if limit > 0 && l.used[kind] > limit && declaring > 1 {
			return true
		}
	}
	return false
}

// happen lets builds and tries end, and sites fail and recover.
func (h *history) happen() {
	for k := range h.s.sites {
		h.atSite(k)
	}
	for i := range h.s.trials {
		t := &h.s.trials[i]
		if t.status != running || h.r.IntN(3) > 0 {
			continue
		}
		h.events++
		switch n := h.r.IntN(12); {
		case n == 0 && t.tries < 6:
			h.s.trySlept(i, h.now.Add(time.Second))
		case n == 1 && t.moves < 5:
			h.move(i)
		default:
			h.s.tryEnded(i)
		}
	}
}

// move has a trial's site give it up, for good if it may.
func (h *history) move(i int) {
	bar := ""
	if h.r.IntN(4) == 0 && h.s.others(i, h.s.trials[i].site) > 0 {
		bar = "another platform"
	}
	h.s.tryMoved(i, Outcome{Bar: bar}, h.now)
}

func (h *history) atSite(k int) {
	site := &h.s.sites[k]
	for _, key := range []string{"a", "b", "c"} {
		if img := site.images[key]; img != nil && img.status == buildRunning && h.r.IntN(2) == 0 {
			h.s.buildEnded(k, key, h.now)
			h.events++
		}
	}
	if len(site.refused) > 0 && h.r.IntN(3) == 0 {
		site.refused = nil
		h.events++
	}
	switch n := h.r.IntN(200); {
	case n == 0:
		h.s.doubt(k, "down")
	case n == 1:
		h.s.cool(k, h.now.Add(time.Minute), "quota")
	case n == 2 && site.health == down && h.r.IntN(4) == 0:
		h.s.giveUp(k, "gone")
	case n < 60 && site.health == down:
		h.s.recovered(k, h.has[k])
	default:
		return
	}
	h.events++
}

// stranded reports whether what is left has no site that works or may work again.
func (h *history) stranded() bool {
	for i := range h.s.trials {
		if t := &h.s.trials[i]; t.status != done && h.hasSite(i) {
			return false
		}
	}
	return true
}

func (h *history) hasSite(i int) bool {
	return slices.ContainsFunc(h.indexes(), func(k int) bool {
		return h.s.sites[k].health != lost && h.s.bar(&h.s.trials[i], k) == ""
	})
}

func (h *history) indexes() []int {
	out := make([]int, len(h.s.sites))
	for k := range out {
		out[k] = k
	}
	return out
}

func (h *history) everyoneRan() error {
	for i := range h.s.trials {
		if t := &h.s.trials[i]; t.status != done && h.hasSite(i) || t.status == done && t.tries == 0 {
			return fmt.Errorf("trial %d never ran", i)
		}
	}
	return nil
}

// BenchmarkJob is the bookkeeping of a whole job; per trial it must not grow with
// the job.
func BenchmarkJob(b *testing.B) {
	for _, sites := range []int{1, 4} {
		for _, n := range []int{1000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("sites=%d/trials=%d", sites, n), func(b *testing.B) { benchmarkJob(b, sites, n) })
		}
	}
}

func benchmarkJob(b *testing.B, sites, n int) {
	o := Options{MaxTrials: 100}
	for k := range sites {
		o.Sites = append(o.Sites, Site{Name: strconv.Itoa(k), Rank: k, MaxBuilds: 2, Budget: Resources{CPUs: 50}})
	}
	all := make([]Trial, n)
	for i := range all {
		d := &Demand{Needs: Resources{CPUs: float64(i % 3)}}
		for range sites {
			d.Places = append(d.Places, Place{Builds: []string{strconv.Itoa(i / 4)}})
		}
		all[i] = Trial{Name: "t", Demand: d}
	}
	for b.Loop() {
		s := newState(o, all, start0)
		for running := []int(nil); s.left > 0; {
			s.wake(start0)
			w := place(s, start0)
			for _, x := range w.builds {
				s.buildStarted(x.site, x.key)
				s.buildEnded(x.site, x.key, start0)
			}
			for _, x := range w.starts {
				s.tryStarted(x.trial, x.site)
				running = append(running, x.trial)
			}
			if len(running) > 0 {
				s.tryEnded(running[0])
				running = running[1:]
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/trial")
}
