package fake

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"harborgate/providers"
	"harborgate/providers/fake/plane"
)

// Control is a control plane that decides what sandboxes there may be and says how
// long each call takes; the fake waits that long. Sandboxes get their ids from it
// and stay on its list until they are destroyed, also when the process that has
// their contents is dead. *plane.Plane is one, and *plane.Client one of another
// process.
type Control interface {
	Create(ctx context.Context, s plane.Sandbox) (id providers.ID, wait time.Duration, err error)
	Delete(ctx context.Context, id providers.ID) (wait time.Duration, err error)
	List(ctx context.Context, sel providers.Selector) (found []plane.Sandbox, wait time.Duration, err error)
	Check(ctx context.Context) (wait time.Duration, err error)
	// Exec admits what happens inside a sandbox. Its error carries a Death when the
	// sandbox is gone.
	Exec(ctx context.Context, id providers.ID) (wait time.Duration, err error)
}

// How long the removal of a sandbox takes at most that nobody waits for any more.
const (
	discardLimit = 10 * time.Second
	discardHurry = 2 * time.Second
)

// open admits everything and takes no time: a world without limits.
type open struct{ world *World }

func (o open) Create(context.Context, plane.Sandbox) (providers.ID, time.Duration, error) {
	return o.world.nextID(), 0, nil
}

func (open) Delete(context.Context, providers.ID) (time.Duration, error) { return 0, nil }

func (o open) List(_ context.Context, sel providers.Selector) ([]plane.Sandbox, time.Duration, error) {
	var found []plane.Sandbox
	for _, b := range o.world.all() {
		if s := b.entry(); sel.Matches(s.Name, s.Labels) {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b plane.Sandbox) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return found, 0, nil
}

func (open) Check(context.Context) (time.Duration, error) { return 0, nil }

func (open) Exec(context.Context, providers.ID) (time.Duration, error) { return 0, nil }

// list is what the control plane has; how it is with each, this process knows of its
// own.
func (p *Provider) list(ctx context.Context, sel providers.Selector) ([]providers.Resource, error) {
	found, wait, err := p.control.List(ctx, sel)
	if err := admitted(ctx, wait, err); err != nil {
		return nil, err
	}
	out := make([]providers.Resource, 0, len(found))
	for _, s := range found {
		r := providers.Resource{ID: s.ID, Kind: providers.ResourceSandbox, Name: s.Name, Labels: s.Labels, Created: s.Created, State: stateRunning}
		if b := p.world.box(s.ID); b != nil {
			r.State = b.state()
		}
		out = append(out, r)
	}
	return out, nil
}

// Close releases what leads to a control plane elsewhere. It does not touch
// sandboxes.
func (p *Provider) Close() error {
	if c, ok := p.control.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// admitted waits as long as a call takes that was let in.
func admitted(ctx context.Context, wait time.Duration, err error) error {
	if err != nil {
		return err
	}
	return pause(ctx, wait)
}

// remove destroys a sandbox at the control plane and here.
func (p *Provider) remove(ctx context.Context, id providers.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	wait, err := p.control.Delete(ctx, id)
	if err := admitted(ctx, wait, err); err != nil {
		return err
	}
	if b := p.world.box(id); b != nil {
		b.destroy()
	}
	return nil
}

// discard removes a sandbox that was made for nobody.
func (p *Provider) discard(ctx context.Context, id providers.ID) error {
	ctx, cancel := providers.Cleanup(ctx, discardLimit, discardHurry)
	defer cancel()
	return p.remove(ctx, id)
}

// inside admits a call inside a sandbox, which dies here when it is lost there.
func (s *sandbox) inside(ctx context.Context) error {
	wait, err := s.p.control.Exec(ctx, s.box.id)
	if death, dead := providers.DeathOf(err); dead {
		s.box.die(death)
	}
	return admitted(ctx, wait, err)
}
