package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"harborgate/internal/shares"
	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/providers/fake/plane"
	"harborgate/providers/limit"
	"harborgate/scheduler"
)

// cloud is a simulated provider behind the limits that jobs keep. Its control plane
// is the judge: it counts for itself what it was asked and what it had to refuse.
type cloud struct {
	name     string
	plane    *plane.Plane
	pool     *shares.Pool
	provider providers.Provider
	budget   scheduler.Resources
}

// terms are what a cloud allows and what a job asks of it at most, in its own time and
// in the host's.
type terms struct {
	allows    plane.Config
	sandboxes int
	budget    scheduler.Resources
	perSec    float64 // creates
	burst     int
}

func openCloud(o *shares.Owner, name string, t terms) (*cloud, error) {
	p, err := plane.New(t.allows, nil)
	if err != nil {
		return nil, err
	}
	pool, err := o.Pool(name, nil)
	if err != nil {
		return nil, err
	}
	pool.For("bench", shares.Need{
		Sandboxes: t.sandboxes, MilliCPUs: int64(1000 * t.budget.CPUs), MemoryMiB: t.budget.MemoryMiB, DiskMiB: t.budget.DiskMiB,
	})
	return &cloud{name: name, plane: p, pool: pool, budget: t.budget, provider: limit.New(
		fake.New(fake.Options{Name: name, Control: p}),
		limit.Options{
			Pauses: func(c limit.Class) limit.Pause { return pool.Pause(string(c)) },
			Paces:  map[limit.Class]limit.Pace{limit.Creates: pool.Creates(t.perSec, t.burst)},
		},
	)}, nil
}

func (c *cloud) close() error { return errors.Join(c.provider.Close(), c.pool.Close()) }

// Acquire implements scheduler.Shares.
func (c *cloud) Acquire(ctx context.Context, _ string, r scheduler.Resources) (release func(), ok bool, err error) {
	return c.pool.Acquire(ctx, shares.Need{MilliCPUs: int64(1000 * r.CPUs), MemoryMiB: r.MemoryMiB, DiskMiB: r.DiskMiB, GPUs: r.GPUs})
}

// Freed implements scheduler.Shares.
func (c *cloud) Freed() <-chan struct{} { return c.pool.Freed() }

// works is the Health of who is never down: it is not asked.
type works struct{}

func (works) Recover(context.Context) (scheduler.Resources, error) { return scheduler.Resources{}, nil }

// noImages is the Readiness of trials that need none.
type noImages struct{}

func (noImages) Build(context.Context, int, string) {}

// holder runs trials that hold a sandbox for a while and do nothing in it.
type holder struct {
	clouds []*cloud
	hold   time.Duration
	total  int64
	last   func() // is told when the last sandbox is asked for

	asked  atomic.Int64
	failed atomic.Int64 // trials that got an error to see
}

// Run implements scheduler.Runner.
func (h *holder) Run(ctx context.Context, a scheduler.Assignment) scheduler.Outcome {
	c := h.clouds[a.Site]
	s, err := c.provider.Create(ctx, simulatedSpec(c.name, a.Trial))
	if h.asked.Add(1) == h.total && h.last != nil {
		h.last()
	}
	if err != nil {
		h.failed.Add(1)
		return scheduler.Outcome{}
	}
	<-time.After(h.hold)
	if err := s.Destroy(ctx); err != nil {
		h.failed.Add(1)
	}
	return scheduler.Outcome{}
}

// simulatedNeeds are what a trial declares.
var simulatedNeeds = scheduler.Resources{CPUs: 1, MemoryMiB: 2 << 10, DiskMiB: 10 << 10}

