package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// described are places at which the trials of a test run, and why others passed.
func described(w work) []string {
	var out []string
	for _, b := range w.builds {
		out = append(out, fmt.Sprintf("build %s at %d", b.key, b.site))
	}
	for _, s := range w.starts {
		line := fmt.Sprintf("%d at %d", s.trial, s.site)
		for _, p := range s.passed {
			line += fmt.Sprintf(" (%d %s)", p.Site, p.Why)
		}
		out = append(out, line)
	}
	return out
}

func everywhere(sites int, needs Resources, builds ...string) *Demand {
	d := &Demand{Needs: needs}
	for range sites {
		d.Places = append(d.Places, Place{Builds: builds})
	}
	return d
}

func several(n int, d *Demand) []Trial {
	out := make([]Trial, n)
	for i := range out {
		out[i] = Trial{Name: fmt.Sprint(i), Demand: d}
	}
	return out
}

func TestPlaceOverSites(t *testing.T) {
	t.Parallel()
	two := []Site{{Name: "a", Budget: Resources{CPUs: 2}}, {Name: "b", Rank: 1}}
	barred := everywhere(2, Resources{})
	barred.Places[0].Bar = "it has no GPUs"
	cheap := everywhere(2, Resources{})
	cheap.Places[0].Cost = 1
	for _, c := range []struct {
		name   string
		sites  []Site
		trials []Trial
		change func(s *state)
		want   []string
	}{
		{"what the first has no room for goes to the next", two, several(3, everywhere(2, Resources{CPUs: 1})), nil,
			[]string{"0 at 0", "1 at 0", "2 at 1 (0 full: too little CPUs)"}},
		{"one that is down is passed", two, several(1, everywhere(2, Resources{})),
			func(s *state) { s.doubt(0, "connection refused") }, []string{"0 at 1 (0 down: connection refused)"}},
		{"one that is given up is passed", two, several(1, everywhere(2, Resources{})),
			func(s *state) { s.giveUp(0, "no answer") }, []string{"0 at 1 (0 given up: no answer)"}},
		{"one that pauses is passed, and is looked at again", two, several(1, everywhere(2, Resources{})),
			func(s *state) { s.cool(0, start0.Add(time.Minute), "quota exceeded") }, []string{"0 at 1 (0 pausing: quota exceeded)"}},
		{"one that refused a lease is passed", two, several(1, everywhere(2, Resources{})),
			func(s *state) { s.sites[0].refuse(Resources{}) }, []string{"0 at 1 (0 full: the limits of all harbor processes are reached)"}},
		{"what cannot run at one runs at the other", two, several(1, barred), nil, []string{"0 at 1 (0 it has no GPUs)"}},
		{"what is larger than one goes to another", two, several(1, everywhere(2, Resources{CPUs: 3})), nil, []string{"0 at 1 (0 it is too small)"}},
		{"an image that is there counts more than the order", two, several(1, everywhere(2, Resources{}, "k")),
			func(s *state) { s.buildStarted(1, "k"); s.buildEnded(1, "k", start0) }, []string{"build k at 0", "0 at 1 (0 its image is not there)"}},
		{"nothing is built at a site that is not needed", two, several(1, everywhere(2, Resources{}, "k")), nil, []string{"build k at 0"}},
		{"what the first cannot take is built at the next", two, several(1, everywhere(2, Resources{}, "k")),
			func(s *state) { s.doubt(0, "") }, []string{"build k at 1"}},
		{"by weight", []Site{{Weight: 2}, {Weight: 1}}, several(6, everywhere(2, Resources{})), nil,
			[]string{"0 at 0", "1 at 0", "2 at 1", "3 at 0", "4 at 0", "5 at 1"}},
		{"by cost where nothing else decides", []Site{{}, {}}, several(2, cheap), nil, []string{"0 at 1", "1 at 0"}},
		{"by weight, then to the reserve", []Site{{Weight: 1, Budget: Resources{CPUs: 1}}, {Weight: 1, Budget: Resources{CPUs: 1}}, {Rank: 1}},
			several(3, everywhere(3, Resources{CPUs: 1})), nil,
			[]string{"0 at 0", "1 at 1 (0 full: too little CPUs)", "2 at 2 (0 full: too little CPUs) (1 full: too little CPUs)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newState(Options{MaxTrials: 10, Sites: c.sites}, c.trials, start0)
			if c.change != nil {
				c.change(s)
			}
			s.wake(start0)
			if got := described(place(s, start0)); !slices.Equal(got, c.want) {
				t.Errorf("%s\nwant %s", strings.Join(got, "; "), strings.Join(c.want, "; "))
			}
		})
	}
}

