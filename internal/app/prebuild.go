package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"harborgate/providers"
	"harborgate/snapshots"
	"harborgate/trials/runner"
)

// BuildState is what became of an image that was asked for.
type BuildState string

// States. Missing is one that a dry run did not build.
const (
	ImagePresent BuildState = "present"
	ImageBuilt   BuildState = "built"
	ImageFailed  BuildState = "failed"
	ImageMissing BuildState = "missing"
)

// Prebuilt is an image, or a snapshot, that trials start from.
type Prebuilt struct {
	Provider string        `json:"provider"`
	Key      snapshots.Key `json:"key"`
	Title    string        `json:"title"`
	State    BuildState    `json:"state"`
	Sec      float64       `json:"sec"`
	Error    string        `json:"error,omitempty"`
	Log      string        `json:"log,omitempty"` // of a build that failed
}

// got tells how an image was got.
func got(provider string, r snapshots.Request, began time.Time, cached bool, err error) Prebuilt {
	out := Prebuilt{Provider: provider, Key: r.Key, Title: r.Title, State: ImageBuilt, Sec: time.Since(began).Round(time.Millisecond).Seconds()}
	var failed *snapshots.BuildError
	switch {
	case err != nil:
		out.State, out.Error = ImageFailed, err.Error()
		if errors.As(err, &failed) {
			out.Log = failed.Log
		}
	case cached:
		out.State = ImagePresent
	}
	return out
}

// Prebuild makes all that the job's trials start from, before any of them runs. What
// fails costs its own trials only, later. tell hears of each image that was made or
// found, one at a time.
func (j *Job) Prebuild(ctx context.Context, tell func(Prebuilt)) {
	for at, s := range j.sites {
		if s.Down != nil {
			continue
		}
		_, _ = j.budget(ctx, s) // builds declare nothing: what is not known does not matter yet
		eachBuild(ctx, j.app.limits(s.name).Builds, s.wanted(j.Plan), func(ctx context.Context, r snapshots.Request) Prebuilt {
			began := time.Now()
			cached, err := j.build(ctx, at, string(r.Key))
			return got(s.name, r, began, cached, err)
		}, tell)
	}
}

// BuildImages makes all that trials of a plan would start from at a provider, also what
// failed a short time ago; dry only looks. tell is as for Job.Prebuild.
func (a *App) BuildImages(ctx context.Context, plan *Plan, p providers.Provider, dry bool, tell func(Prebuilt)) error {
	name := p.Info().Name
	store, err := a.snapshotStore(name)
	if err != nil {
		return err
	}
	defer store.Close()
	s := &site{Member: Member{Provider: p}, name: name, store: store, images: runner.NewImages(a.imagesOf(p, store)), requests: map[string]snapshots.Request{}}
	all := s.wanted(plan)
	if !dry {
		if _, _, err := a.hold(ctx, p, "harbor snapshot build"); err != nil {
			return err
		}
	}
	eachBuild(ctx, a.limits(name).Builds, all, func(ctx context.Context, r snapshots.Request) Prebuilt {
		began := time.Now()
		if dry {
			there := store.Has(ctx, r)
			out := got(name, r, began, there, nil)
			if !there {
				out.State = ImageMissing
			}
			return out
		}
		r.Again, r.Slot = true, a.buildSlot(s)
		hold, err := s.images.Get(ctx, r)
		hold.Release()
		return got(name, r, began, err == nil && hold.Cached, err)
	}, tell)
	if dry {
		return ctx.Err()
	}
	a.prune(ctx, p, all)
	errs := []error{ctx.Err()}
	for id, err := range s.images.RemoveLeft(ctx) {
		errs = append(errs, fmt.Errorf("sandbox %s of a build stays, `harbor cleanup` removes it: %w", id, err))
	}
	return errors.Join(errs...)
}

// wanted are the requests of all trials of a plan that can run at a site, each once.
func (s *site) wanted(plan *Plan) []snapshots.Request {
	var out []snapshots.Request
	seen := map[string]bool{}
	for _, t := range plan.Trials {
		if Unsupported(s.Info(), t) != "" {
			continue
		}
		for _, key := range s.builds(t) {
			if !seen[key] {
				seen[key] = true
				out = append(out, s.requests[key])
			}
		}
	}
	return out
}

// eachBuild runs some builds at once and tells of one after the other.
func eachBuild(ctx context.Context, atOnce int, all []snapshots.Request, do func(context.Context, snapshots.Request) Prebuilt, tell func(Prebuilt)) {
	done := make(chan Prebuilt)
	go func() {
		defer close(done)
		var g errgroup.Group
		g.SetLimit(atOnce)
		for _, r := range all {
			if ctx.Err() != nil {
				break
			}
			g.Go(func() error {
				done <- do(ctx, r)
				return nil
			})
		}
		_ = g.Wait() // they tell of their errors
	}()
	for p := range done {
		if p.State != ImageFailed || ctx.Err() == nil { // what was cut short has not failed
			tell(p)
		}
	}
}
