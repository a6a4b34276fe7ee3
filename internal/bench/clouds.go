package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"harborgate/internal/shares"
	"harborgate/providers/fake/plane"
	"harborgate/scheduler"
)

// Four clouds with different limits, whose rates of creates let so many trials be in
// flight together.
const (
	cloudTrials   = 100_000
	cloudInFlight = 10_000
	cloudTrial    = 12500 * time.Millisecond
	cloudRate     = 800 // creates in a second, over all four
)

// fourClouds have rates of 4 : 3 : 2 : 1, and each another kind of quota, a tenth above
// what its rate can fill.
func fourClouds() []terms {
	out := make([]terms, 4)
	for i := range out {
		part := 4 - i
		rate, fits := cloudRate*part/10, cloudInFlight*part/10*11/10
		t := terms{perSec: float64(rate), burst: rate}
		switch i {
		case 0:
			t.sandboxes = fits
		case 1:
			t.budget.CPUs = simulatedNeeds.CPUs * float64(fits)
		case 2:
			t.budget.MemoryMiB = simulatedNeeds.MemoryMiB * int64(fits)
		case 3:
			t.budget.DiskMiB = simulatedNeeds.DiskMiB * int64(fits)
		}
		t.allows = plane.Config{
			Limits: plane.Size{Sandboxes: t.sandboxes, CPUs: t.budget.CPUs, MemoryMiB: t.budget.MemoryMiB, DiskMiB: t.budget.DiskMiB},
			Rates:  map[plane.Op]plane.Rate{plane.OpCreate: {PerSec: t.perSec, Burst: t.burst}},
		}
		out[i] = t
	}
	return out
}

// benchClouds runs a hundred thousand trials over four clouds.
func benchClouds(ctx context.Context, w *workbench) (figures []figure, err error) {
	o, err := shares.Register(filepath.Join(w.work, "clouds"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	h := &holder{hold: cloudTrial, total: cloudTrials}
	for i, t := range fourClouds() {
		c, err := openCloud(o, fmt.Sprintf("cloud-%d", i), t)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, c.close()) }()
		h.clouds = append(h.clouds, c)
	}
	used := 0.0
	begun := time.Now()
	h.last = func() { used = h.leastRate(ctx, time.Since(begun)) }
	weigh := newScales(h)
	if err := h.run(ctx, cloudInFlight*12/10); err != nil {
		return nil, err
	}
	each := weigh.result()
	refused, err := h.refusals(ctx)
	if err != nil {
		return nil, err
	}
	perDecision, growth, err := placing(ctx)
	if err != nil {
		return nil, err
	}
	return append([]figure{
		{fmt.Sprintf("four clouds, %d trials: memory of one in flight", cloudTrials), each, 64, true, "KiB"},
		{"  creates, of the rate that each allows", 100 * used, 98, false, "%"},
		{"  refusals: no room, or too fast", refused, 0, true, ""},
		{"  trials with an error to see", float64(h.failed.Load()), 0, true, ""},
	}, figure{"a decision of the scheduler, 100,000 trials", perDecision, 5, true, "µs"},
		figure{"  beside one of 20,000", growth, 1.25, true, "×"}), nil
}

// leastRate is the smallest part of its rate that a cloud was used at.
func (h *holder) leastRate(ctx context.Context, took time.Duration) float64 {
	least := 1.0
	for _, c := range h.clouds {
		n, err := c.plane.Counters(ctx)
		if err != nil {
			return 0
		}
		least = min(least, float64(n.Calls[plane.OpCreate].Done)/(n.CreatesPerSec.Allowed*took.Seconds()))
	}
	return least
}

func (h *holder) refusals(ctx context.Context) (float64, error) {
	var sum int64
	for _, c := range h.clouds {
		n, err := c.plane.Counters(ctx)
		if err != nil {
			return 0, err
		}
		sum += n.Quota() + n.Throttled()
		fmt.Printf("# %s: at most %d sandboxes at once, %d made\n", c.name, n.Peak.Sandboxes, n.Calls[plane.OpCreate].Done)
	}
	return float64(sum), nil
}

// scales weigh what trials in flight take, once there are most of them.
type scales struct {
	done   sync.WaitGroup
	stop   chan struct{}
	before uint64
	each   float64 // KiB
}

func newScales(h *holder) *scales {
	s := &scales{stop: make(chan struct{}), before: memoryInUse()}
	s.done.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-s.stop:
				return
			}
			if n := h.inFlight(); n >= cloudInFlight*95/100 {
				s.each = float64(memoryInUse()-s.before) / float64(n) / 1024
				fmt.Printf("# %d trials in flight\n", n)
				return
			}
		}
	})
	return s
}

func (s *scales) result() float64 {
	close(s.stop)
	s.done.Wait()
	return s.each
}

func (h *holder) inFlight() (n int) {
	for _, c := range h.clouds {
		if all, err := c.plane.Counters(context.Background()); err == nil {
			n += all.InUse.Sandboxes
		}
	}
	return n
}

// memoryInUse is that of live objects and of stacks.
func memoryInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// placing measures the scheduler alone, with trials that take no time: what one costs
// from its place in the queue to its end, beyond a goroutine that reports its end, among
// many and among a fifth of them, which are more than can be placed in one go.
func placing(ctx context.Context) (micros, growth float64, err error) {
	few, err := decide(ctx, cloudTrials/5)
	if err != nil {
		return 0, 0, err
	}
	many, err := decide(ctx, cloudTrials)
	return many, many / few, err
}

// decide returns microseconds of processor time for each of n trials; the best of some
// rounds.
func decide(ctx context.Context, n int) (float64, error) {
	best, bare := math.Inf(1), math.Inf(1)
	for range 5 {
		bare = min(bare, goroutines(n)) // the first is that of a cold process
		o := scheduler.Options{MaxTrials: cloudInFlight, Runner: instant{}, Readiness: noImages{}}
		demand := &scheduler.Demand{Needs: simulatedNeeds, Places: make([]scheduler.Place, 4)}
		for i := range demand.Places {
			o.Sites = append(o.Sites, scheduler.Site{Rank: i, Shares: free{}, Health: works{}})
		}
		trials := make([]scheduler.Trial, n)
		for i := range trials {
			trials[i].Demand = demand
		}
		runtime.GC() // of the rounds before
		begun := processorTime()
		if _, err := scheduler.Run(ctx, o, trials); err != nil {
			return 0, err
		}
		best = min(best, float64((processorTime()-begun).Microseconds())/float64(n))
	}
	return best - bare, nil
}

// goroutines returns microseconds of processor time for each of n goroutines that report
// their end, as many at once as trials.
func goroutines(n int) float64 {
	begun := processorTime()
	ended := make(chan int)
	for i := range n + cloudInFlight {
		if i >= cloudInFlight {
			<-ended
		}
		if i < n {
			go func() { ended <- i }()
		}
	}
	return float64((processorTime() - begun).Microseconds()) / float64(n)
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // never fails for oneself
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// instant trials take no time, free shares refuse nothing.
type (
	instant struct{}
	free    struct{}
)

func (instant) Run(context.Context, scheduler.Assignment) scheduler.Outcome {
	return scheduler.Outcome{}
}

func (free) Acquire(context.Context, string, scheduler.Resources) (func(), bool, error) {
	return func() {}, true, nil
}

func (free) Freed() <-chan struct{} { return nil }