func simulatedSpec(cloud string, trial int) providers.Spec {
	return providers.Spec{
		Name: providers.Name("bench", cloud, strconv.Itoa(trial)), Source: providers.Source{Image: image},
		Resources: providers.Resources{CPUs: simulatedNeeds.CPUs, MemoryMiB: simulatedNeeds.MemoryMiB, DiskMiB: simulatedNeeds.DiskMiB},
		Labels:    providers.Labels{Owner: "bench", Host: "bench", Expires: time.Now().Add(time.Hour)},
	}
}

// run runs so many trials over the clouds, at most so many at once.
func (h *holder) run(ctx context.Context, atOnce int) error {
	o := scheduler.Options{MaxTrials: atOnce, Runner: h, Readiness: noImages{}}
	demand := &scheduler.Demand{Needs: simulatedNeeds, Places: make([]scheduler.Place, len(h.clouds))}
	for i, c := range h.clouds {
		o.Sites = append(o.Sites, scheduler.Site{Name: c.name, Rank: i, Budget: c.budget, Shares: c, Health: works{}})
	}
	trials := make([]scheduler.Trial, h.total)
	for i := range trials {
		trials[i] = scheduler.Trial{Name: strconv.Itoa(i), Demand: demand}
	}
	unstarted, err := scheduler.Run(ctx, o, trials)
	if err == nil && unstarted > 0 {
		err = fmt.Errorf("%d trials never started", unstarted)
	}
	return err
}

// A Daytona organization of tier 3, with a disk of 10 GiB for each sandbox: 200 fit
// its quota. It makes 500 in a minute, and shuts who asks for more out for a minute.
const (
	tier         = "daytona-tier-3"
	tierScale    = 20 // a minute takes three seconds
	tierTrials   = 3000
	tierTrial    = time.Minute / tierScale
	tierFits     = 200
	tierPerSec   = 500.0 / 60 * tierScale
	tierHeadroom = 0.98
)

// benchDaytona runs trials of a minute at such a provider, and how Harbor would do it
// beside that.
func benchDaytona(ctx context.Context, w *workbench) (figures []figure, err error) {
	o, err := shares.Register(filepath.Join(w.work, "daytona"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	c, err := openCloud(o, "daytona", terms{
		allows: plane.Config{Profile: tier, TimeScale: tierScale},
		budget: scheduler.Resources{CPUs: 250, MemoryMiB: 500 << 10, DiskMiB: 2000 << 10},
		perSec: tierHeadroom * tierPerSec, burst: 4,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	h := &holder{clouds: []*cloud{c}, hold: tierTrial, total: tierTrials}
	begun := time.Now()
	if err := h.run(ctx, 4*tierFits); err != nil {
		return nil, err
	}
	took := time.Since(begun)
	counters, err := c.plane.Counters(ctx)
	if err != nil {
		return nil, err
	}
	used := 100 * ideal(tierTrials, tierFits, tierPerSec, tierTrial).Seconds() / took.Seconds()
	fmt.Printf("# %s, %d trials of a minute, %d at once: %.1f minutes there, 1 minute is %.0f s here\n", tier, tierTrials, counters.Peak.Sandboxes, counters.Seconds/60, tierTrial.Seconds())
	if err := harborsWay(ctx, tierFits, 250); err != nil {
		return nil, err
	}
	return []figure{
		{"Daytona tier 3: used of what it allows", used, 98, false, "%"},
		{"  refusals: no room, or too fast", float64(counters.Quota() + counters.Throttled()), 0, true, ""},
		{"  trials with an error to see", float64(h.failed.Load()), 0, true, ""},
	}, nil
}

// ideal is how long n trials take where so many fit, so many begin in a second, evenly,
// and each holds its place for a while: the next begins when there is a turn and a place.
func ideal(n, fits int, perSec float64, hold time.Duration) time.Duration {
	begins := make([]time.Duration, n)
	for i := range begins {
		begins[i] = time.Duration(math.Round(float64(i) / perSec * float64(time.Second)))
		if i >= fits {
			begins[i] = max(begins[i], begins[i-fits]+hold)
		}
	}
	return begins[n-1] + hold
}
