package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"harborgate/providers"
	"harborgate/scheduler"
	"harborgate/snapshots"
	"harborgate/trials"
	"harborgate/trials/runner"
)

// imagesOf says how images of a provider are made.
func (a *App) imagesOf(p providers.Provider, store *snapshots.Store) runner.ImagesOptions {
	return runner.ImagesOptions{Provider: p, Store: store, Owner: a.owner.ID, Host: a.owner.Host, Secrets: a.imageSecrets, Prove: true}
}

// newImages are the images of a job, which tells its events how their builds go.
func (j *Job) newImages(p providers.Provider, store *snapshots.Store) *runner.Images {
	o := j.app.imagesOf(p, store)
	o.OnNote = j.note
	o.OnStep = func(key snapshots.Key, done, of int) {
		j.Events.Tell(trials.NewEvent(trials.EventBuildProgress, "", 0, 0, map[string]any{"key": key, "done": done, "of": of}))
	}
	return runner.NewImages(o)
}

// buildSlot waits for the lease of a build's sandboxes. It is given back like that of a
// try: when none of them is left.
func (a *App) buildSlot(s *site) func(context.Context) (func(), error) {
	pool := a.leases(s.name)
	return func(ctx context.Context) (func(), error) {
		defer s.images.KeepRemoving(ctx)()
		release, err := pool.one(ctx, scheduler.Resources{})
		if err != nil {
			return nil, err
		}
		return func() { scheduler.Keep(s.images, release) }, nil
	}
}

// tellFailed says once for a job that a build failed, and where its words are. One that
// its provider failed is made again.
func (j *Job) tellFailed(ctx context.Context, err error) {
	var failed *snapshots.BuildError
	if ctx.Err() != nil || snapshots.ProviderFailed(err) || !errors.As(err, &failed) {
		return
	}
	if _, told := j.told.LoadOrStore(failed.Key, true); told {
		return
	}
	if providers.Is(err, providers.KindUnsupported) {
		j.note("not_kept", fmt.Sprintf("%s is not kept, each trial does without: %v", failed.Title, failed.Err))
		return
	}
	when := "failed"
	if !failed.Past.IsZero() {
		when = "failed at " + failed.Past.Local().Format(time.TimeOnly) + " and was not tried again"
	}
	j.note("build_failed", fmt.Sprintf("the build of %s %s: its log is %s", failed.Title, when, failed.Log))
}

// prune keeps what a provider has within the bounds of config.yaml: what was used least
// lately goes, but nothing that is in use and nothing that is wanted now.
func (a *App) prune(ctx context.Context, p providers.Provider, wanted []snapshots.Request) {
	policy := snapshots.Policy{
		Unused: time.Duration(a.Host.Snapshots.UnusedHours * float64(time.Hour)), Bytes: a.Host.Snapshots.KeepMiB << 20,
	}
	if policy == (snapshots.Policy{}) {
		return
	}
	kept, err := a.Snapshots(p)
	for i := range kept {
		kept[i].InUse = kept[i].InUse || slices.ContainsFunc(wanted, func(r snapshots.Request) bool { return r.Needs(kept[i].Key) })
	}
	gone, rerr := a.RemoveSnapshots(ctx, p, policy.Surplus(kept, time.Now()), false)
	for _, rec := range gone {
		a.log.Info("snapshot removed", "key", rec.Key, "title", rec.Title)
	}
	if err = errors.Join(err, rerr); err != nil {
		a.log.Warn("snapshots are not held within their bounds", "error", err)
	}
}

// RemoveImages removes images that harbor built at a provider and that no process
// of this host uses; dry only lists them.
func (a *App) RemoveImages(ctx context.Context, p providers.Provider, dry bool) ([]snapshots.Record, error) {
	store, err := a.snapshotStore(p.Info().Name)
	if err != nil {
		return nil, err
	}
	all, listed := store.List()
	known, err := a.everyRecord()
	if err != nil {
		return nil, err
	}
	// What a killed build committed keeps the image below it: those go first, one above
	// the other.
	unknown, err := a.removeUnknown(ctx, p, store, known, dry)
	errs := []error{listed, err}
	for more := unknown; len(more) > 0 && !dry; unknown = append(unknown, more...) {
		more, err = a.removeUnknown(ctx, p, store, known, dry)
		errs = append(errs, err)
	}
	kept := make([]snapshots.Kept, len(all)) // whenever they were used
	for i, rec := range all {
		kept[i].Record = rec
	}
	gone, err := a.RemoveSnapshots(ctx, p, kept, dry)
	return append(gone, unknown...), errors.Join(append(errs, err)...)
}

