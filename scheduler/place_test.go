package scheduler

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// of makes a state of the fields that a case gives: limits, trials as they stand
// and builds as they stand.
func of(s state) *state {
	all := make([]Trial, len(s.trials))
	for i, e := range s.trials {
		all[i] = e.Trial
	}
	out := newState(Options{MaxTrials: s.maxTrials, MaxBuilds: s.maxBuilds, Budget: s.budget, Pools: s.pools}, all, start)
	for key, b := range s.builds {
		if b != buildNeeded {
			out.buildStarted(key)
		}
		if b == buildFinished {
			out.buildEnded(key, start)
		}
	}
	for i, e := range s.trials {
		if e.status == waiting && e.notBefore.IsZero() {
			continue
		}
		queue := out.ready[e.class()]
		at := slices.Index(queue, i)
		queue[0], queue[at] = i, queue[0]
		out.tryStarted(i)
		slices.Sort(out.ready[e.class()])
		if e.status == done {
			out.tryEnded(i)
		}
		if !e.notBefore.IsZero() {
			out.trySlept(i, e.notBefore)
		}
	}
	out.stopped, out.refused = s.stopped, s.refused
	return out
}

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
			s := of(c.state)
			s.wake(start.Add(c.at))
			got := place(s, start.Add(c.at))
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(work{}), cmpopts.EquateEmpty()); diff != "" {
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
			s.wake(now)
			w := place(s, now)
			for _, k := range slices.Clone(w.builds) {
				if s.builds[k] != buildNeeded {
					t.Fatalf("seed %d: build %s started twice", seed, k)
				}
				s.buildStarted(k)
			}
			for _, i := range w.tries {
				e := &s.trials[i]
				if e.status != waiting || now.Before(e.notBefore) {
					t.Fatalf("seed %d: trial %d started while %v", seed, i, e.status)
				}
				s.tryStarted(i)
				started[i]++
			}
			checkBounds(t, seed, s)
			now = advance(r, s, w, now)
		}
		for i, n := range started {
			if n == 0 {
				t.Fatalf("seed %d: trial %d never ran", seed, i)
			}
		}
	}
}

func randomState(r *rand.Rand) *state {
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
	return of(s)
}

func checkBounds(t *testing.T, seed uint64, s *state) {
	t.Helper()
	u := counted(s)
	if diff := cmp.Diff(u, s.use, cmp.AllowUnexported(usage{}), cmpopts.IgnoreMapEntries(func(_ string, n int) bool { return n == 0 })); diff != "" {
		t.Fatalf("seed %d: what is in use: %s", seed, diff)
	}
	switch {
	case u.trials > s.maxTrials:
		t.Fatalf("seed %d: %d trials at once", seed, u.trials)
	case u.builds > s.maxBuilds:
		t.Fatalf("seed %d: %d builds at once", seed, u.builds)
	case u.pools["p"] > s.pools["p"]:
		t.Fatalf("seed %d: %d of pool p", seed, u.pools["p"])
	case u.trials > 1 && s.budget.CPUs > 0 && u.milliCPUs > milli(s.budget.CPUs) && withCPU(s) > 1:
		t.Fatalf("seed %d: %v mCPUs of %v", seed, u.milliCPUs, s.budget.CPUs)
	}
}

// counted takes stock afresh.
func counted(s *state) usage {
	u := usage{pools: map[string]int{}}
	for i := range s.trials {
		if s.trials[i].status == running {
			u.add(&s.trials[i])
		}
	}
	for _, b := range s.builds {
		if b == buildRunning {
			u.builds++
		}
	}
	return u
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
			s.buildEnded(k, now)
		}
	}
	for i := range s.trials {
		e := &s.trials[i]
		switch {
		case e.status != running || r.IntN(3) > 0:
		case e.tries < 3 && r.IntN(4) == 0:
			s.trySlept(i, now.Add(time.Second))
		default:
			s.tryEnded(i)
		}
	}
	if !w.wake.IsZero() && r.IntN(2) == 0 {
		return w.wake
	}
	return now.Add(time.Duration(r.IntN(1000)) * time.Millisecond)
}

// BenchmarkJob is the bookkeeping of a whole job; per trial it must not grow with
// the job.
func BenchmarkJob(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			all := make([]Trial, n)
			for i := range all {
				all[i] = Trial{Name: "t", Builds: []string{strconv.Itoa(i / 4)}, Needs: Resources{CPUs: float64(i % 3)}}
			}
			for b.Loop() {
				s := newState(Options{MaxTrials: 100, MaxBuilds: 2, Budget: Resources{CPUs: 50}}, all, start)
				for running := []int(nil); s.left > 0; {
					w := place(s, start)
					for _, k := range slices.Clone(w.builds) {
						s.buildStarted(k)
						s.buildEnded(k, start)
					}
					for _, i := range w.tries {
						s.tryStarted(i)
					}
					running = append(running, w.tries...)
					if len(running) > 0 {
						s.tryEnded(running[0])
						running = running[1:]
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/trial")
		})
	}
}
