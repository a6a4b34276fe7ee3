package scheduler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// situation is a state of one site: limits, trials as they stand and builds as they stand.
type situation struct {
	maxTrials, maxBuilds int
	budget               Resources
	pools                map[string]int
	builds               map[string]buildStatus
	trials               []one
	stopped, refused     bool
}

// one is a trial in a situation.
type one struct {
	status    status
	needs     Resources
	builds    []string
	pool      string
	notBefore time.Time
}

func (x situation) state() *state {
	all := make([]Trial, len(x.trials))
	for i, t := range x.trials {
		all[i] = Trial{Name: "t", Demand: &Demand{Needs: t.needs, Pool: t.pool, Places: []Place{{Builds: t.builds}}}}
	}
	s := newState(Options{MaxTrials: x.maxTrials, Pools: x.pools, Sites: []Site{{MaxBuilds: x.maxBuilds, Budget: x.budget}}}, all, start0)
	for key, b := range x.builds {
		if b != buildNeeded {
			s.buildStarted(0, key)
		}
		if b == buildFinished {
			s.buildEnded(0, key, start0)
		}
	}
	for i, t := range x.trials {
		if t.status != waiting {
			s.tryStarted(i, 0)
		}
		switch t.status {
		case done:
			s.tryEnded(i)
		case asleep:
			s.trySlept(i, t.notBefore)
		}
	}
	if s.stopped = x.stopped; x.refused {
		s.sites[0].refuse(Resources{})
	}
	return s
}

var start0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func waits(change ...func(*one)) one {
	t := one{}
	for _, c := range change {
		c(&t)
	}
	return t
}

func runs(t *one)                    { t.status = running }
func over(t *one)                    { t.status = done }
func needs(cpus float64) func(*one)  { return func(t *one) { t.needs.CPUs = cpus } }
func memory(mib int64) func(*one)    { return func(t *one) { t.needs.MemoryMiB = mib } }
func gpu(t *one)                     { t.needs.GPUs = 1 }
func builds(ks ...string) func(*one) { return func(t *one) { t.builds = ks } }
func pool(name string) func(*one)    { return func(t *one) { t.pool = name } }
func later(d time.Duration) func(*one) {
	return func(t *one) { t.status, t.notBefore = asleep, start0.Add(d) }
}

// decided is work at one site.
type decided struct {
	builds []string
	tries  []int
	wake   time.Time
}

func decidedOf(w work) decided {
	d := decided{wake: w.wake}
	for _, b := range w.builds {
		d.builds = append(d.builds, b.key)
	}
	for _, t := range w.starts {
		d.tries = append(d.tries, t.trial)
	}
	return d
}

func TestPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		state situation
		at    time.Duration
		want  decided
	}{
		{"order of the job", situation{maxTrials: 2, trials: []one{waits(), waits(), waits()}}, 0, decided{tries: []int{0, 1}}},
		{"slots in use count", situation{maxTrials: 2, trials: []one{waits(runs), waits(), waits()}}, 0, decided{tries: []int{1}}},
		{"done trials are over", situation{maxTrials: 2, trials: []one{waits(over), waits()}}, 0, decided{tries: []int{1}}},
		{"a cancelled job starts nothing", situation{maxTrials: 2, stopped: true, trials: []one{waits()}}, 0, decided{}},
		{"a refused lease holds tries back, not builds",
			situation{maxTrials: 2, maxBuilds: 1, refused: true, builds: map[string]buildStatus{"k": buildNeeded}, trials: []one{waits(), waits(builds("k"))}},
			0, decided{builds: []string{"k"}, wake: start0.Add(patience)}},
		{"back-off holds no slot and says when to look again",
			situation{maxTrials: 1, trials: []one{waits(later(time.Second)), waits()}}, 0, decided{tries: []int{1}, wake: start0.Add(time.Second)}},
		{"back-off is over", situation{maxTrials: 1, trials: []one{waits(later(time.Second))}}, time.Second, decided{tries: []int{0}}},
		{"one build for all who need it",
			situation{maxTrials: 4, maxBuilds: 2, builds: map[string]buildStatus{"k": buildNeeded}, trials: []one{waits(builds("k")), waits(builds("k"))}},
			0, decided{builds: []string{"k"}}},
		{"builds are bounded, others pass",
			situation{maxTrials: 4, maxBuilds: 1, builds: map[string]buildStatus{"k": buildRunning, "l": buildNeeded}, trials: []one{waits(builds("k")), waits(builds("l")), waits()}},
			0, decided{tries: []int{2}}},
		{"both images must be there",
			situation{maxTrials: 4, maxBuilds: 4, builds: map[string]buildStatus{"k": buildFinished, "l": buildNeeded}, trials: []one{waits(builds("k", "l"))}},
			0, decided{builds: []string{"l"}}},
		{"a build that ended, however, lets its trials go",
			situation{maxTrials: 4, builds: map[string]buildStatus{"k": buildFinished}, trials: []one{waits(builds("k"))}}, 0, decided{tries: []int{0}}},
		{"CPU of the host",
			situation{maxTrials: 4, budget: Resources{CPUs: 2}, trials: []one{waits(runs, needs(1)), waits(needs(2)), waits(needs(1))}},
			0, decided{tries: []int{2}, wake: start0.Add(patience)}},
		{"memory of the host",
			situation{maxTrials: 4, budget: Resources{MemoryMiB: 1000}, trials: []one{waits(runs, memory(600)), waits(memory(600))}},
			0, decided{wake: start0.Add(patience)}},
		{"undeclared counts nothing",
			situation{maxTrials: 4, budget: Resources{CPUs: 1}, trials: []one{waits(runs, needs(1)), waits(), waits()}}, 0, decided{tries: []int{1, 2}}},
		{"too large for the host runs alone",
			situation{maxTrials: 4, budget: Resources{CPUs: 1}, trials: []one{waits(needs(8)), waits(needs(1))}}, 0, decided{tries: []int{0}, wake: start0.Add(patience)}},
		{"one that waited long enough is passed by nobody",
			situation{maxTrials: 4, budget: Resources{CPUs: 2}, trials: []one{waits(runs, needs(1)), waits(needs(2)), waits(needs(1))}},
			2 * patience, decided{}},
		{"others have what it does not need",
			situation{maxTrials: 9, budget: Resources{CPUs: 4, GPUs: 1}, trials: []one{waits(runs, gpu), waits(gpu, needs(2)), waits(needs(1)), waits(needs(1)), waits(needs(1)), waits()}},
			2 * patience, decided{tries: []int{2, 3, 5}}},
		{"one keeps what there is too little of, not each",
			situation{maxTrials: 9, budget: Resources{CPUs: 4, GPUs: 1}, trials: []one{waits(runs, gpu), waits(gpu, needs(2)), waits(gpu, needs(1)), waits(needs(1)), waits(needs(1))}},
			2 * patience, decided{tries: []int{3, 4}}},
		{"each keeps what only it lacks",
			situation{maxTrials: 9, budget: Resources{CPUs: 4, GPUs: 1}, trials: []one{waits(runs, gpu), waits(runs, needs(2)), waits(gpu), waits(needs(3)), waits(needs(1))}},
			2 * patience, decided{}},
		{"what is larger than there is waits for who declares of it",
			situation{maxTrials: 9, budget: Resources{CPUs: 1}, trials: []one{waits(runs), waits(needs(8)), waits()}}, 0, decided{tries: []int{1, 2}}},
		{"a pool's own limit",
			situation{maxTrials: 4, pools: map[string]int{"slow": 1}, trials: []one{waits(pool("slow")), waits(pool("slow")), waits(pool("fast"))}},
			0, decided{tries: []int{0, 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := c.state.state()
			s.wake(start0.Add(c.at))
			got := decidedOf(place(s, start0.Add(c.at)))
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(decided{}), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