// A trial that waited long enough keeps one site for itself, not all.
func TestLargeTrialThatWaitedKeepsOneSite(t *testing.T) {
	t.Parallel()
	sites := []Site{{Budget: Resources{CPUs: 2}}, {Rank: 1, Budget: Resources{CPUs: 2}}}
	trials := append(several(2, everywhere(2, Resources{CPUs: 1})), several(1, everywhere(2, Resources{CPUs: 2}))...)
	trials = append(trials, several(4, everywhere(2, Resources{CPUs: 1}))...)
	s := newState(Options{MaxTrials: 10, Sites: sites}, trials, start0)
	s.tryStarted(0, 0)
	s.tryStarted(1, 1)
	now := start0.Add(2 * patience)
	s.wake(now)
	if got := described(place(s, now)); !slices.Equal(got, []string{"3 at 0"}) {
		t.Errorf("%v", got)
	}
}

// Where an image is not built because the site before has it and is never full, a step
// does not pass by all that ran already, and who tries again still waits for it there.
func TestImageThatASpareSiteLacksCostsNothing(t *testing.T) {
	t.Parallel()
	const n = 1000
	s := newState(Options{MaxTrials: 1, Sites: []Site{{}, {Rank: 1}}}, several(n, everywhere(2, Resources{}, "k")), start0)
	s.buildStarted(0, "k")
	s.buildEnded(0, "k", start0)
	for i := range n {
		s.wake(start0)
		x := place(s, start0).starts[0]
		if waits := len(s.sites[1].images["k"].blocked); waits != n-i || x.trial != i {
			t.Fatalf("%d are looked at of %d that wait, and %d starts", waits, n-i, x.trial)
		}
		s.tryStarted(i, 0)
		if i < n-1 {
			s.tryEnded(i)
		}
	}
	s.trySlept(n-1, start0)
	s.wake(start0)
	s.doubt(0, "")
	if got := described(place(s, start0)); !slices.Equal(got, []string{"build k at 1"}) {
		t.Errorf("%v", got)
	}
}

// fleet are sites with a world for each, and what ran where.
type fleet struct {
	worlds []*world
	mu     sync.Mutex
	ran    []string
	try    func(a Assignment) (time.Duration, Outcome)
}

func newFleet(n int) *fleet {
	f := &fleet{try: func(Assignment) (time.Duration, Outcome) { return time.Second, Outcome{} }}
	for range n {
		f.worlds = append(f.worlds, newWorld())
	}
	return f
}

func (f *fleet) Run(ctx context.Context, a Assignment) Outcome {
	d, out := f.try(a)
	select {
	case <-time.After(d):
	case <-ctx.Done():
		out = Outcome{}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ran = append(f.ran, fmt.Sprintf("%d/%d at %d", a.Trial, a.Try, a.Site))
	return out
}

func (f *fleet) Build(ctx context.Context, site int, key string) {
	f.worlds[site].Build(ctx, site, key)
}

func (f *fleet) options(n int) Options {
	o := Options{MaxTrials: n, Runner: f, Readiness: f}
	for k, w := range f.worlds {
		o.Sites = append(o.Sites, Site{Name: string(rune('a' + k)), Rank: k, MaxBuilds: 1, Shares: w, Health: w})
	}
	return o
}

func TestRefusedLeaseGoesToTheNextSite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(2)
		f.worlds[0].refuse = 1
		begun := time.Now()
		if _, err := Run(t.Context(), f.options(4), several(2, everywhere(2, Resources{}))); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begun); d != time.Second || !slices.Contains(f.ran, "0/1 at 1") || !slices.Contains(f.ran, "1/1 at 1") {
			t.Errorf("%v after %s", f.ran, d)
		}
	})
}

