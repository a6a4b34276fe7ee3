package docker

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"

	"harborgate/providers"
)

// keeper is an engine that commits and does not load.
type keeper struct {
	stub
	loadErr error
	load    string // body of the answer
	removed []string
	during  func() // of the commit
}

func (k *keeper) ContainerInspect(context.Context, string) (container.InspectResponse, error) {
	return container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{Image: "sha256:from"}}, nil
}

func (k *keeper) ContainerCommit(ctx context.Context, _ string, _ container.CommitOptions) (container.CommitResponse, error) {
	if k.during != nil {
		k.during()
	}
	if ctx.Err() != nil {
		return container.CommitResponse{}, ctx.Err()
	}
	return container.CommitResponse{ID: "sha256:commit"}, nil
}

func (k *keeper) ImageLoad(ctx context.Context, _ io.Reader, _ ...client.ImageLoadOption) (image.LoadResponse, error) {
	if ctx.Err() != nil {
		return image.LoadResponse{}, ctx.Err()
	}
	return image.LoadResponse{Body: io.NopCloser(strings.NewReader(k.load))}, k.loadErr
}

func (k *keeper) ImageRemove(_ context.Context, id string, _ image.RemoveOptions) ([]image.DeleteResponse, error) {
	k.removed = append(k.removed, id)
	return nil, nil
}

// TestSnapshotThatCannotBe: an engine that wants layers with an image cannot make
// snapshots, and keeps nothing of the attempt; one that is away may be back later.
func TestSnapshotThatCannotBe(t *testing.T) {
	t.Parallel()
	layers := image.RootFS{Type: "layers", Layers: []string{"sha256:0"}}
	for _, c := range []struct {
		load string
		err  error
		root image.RootFS
		kind providers.Kind
	}{
		{`{"error":"layer not found"}`, nil, layers, providers.KindUnsupported},
		{"", errors.New("invalid archive"), layers, providers.KindUnsupported},
		{"", errors.New("connection refused"), layers, providers.KindUnavailable},
		{"", errors.New("no space left on device"), layers, providers.KindExhausted},
		{"", nil, image.RootFS{}, providers.KindInternal},
	} {
		k := &keeper{load: c.load, loadErr: c.err}
		k.present = map[string]image.InspectResponse{"sha256:from": {ID: "sha256:from"}, "sha256:commit": {ID: "sha256:commit", RootFS: c.root}}
		p := stubbed(t, &k.stub)
		p.engine = k
		_, err := p.Snapshot(t.Context(), "box", "name:tag", nil)
		if !providers.Is(err, c.kind) || len(k.removed) != 1 || k.removed[0] != "sha256:commit" {
			t.Errorf("%q %v: %v, removed %v; want %s", c.load, c.err, err, k.removed, c.kind)
		}
	}
}

// TestSnapshotWhereImagesAreContainerds is refused before anything is made.
func TestSnapshotWhereImagesAreContainerds(t *testing.T) {
	t.Parallel()
	k := &keeper{}
	p := stubbed(t, &k.stub)
	p.engine, p.facts = k, &facts{loadsAll: true}
	_, err := p.Snapshot(t.Context(), "box", "name:tag", nil)
	_, ierr := p.InspectSnapshot(t.Context(), "name:tag")
	if !providers.Is(err, providers.KindUnsupported) || !providers.Is(ierr, providers.KindUnsupported) || len(k.removed) > 0 {
		t.Errorf("%v, %v, removed %v", err, ierr, k.removed)
	}
}

// TestSnapshotThatIsCancelled leaves nothing: the commit that nobody needs is known.
func TestSnapshotThatIsCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	k := &keeper{during: cancel}
	k.present = map[string]image.InspectResponse{"sha256:from": {ID: "sha256:from"}, "sha256:commit": {ID: "sha256:commit", RootFS: image.RootFS{Layers: []string{"sha256:0"}}}}
	p := stubbed(t, &k.stub)
	p.engine = k
	if _, err := p.Snapshot(ctx, "box", "name:tag", nil); !errors.Is(err, context.Canceled) || len(k.removed) != 1 || k.removed[0] != "sha256:commit" {
		t.Errorf("%v, removed %v", err, k.removed)
	}
}

// TestSnapshotIsAsItsImage: of labels, those of the snapshot win; the image's own
// configuration is not touched.
func TestSnapshotIsAsItsImage(t *testing.T) {
	t.Parallel()
	from := image.InspectResponse{Config: &dockerspec.DockerOCIImageConfig{}}
	from.Config.Labels = map[string]string{"key": "image", "own": "kept"}
	from.Config.Entrypoint, from.Config.User = []string{"/start"}, "me"
	got := configured(from, map[string]string{"key": "snapshot"})
	if got.Labels["key"] != "snapshot" || got.Labels["own"] != "kept" || got.Entrypoint[0] != "/start" || got.User != "me" {
		t.Errorf("%+v", got)
	}
	if from.Config.Labels["key"] != "image" {
		t.Error("the image's labels were changed")
	}
}
