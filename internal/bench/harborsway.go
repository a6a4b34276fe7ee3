package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/providers/fake/plane"
)

// What somebody asks Harbor for beside -n.
const (
	harborRetries = 3
	harborPause   = time.Second / tierScale // min_wait_sec, with its default multiplier of 1
)

// harborsWay runs the same trials at the same provider as Harbor 0.26 schedules them:
// one semaphore, whose slot is held over retries and pauses; no admission, no rates;
// each failed create is a failed try, and the same pause follows each. It is a model of
// that policy alone, not Harbor's code. How it goes depends on who chooses -n: as many
// as fit, or a trial for each core of the quota, though disk is what runs out first.
func harborsWay(ctx context.Context, atOnce ...int) error {
	var g errgroup.Group
	for _, n := range atOnce {
		g.Go(func() error { return harborsWayAt(ctx, n) })
	}
	return g.Wait()
}

func harborsWayAt(ctx context.Context, atOnce int) error {
	p, err := plane.New(plane.Config{Profile: tier, TimeScale: tierScale}, nil)
	if err != nil {
		return err
	}
	h := harborModel{provider: fake.New(fake.Options{Control: p})}
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range tierTrials {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			h.trial(ctx, i)
		})
	}
	all.Wait()
	c, err := p.Counters(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("# Harbor's way there, -n %d -r %d: %d of %d trials lost, %d creates refused for room and %d as too fast, in %.1f minutes\n",
		atOnce, harborRetries, h.lost.Load(), tierTrials, c.Quota(), c.Throttled(), c.Seconds/60)
	return nil
}

type harborModel struct {
	provider providers.Provider
	lost     atomic.Int64 // trials
}

// trial is Harbor's loop of a trial: so many tries, with a pause between them.
func (h *harborModel) trial(ctx context.Context, i int) {
	for try := range harborRetries + 1 {
		s, err := h.provider.Create(ctx, simulatedSpec(tier+strconv.Itoa(try), i))
		if err == nil {
			<-time.After(tierTrial)
			_ = s.Destroy(ctx) // a failure would show as a lack of room
			return
		}
		<-time.After(harborPause)
	}
	h.lost.Add(1)
}
