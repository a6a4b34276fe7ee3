package app

import (
	"context"
	"errors"
	"testing"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/snapshots"
)

// failing cannot be asked for images.
type failing struct{ *fake.Provider }

var errAway = errors.New("away")

func (failing) InspectImage(context.Context, string) (providers.Image, error) {
	return providers.Image{}, errAway
}

func TestSnapshotsOfDeadProcessesAreNotPresent(t *testing.T) {
	t.Parallel()
	kept := []snapshots.Kept{
		{Record: snapshots.Record{Key: "gone", ID: "sha256:none"}},
		{Record: snapshots.Record{Key: "used", ID: "sha256:other"}, InUse: true},
	}
	p := fake.New(fake.Options{Name: "cloud", World: fake.NewWorld()})
	a := &App{}
	got, err := a.Present(t.Context(), p, kept)
	if err != nil || len(got) != 1 || got[0].Key != "used" {
		t.Errorf("%+v %v", got, err)
	}
	if got, err = a.Present(t.Context(), failing{p}, kept); !errors.Is(err, errAway) || len(got) != 2 {
		t.Errorf("a provider that cannot be asked has %+v, %v", got, err)
	}
}
