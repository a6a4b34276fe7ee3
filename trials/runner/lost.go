package runner

import (
	"context"
	"errors"

	"harborgate/providers"
)

// removable is a sandbox of a build, as far as its removal needs it.
type removable interface {
	ID() providers.ID
	Destroy(ctx context.Context) error
}

// unanswered reports whether a Create that failed may have made a sandbox: its provider
// went away under it. What a cancelled one made is the driver's to remove.
func unanswered(ctx context.Context, err error) bool {
	if err == nil || errors.Is(ctx.Err(), context.Canceled) {
		return false
	}
	switch providers.KindOf(err) {
	case providers.KindUnavailable, providers.KindTimeout, providers.KindInternal:
		return true
	default:
		return false
	}
}

// lost is a sandbox that nobody knows to be there, but for the name that it would have.
type lost struct {
	im   *Images
	name string
}

// ID is the name: there is none else.
func (l *lost) ID() providers.ID { return providers.ID(l.name) }

// Destroy looks for it. Not there is success.
func (l *lost) Destroy(ctx context.Context) error {
	found, err := l.im.Provider.List(ctx, providers.Selector{
		Labels: map[string]string{providers.LabelOwner: l.im.Owner}, NamePrefix: l.name,
	})
	for _, r := range found {
		err = errors.Join(err, l.im.Provider.Destroy(ctx, r.ID))
	}
	return err
}