// everyRecord lists what is known of the images of all providers: two of them may be
// names of one engine.
func (a *App) everyRecord() ([]snapshots.Record, error) {
	stores, err := os.ReadDir(filepath.Join(a.Dirs.State, snapshotsDir))
	errs := []error{err}
	var out []snapshots.Record
	for _, d := range stores {
		if !d.IsDir() {
			continue // somebody else's
		}
		store, err := a.snapshotStore(d.Name())
		if err == nil {
			var all []snapshots.Record
			all, err = store.List()
			out = append(out, all...)
		}
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// Snapshots surveys the images that harbor built at a provider, what was used last
// first. Those that it only pulled are the user's. It asks the provider for none.
func (a *App) Snapshots(p providers.Provider) ([]snapshots.Kept, error) {
	store, err := a.snapshotStore(p.Info().Name)
	if err != nil {
		return nil, err
	}
	return store.Survey()
}

// Present leaves out what a provider no longer has: somebody removed it there, or it was
// in the memory of a process that ended. What is in use is with its process. With an error,
// the provider cannot be asked, and nothing is left out.
func (a *App) Present(ctx context.Context, p providers.Provider, kept []snapshots.Kept) ([]snapshots.Kept, error) {
	out := make([]snapshots.Kept, 0, len(kept))
	err := bounded(ctx, func(ctx context.Context) error {
		for _, k := range kept {
			has, ok := shelfOf(p, k.Snapshot)
			if ok && !k.InUse {
				_, err := has.inspect(ctx, k.ID)
				if providers.Is(err, providers.KindNotFound) {
					continue
				}
				if err != nil {
					return err
				}
			}
			out = append(out, k)
		}
		return nil
	})
	if err != nil {
		return kept, err
	}
	return out, nil
}

// RemoveSnapshots removes images of a survey that harbor built and that no process
// uses, or used since, and returns those; dry removes nothing.
func (a *App) RemoveSnapshots(ctx context.Context, p providers.Provider, all []snapshots.Kept, dry bool) ([]snapshots.Record, error) {
	store, err := a.snapshotStore(p.Info().Name)
	if err != nil {
		return nil, err
	}
	var gone []snapshots.Record
	var errs []error
	for _, k := range all {
		rec := k.Record
		has, ok := shelfOf(p, rec.Snapshot)
		if !ok {
			continue
		}
		img, err := has.inspect(ctx, rec.ID)
		if err == nil && !runner.BuiltHere(img, rec.Key) {
			continue // only pulled, or named by somebody: it is the user's
		}
		if err != nil && !providers.Is(err, providers.KindNotFound) {
			errs = append(errs, err)
			continue
		}
		removed, err := goes(dry, store, rec.Key, func() (bool, error) { return store.Remove(ctx, k, has.removeBuilt(rec.Key)) })
		errs = append(errs, err)
		if removed {
			gone = append(gone, rec)
		}
	}
	return gone, errors.Join(errs...)
}

// goes removes, or says in a dry run whether that would be done: not to what is in use.
func goes(dry bool, store *snapshots.Store, key snapshots.Key, remove func() (bool, error)) (bool, error) {
	if !dry {
		return remove()
	}
	used, err := store.InUse(key)
	return !used && err == nil, err
}

// shelf is where a provider keeps images, or snapshots.
type shelf struct {
	inspect func(ctx context.Context, id string) (providers.Image, error)
	remove  func(ctx context.Context, id string) error
}

// removeBuilt removes images of a key. One that somebody gave a name is theirs by now, as
// one that is gone.
func (s shelf) removeBuilt(key snapshots.Key) func(ctx context.Context, id string) error {
	return func(ctx context.Context, id string) error {
		if img, err := s.inspect(ctx, id); err == nil && !runner.BuiltHere(img, key) {
			return nil
		}
		return s.remove(ctx, id)
	}
}

func shelfOf(p providers.Provider, snapshot bool) (shelf, bool) {
	if snapshot {
		keeper, ok := providers.As[providers.Snapshotter](p)
		if !ok {
			return shelf{}, false
		}
		return shelf{keeper.InspectSnapshot, keeper.DeleteSnapshot}, true
	}
	builder, ok := providers.As[providers.ImageBuilder](p)
	if !ok {
		return shelf{}, false
	}
	return shelf{builder.InspectImage, builder.RemoveImage}, true
}

// removeUnknown removes images that this host built and has no record of: their
// process died too early, or their task has changed since.
func (a *App) removeUnknown(ctx context.Context, p providers.Provider, store *snapshots.Store, known []snapshots.Record, dry bool) ([]snapshots.Record, error) {
	lister, ok := providers.As[providers.ImageLister](p)
	builder, builds := providers.As[providers.ImageBuilder](p)
	if !ok || !builds {
		return nil, nil
	}
	found, err := lister.ListImages(ctx, map[string]string{runner.ImageHostLabel: a.owner.Host})
	if err != nil {
		return nil, err
	}
	var gone []snapshots.Record
	var errs []error
	for _, img := range found {
		rec := snapshots.Record{Key: runner.Unrecorded(img), ID: img.ID, Title: "image without a record", Bytes: img.Bytes}
		is := func(k snapshots.Record) bool { return k.ID == rec.ID }
		if rec.Key == "" || slices.ContainsFunc(known, is) {
			continue
		}
		removed, err := goes(dry, store, rec.Key, func() (bool, error) {
			return store.RemoveUnknown(ctx, rec.Key, rec.ID, builder.RemoveImage)
		})
		errs = append(errs, err)
		if removed {
			gone = append(gone, rec)
		}
	}
	return gone, errors.Join(errs...)
}