// A site goes down under a trial: it runs again elsewhere, at no cost, and the site
// takes trials again when it works.
func TestFailOverAndReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(2)
		f.worlds[0].outage = 10 * time.Second
		var moves []int
		f.try = func(a Assignment) (time.Duration, Outcome) {
			moves = append(moves, a.Moves)
			if a.Trial == 0 && a.Site == 0 {
				return time.Second, Outcome{Move: true, Doubt: true, Why: "gone"}
			}
			return 6 * time.Second, Outcome{}
		}
		if _, err := Run(t.Context(), f.options(1), several(4, everywhere(2, Resources{}))); err != nil {
			t.Fatal(err)
		}
		want := []string{"0/1 at 0", "0/2 at 1", "1/1 at 1", "2/1 at 0", "3/1 at 0"}
		if !slices.Equal(f.ran, want) || !slices.Equal(moves, []int{0, 1, 0, 0, 0}) {
			t.Errorf("%v, moves %v; want %v", f.ran, moves, want)
		}
	})
}

func TestPausedSiteTakesTrialsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(1)
		f.try = func(a Assignment) (time.Duration, Outcome) {
			if a.Try == 1 {
				return time.Second, Outcome{Move: true, Cool: time.Minute, Why: "quota"}
			}
			return time.Second, Outcome{}
		}
		begun := time.Now()
		if _, err := Run(t.Context(), f.options(1), several(1, everywhere(1, Resources{}))); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begun); d != 62*time.Second {
			t.Errorf("%v after %s", f.ran, d)
		}
	})
}

func TestLostSiteIsNamedOnce(t *testing.T) {
	t.Parallel()
	l := &loop{opt: Options{Sites: []Site{{Name: "a"}, {Name: "b"}}}}
	for text, want := range map[string]string{
		"no answer": "provider b: no answer", "b: no answer": "b: no answer", "b check: no answer": "b check: no answer", "bad": "provider b: bad",
	} {
		if got := l.named(recovery{site: 1, err: errors.New(text)}).Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// oneLease are shares of which there is one.
type oneLease struct {
	mu    sync.Mutex
	taken bool
	freed chan struct{}
}

func (s *oneLease) Acquire(context.Context, string, Resources) (func(), bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken {
		return nil, false, nil
	}
	s.taken = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken = false
		s.freed <- struct{}{}
	}, true, nil
}

func (s *oneLease) Freed() <-chan struct{} { return s.freed }

// freeAfter is free after a time, or never.
type freeAfter time.Duration

func (d freeAfter) OnFree(free func()) {
	if d > 0 {
		time.AfterFunc(time.Duration(d), free)
	}
}

// A lease outlives its try as long as there is something left of it, but not for ever.
func TestLeaseIsHeldUntilWhatItWasForIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		gone time.Duration // after the try; 0 is never
		want time.Duration
	}{"gone": {10 * time.Second, 12 * time.Second}, "never": {0, longestHeld + 2*time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(1)
				f.try = func(a Assignment) (time.Duration, Outcome) {
					if a.Trial > 0 {
						return time.Second, Outcome{}
					}
					return time.Second, Outcome{Held: freeAfter(c.gone)}
				}
				o := f.options(2)
				o.Sites[0].Shares = &oneLease{freed: make(chan struct{}, 1)}
				begun := time.Now()
				if _, err := Run(t.Context(), o, several(2, everywhere(1, Resources{}))); err != nil || time.Since(begun) != c.want {
					t.Errorf("%v after %s, want %s", err, time.Since(begun), c.want)
				}
			})
		})
	}
}

// Weights hold over time, also where one trial runs at once. What others did while a site
// was away it need not make up for.
func TestWeightsHoldOneAtATime(t *testing.T) {
	t.Parallel()
	s := newState(Options{MaxTrials: 1, Sites: []Site{{Weight: 3}, {Weight: 1}}}, several(60, everywhere(2, Resources{})), start0)
	run := func(n int) (at [2]int) {
		for range n {
			s.wake(start0)
			x := place(s, start0).starts[0]
			at[x.site]++
			s.tryStarted(x.trial, x.site)
			s.tryEnded(x.trial)
		}
		return at
	}
	if got := run(20); got != [2]int{15, 5} {
		t.Errorf("%v", got)
	}
	s.doubt(1, "away")
	if got := run(20); got != [2]int{20, 0} {
		t.Errorf("%v while it was away", got)
	}
	s.recovered(1, Resources{})
	if got := run(8); got != [2]int{6, 2} {
		t.Errorf("%v after it was", got)
	}
}
