package app

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

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

// An outage under the proof of a build is no failed build either, when nobody hears that
// its sandbox was made.
func TestOutageUnderTheProofOfABuildCostsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := filepath.Join(t.TempDir(), "set")
		put(t, filepath.Join(putTask(t, set, "a", "echo 1 > /logs/verifier/reward.txt", ""), "environment", "Dockerfile"), "FROM debian\nRUN echo a\n")
		w, cfg := fake.NewWorld(), jobOf(t, set)
		cfg.NAttempts = 5
		j := start(t, cfg, w)
		w.Inject(fake.Fault{Op: fake.OpCreate, Nth: 1, Effect: fake.Lose, Kind: providers.KindUnavailable})
		for _, op := range []fake.Op{fake.OpCheck, fake.OpExec, fake.OpDestroy, fake.OpList} {
			w.Inject(fake.Fault{Op: op, Delay: time.Second, Effect: fake.Refuse, Kind: providers.KindUnavailable})
		}
		time.AfterFunc(20*time.Second, w.Heal)
		sum, err := j.Run(t.Context())
		if x := sum.Result.Harborgate; err != nil || x.Graded != 5 || len(x.CleanupFailed) > 0 || w.Left() > 0 {
			t.Errorf("%d graded, not removed %v, %d left, %v", x.Graded, x.CleanupFailed, w.Left(), err)
		}
	})
}

// listing is an engine under two names, with an image that the second one's job built.
type listing struct{ *fake.Provider }

func (listing) ListImages(context.Context, map[string]string) ([]providers.Image, error) {
	var out []providers.Image
	for _, id := range []string{"sha256:second", "sha256:killed"} {
		out = append(out, providers.Image{ID: id, Tags: []string{"harborgate/task:" + id[7:]}, Labels: map[string]string{
			"harborgate.image.key": id[7:], "harborgate.image.name": "harborgate/task:" + id[7:],
		}})
	}
	return out, nil
}

// An image that another name of the same engine has a record of is not one of a dead build.
func TestImagesOfAnotherNameOfTheEngineStay(t *testing.T) {
	t.Parallel()
	a := newApp(t, hostOf(t, nil))
	other, err := a.snapshotStore("second")
	if err != nil {
		t.Fatal(err)
	}
	hold, err := other.Ensure(t.Context(), snapshots.Request{
		Key: "second", Check: func(context.Context, string) (providers.Image, error) { return providers.Image{}, errAway },
		Build: func(context.Context, io.Writer) (providers.Image, error) {
			return providers.Image{ID: "sha256:second"}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	hold.Release()
	put(t, filepath.Join(a.Dirs.State, snapshotsDir, "foreign.txt"), "") // stands in nobody's way
	p := listing{fake.New(fake.Options{Name: "first", World: fake.NewWorld()})}
	gone, err := a.RemoveImages(t.Context(), p, true)
	if err != nil || len(gone) != 1 || gone[0].ID != "sha256:killed" {
		t.Errorf("%+v %v", gone, err)
	}
}

// What a process uses is in no list of what would go, be there a record of it or not.
func TestDryRunLeavesOutWhatIsInUse(t *testing.T) {
	t.Parallel()
	a := newApp(t, hostOf(t, nil))
	store, err := a.snapshotStore("first")
	if err != nil {
		t.Fatal(err)
	}
	p := listing{fake.New(fake.Options{Name: "first", World: fake.NewWorld()})}
	var holds []*snapshots.Hold
	for _, key := range []snapshots.Key{"second", "killed"} { // by another one's build, not the listed image's
		hold, err := store.Ensure(t.Context(), snapshots.Request{
			Key: key, Check: func(context.Context, string) (providers.Image, error) { return providers.Image{}, errAway },
			Build: func(context.Context, io.Writer) (providers.Image, error) {
				return providers.Image{ID: "sha256:again-" + string(key)}, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		holds = append(holds, hold)
	}
	would := func() int {
		t.Helper()
		gone, err := a.RemoveImages(t.Context(), p, true)
		if err != nil {
			t.Fatal(err)
		}
		return len(gone)
	}
	if n := would(); n != 0 {
		t.Errorf("%d would go while they are in use", n)
	}
	for _, h := range holds {
		h.Release()
	}
	if n := would(); n != 4 {
		t.Errorf("%d would go, want two and what killed builds of the same keys left", n)
	}
}

// engine has an image that was replaced, and that a user gave a name before.
type engine struct {
	*fake.Provider
	removed []string
}

func (e *engine) InspectImage(_ context.Context, id string) (providers.Image, error) {
	tags := map[string][]string{"sha256:1": {"mine:1"}, "sha256:2": {"harborgate/task:2"}}[id]
	return providers.Image{ID: id, Tags: tags, Labels: map[string]string{"harborgate.image.key": "key"}}, nil
}

func (e *engine) RemoveImage(_ context.Context, id string) error {
	e.removed = append(e.removed, id)
	return nil
}

func TestB061ReplacedImageThatAUserNamedStays(t *testing.T) {
	t.Parallel()
	a := newApp(t, hostOf(t, nil))
	p := &engine{Provider: fake.New(fake.Options{Name: "engine", World: fake.NewWorld()})}
	store, err := a.snapshotStore("engine")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"sha256:1", "sha256:2"} {
		hold, err := store.Ensure(t.Context(), snapshots.Request{
			Key: "key", Check: func(context.Context, string) (providers.Image, error) { return providers.Image{}, errAway },
			Build: func(context.Context, io.Writer) (providers.Image, error) { return providers.Image{ID: id}, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		hold.Release()
	}
	if gone, err := a.RemoveImages(t.Context(), p, false); err != nil || len(gone) != 1 || !slices.Equal(p.removed, []string{"sha256:2"}) {
		t.Errorf("removed %v, says %+v, %v", p.removed, gone, err)
	}
}
