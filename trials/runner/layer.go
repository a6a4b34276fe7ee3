package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"harborgate/agents"
	"harborgate/providers"
	"harborgate/snapshots"
	"harborgate/tasks"
	"harborgate/trials"
)

// layer is an agent's installation on top of an environment.
type layer interface {
	Install(ctx context.Context, sb providers.Sandbox, log io.Writer, where string) error
}

// baseLabel is on snapshots: the id of the image that they were made from.
const baseLabel = "harborgate.image.base"

// layerTime bounds an installation whose trial has no limit for it.
const layerTime = time.Hour

// Agent is what the agent's sandbox starts from: the environment with the agent
// installed in it, for an agent that is installed inside where the provider keeps
// snapshots, else the environment alone.
func (im *Images) Agent(task *tasks.Task, c trials.TrialConfig, try int) (snapshots.Request, error) {
	env, err := im.Environment(task, c, try)
	if err != nil || im.keeper == nil {
		return env, err
	}
	l, err := agents.LayerOf(c.Agent)
	if err != nil || l == nil {
		return env, nil //nolint:nilerr // the trial meets the same error when it makes its agent
	}
	return im.layered(env, wantedLayer{
		layer: l, digest: l.Digest, title: "agent " + l.Agent + " " + l.Version + " in " + env.Title,
		moves: reference(task, c) != "", limit: trials.EffectiveTimeouts(task.Config, nil, c).AgentSetup,
	}), nil
}

// wantedLayer is what is to be installed in an environment.
type wantedLayer struct {
	layer
	digest, title string
	moves         bool // the environment's reference may lead to another image later
	limit         trials.Limit
}

// layered asks for an environment with something installed in it.
func (im *Images) layered(env snapshots.Request, l wantedLayer) snapshots.Request {
	key := snapshots.KeyOf(im.kind, "agent layer", string(env.Key), l.digest)
	return snapshots.Request{
		Key: key, Try: env.Try, Snapshot: true, Title: l.title, From: &env,
		Check: func(ctx context.Context, id string) (providers.Image, error) {
			return im.findLayer(ctx, env, l.moves, id)
		},
		Build: func(ctx context.Context, log io.Writer) (providers.Image, error) {
			hold, err := im.Store.Ensure(ctx, env)
			if err != nil {
				return providers.Image{}, err
			}
			defer hold.Release()
			bounded, cancel := context.WithTimeout(ctx, orDefault(l.limit, layerTime))
			defer cancel()
			b := &layerBuild{im: im, key: key, wanted: l, env: hold.Image, log: log}
			img, err := b.build(bounded)
			if err != nil && ctx.Err() == nil && errors.Is(bounded.Err(), context.DeadlineExceeded) {
				err = providers.Errorf(providers.KindTimeout, "install", "%s took longer than %s (limit: %s)", l.title, orDefault(l.limit, layerTime), l.limit.Origin)
			}
			return img, err
		},
	}
}

func orDefault(limit trials.Limit, otherwise time.Duration) time.Duration {
	if limit.Seconds <= 0 {
		return otherwise
	}
	return time.Duration(limit.Seconds * float64(time.Second))
}

// findLayer looks for a snapshot. One of a reference is good as long as the reference
// leads to the image that it was made from.
func (im *Images) findLayer(ctx context.Context, env snapshots.Request, moves bool, id string) (providers.Image, error) {
	img, err := im.keeper.InspectSnapshot(ctx, id)
	if err == nil {
		err = im.moved(ctx, img)
	}
	if err != nil || !moves {
		return img, err
	}
	now, err := env.Check(ctx, "")
	if err == nil && now.ID != img.Labels[baseLabel] {
		return providers.Image{}, providers.Errorf(providers.KindNotFound, "inspect snapshot", "%s is another image now", env.Title)
	}
	return img, nil // who has nothing newer has this
}

// layerBuild is a snapshot that is being made.
type layerBuild struct {
	im     *Images
	key    snapshots.Key
	wanted wantedLayer
	env    providers.Image
	log    io.Writer
}

// build makes the snapshot and proves it.
func (b *layerBuild) build(ctx context.Context) (img providers.Image, _ error) {
	ref, err := b.keep(ctx)
	if err != nil {
		return img, err
	}
	if err := b.im.starts(ctx, providers.Source{Snapshot: ref}, b.log); err != nil {
		detached, cancel := providers.Cleanup(ctx, putAway, putAway)
		defer cancel()
		return img, errors.Join(err, b.im.keeper.DeleteSnapshot(detached, ref))
	}
	fmt.Fprintf(b.log, "harbor: kept as %s\n", ref)
	return b.im.keeper.InspectSnapshot(ctx, ref)
}

// keep installs in a sandbox of its own, in which nothing else ran: no agent, no
// verifier, not the image's entrypoint. It has a network whatever the task allows its
// own, and no secret, no settings and no grant. It is gone when keep returns: there is
// room for another, then.
func (b *layerBuild) keep(ctx context.Context) (string, error) {
	name := tag(b.wanted.title, b.key)
	if _, err := b.im.keeper.InspectSnapshot(ctx, name); providers.Is(err, providers.KindUnsupported) {
		return "", err // before a minute is spent on it
	}
	s, err := b.im.sandbox(ctx, providers.Source{Image: b.env.ID}, providers.NetworkPublic, b.log)
	if err != nil {
		return "", err
	}
	defer b.im.remove(ctx, s, b.log)
	fmt.Fprintln(b.log, "harbor: it is installed")
	before, err := newScan(ctx, s)
	if err != nil {
		return "", err
	}
	if err := b.wanted.Install(ctx, s, b.log, b.im.Store.LogPath(b.key)); err != nil {
		return "", err
	}
	if err := before.check(ctx, b.im.detector(ctx), b.log); err != nil {
		return "", err
	}
	return b.im.keeper.Snapshot(ctx, s.ID(), name, map[string]string{
		imageLabel: string(b.key), ImageHostLabel: b.im.Host, nameLabel: name, baseLabel: b.env.ID, basesLabel: b.env.Labels[basesLabel],
	})
}
