package fake

import (
	"context"
	"fmt"
	"syscall"

	"harborgate/providers"
)

const writeOnly = syscall.O_WRONLY

// Snapshot implements providers.Snapshotter. The name becomes the reference.
func (p *Provider) Snapshot(ctx context.Context, id providers.ID, name string, labels map[string]string) (string, error) {
	b, err := p.live("snapshot", id)
	if err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	b.mu.Lock()
	tree := b.tree().Clone()
	b.mu.Unlock()
	kept := *b.image
	kept.fs, kept.id, kept.labels = tree, name, labels
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, taken := w.snapshots[name]; taken {
		return "", providers.Errorf(providers.KindAlreadyExists, "snapshot", "the name %s is taken", name)
	}
	w.snapshots[name] = &kept
	return name, nil
}

// InspectSnapshot implements providers.Snapshotter.
func (p *Provider) InspectSnapshot(ctx context.Context, ref string) (providers.Image, error) {
	img, err := p.world.snapshot(ref)
	if err != nil {
		return providers.Image{}, err
	}
	return img.public(), ctx.Err()
}

// DeleteSnapshot implements providers.Snapshotter.
func (p *Provider) DeleteSnapshot(ctx context.Context, ref string) error {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	delete(p.world.snapshots, ref)
	return ctx.Err()
}

func (w *World) snapshot(ref string) (*image, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	img, ok := w.snapshots[ref]
	if !ok {
		return nil, providers.E(providers.KindNotFound, "find snapshot", fmt.Errorf("there is no snapshot %q", ref))
	}
	return img, nil
}
