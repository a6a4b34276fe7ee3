package scheduler

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func waits(name string, change ...func(*entry)) entry {
	e := entry{Trial: Trial{Name: name}, queued: start}
	for _, c := range change {
		c(&e)
	}
	return e
}

func runs(e *entry)                      { e.status = running }
func over(e *entry)                      { e.status = done }
func needs(cpus float64) func(*entry)    { return func(e *entry) { e.Needs.CPUs = cpus } }
func memory(mib int64) func(*entry)      { return func(e *entry) { e.Needs.MemoryMiB = mib } }
func builds(ks ...string) func(*entry)   { return func(e *entry) { e.Builds = ks } }
func pool(name string) func(*entry)      { return func(e *entry) { e.Pool = name } }
func later(d time.Duration) func(*entry) { return func(e *entry) { e.notBefore = start.Add(d) } }

func TestPlace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		state state
		at    time.Duration
		want  work
	}{
		{"order of the job", state{maxTrials: 2, trials: []entry{waits("a"), waits("b"), waits("c")}}, 0, work{tries: []int{0, 1}}},
		{"slots in use count", state{maxTrials: 2, trials: []entry{waits("a", runs), waits("b"), waits("c")}}, 0, work{tries: []int{1}}},
		{"done trials are over", state{maxTrials: 2, trials: []entry{waits("a", over), waits("b")}}, 0, work{tries: []int{1}}},
		{"a cancelled job starts nothing", state{maxTrials: 2, stopped: true, trials: []entry{waits("a")}}, 0, work{}},
		{"a refused lease holds tries back, not builds",
			state{maxTrials: 2, maxBuilds: 1, refused: true, builds: map[string]buildStatus{"k": buildNeeded}, trials: []entry{waits("a"), waits("b", builds("k"))}},
			0, work{builds: []string{"k"}}},
		{"back-off holds no slot and says when to look again",
			state{maxTrials: 1, trials: []entry{waits("a", later(time.Second)), waits("b")}}, 0, work{tries: []int{1}, wake: start.Add(time.Second)}},
		{"back-off is over", state{maxTrials: 1, trials: []entry{waits("a", later(time.Second))}}, time.Second, work{tries: []int{0}}},
		{"one build for all who need it",
			state{maxTrials: 4, maxBuilds: 2, builds: map[string]buildStatus{"k": buildNeeded}, trials: []entry{waits("a", builds("k")), waits("b", builds("k"))}},
			0, work{builds: []string{"k"}}},
		{"builds are bounded, others pass",
			state{maxTrials: 4, maxBuilds: 1, builds: map[string]buildStatus{"k": buildRunning, "l": buildNeeded}, trials: []entry{waits("a", builds("k")), waits("b", builds("l")), waits("c")}},
			0, work{tries: []int{2}}},
		{"both images must be there",
			state{maxTrials: 4, maxBuilds: 4, builds: map[string]buildStatus{"k": buildFinished, "l": buildNeeded}, trials: []entry{waits("a", builds("k", "l"))}},
			0, work{builds: []string{"l"}}},
		{"a build that ended, however, lets its trials go",
			state{maxTrials: 4, builds: map[string]buildStatus{"k": buildFinished}, trials: []entry{waits("a", builds("k"))}}, 0, work{tries: []int{0}}},
		{"CPU of the host",
			state{maxTrials: 4, budget: Resources{CPUs: 2}, trials: []entry{waits("a", runs, needs(1)), waits("b", needs(2)), waits("c", needs(1))}},
			0, work{tries: []int{2}, wake: start.Add(patience)}},
		{"memory of the host",
			state{maxTrials: 4, budget: Resources{MemoryMiB: 1000}, trials: []entry{waits("a", runs, memory(600)), waits("b", memory(600))}},
			0, work{wake: start.Add(patience)}},
		{"undeclared counts nothing",
			state{maxTrials: 4, budget: Resources{CPUs: 1}, trials: []entry{waits("a", runs, needs(1)), waits("b"), waits("c")}}, 0, work{tries: []int{1, 2}}},
		{"too large for the host runs alone",
			state{maxTrials: 4, budget: Resources{CPUs: 1}, trials: []entry{waits("a", needs(8)), waits("b", needs(1))}}, 0, work{tries: []int{0}, wake: start.Add(patience)}},
		{"one that waited long enough is passed by nobody",
			state{maxTrials: 4, budget: Resources{CPUs: 2}, trials: []entry{waits("a", runs, needs(1)), waits("b", needs(2)), waits("c", needs(1))}},
			2 * patience, work{}},
		{"a pool's own limit",
			state{maxTrials: 4, pools: map[string]int{"slow": 1}, trials: []entry{waits("a", pool("slow")), waits("b", pool("slow")), waits("c", pool("fast"))}},
			0, work{tries: []int{0, 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := place(&c.state, start.Add(c.at))
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(work{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPlaceProperties plays random jobs to their end and looks at every step that
// no bound is exceeded, nothing is started twice and everything ends.
func TestPlaceProperties(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := randomState(r)
		now := start
		started := make([]int, len(s.trials))
		for step := 0; slices.ContainsFunc(s.trials, func(e entry) bool { return e.status != done }); step++ {
			if step > 10_000 {
				t.Fatalf("seed %d: no progress", seed)
			}
			w := place(&s, now)
			for _, k := range w.builds {
				if s.builds[k] != buildNeeded {
					t.Fatalf("seed %d: build %s started twice", seed, k)
				}
				s.builds[k] = buildRunning
			}
			for _, i := range w.tries {
				e := &s.trials[i]
				if e.status != waiting || now.Before(e.notBefore) {
					t.Fatalf("seed %d: trial %d started while %v", seed, i, e.status)
				}
				e.status = running
				started[i]++
			}
			checkBounds(t, seed, &s)
			now = advance(r, &s, w, now)
		}
		for i, n := range started {
			if n == 0 {
				t.Fatalf("seed %d: trial %d never ran", seed, i)
			}
		}
	}
}

func randomState(r *rand.Rand) state {
	s := state{
		maxTrials: 1 + r.IntN(6), maxBuilds: 1 + r.IntN(3), budget: Resources{CPUs: float64(r.IntN(5)), MemoryMiB: int64(r.IntN(4000))},
		builds: map[string]buildStatus{}, pools: map[string]int{"p": 1 + r.IntN(3)},
	}
	keys := []string{"a", "b", "c", "d"}
	for range 1 + r.IntN(30) {
		e := waits("t", needs(float64(r.IntN(6))), memory(int64(r.IntN(3000))), pool([]string{"p", "q"}[r.IntN(2)]))
		for _, k := range keys[:r.IntN(3)] {
			e.Builds = append(e.Builds, k)
			s.builds[k] = buildNeeded
		}
		s.trials = append(s.trials, e)
	}
	return s
}

func checkBounds(t *testing.T, seed uint64, s *state) {
	t.Helper()
	u := s.inUse()
	switch {
	case u.trials > s.maxTrials:
		t.Fatalf("seed %d: %d trials at once", seed, u.trials)
	case u.builds > s.maxBuilds:
		t.Fatalf("seed %d: %d builds at once", seed, u.builds)
	case u.pools["p"] > s.pools["p"]:
		t.Fatalf("seed %d: %d of pool p", seed, u.pools["p"])
	case u.trials > 1 && s.budget.CPUs > 0 && u.res.CPUs > s.budget.CPUs && withCPU(s) > 1:
		t.Fatalf("seed %d: %v CPUs of %v", seed, u.res.CPUs, s.budget.CPUs)
	}
}

// withCPU counts running trials that declare CPUs.
func withCPU(s *state) (n int) {
	for _, e := range s.trials {
		if e.status == running && e.Needs.CPUs > 0 {
			n++
		}
	}
	return n
}

// advance lets something end, or time pass.
func advance(r *rand.Rand, s *state, w work, now time.Time) time.Time {
	for k, b := range s.builds {
		if b == buildRunning && r.IntN(2) == 0 {
			s.builds[k] = buildFinished
		}
	}
	for i := range s.trials {
		e := &s.trials[i]
		if e.status != running || r.IntN(3) > 0 {
			continue
		}
		e.status = done
		if e.tries++; e.tries < 3 && r.IntN(4) == 0 {
			e.status, e.notBefore, e.queued = waiting, now.Add(time.Second), now.Add(time.Second)
		}
	}
	if !w.wake.IsZero() && r.IntN(2) == 0 {
		return w.wake
	}
	return now.Add(time.Duration(r.IntN(1000)) * time.Millisecond)
}

func BenchmarkPlace10000(b *testing.B) {
	s := state{maxTrials: 100, maxBuilds: 2}
	for range 10_000 {
		s.trials = append(s.trials, waits("t"))
	}
	for i := range 99 {
		s.trials[i].status = running
	}
	for b.Loop() {
		place(&s, start)
	}
}
