package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"harborgate/providers"
)

// Snapshot commits a container. The engine's commit takes over the container's own
// configuration: the helper as entrypoint, labels, environment. So a second image is
// made of the same layers with the configuration of the image that the container came
// from, and the first one goes. Both carry labels, so that whoever is killed in
// between leaves nothing that cannot be found.
func (p *Provider) Snapshot(ctx context.Context, id providers.ID, name string, labels map[string]string) (string, error) {
	if err := p.snapshots(ctx); err != nil {
		return "", err
	}
	c, err := p.engine.ContainerInspect(ctx, string(id))
	if err != nil {
		return "", p.fail("snapshot", string(id), err)
	}
	from, err := p.engine.ImageInspect(ctx, c.Image)
	if err != nil {
		return "", p.fail("snapshot", string(id), err)
	}
	// The answer is awaited even when ctx ends: without it nobody knows what to remove.
	asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer cancel()
	made, err := p.engine.ContainerCommit(asked, string(id), container.CommitOptions{Pause: true, Config: &container.Config{Labels: labels}})
	if err != nil {
		return "", p.fail("snapshot", string(id), err)
	}
	defer p.dropCommit(ctx, made.ID)
	committed, err := p.engine.ImageInspect(ctx, made.ID)
	if err != nil {
		return "", p.fail("snapshot", string(id), err)
	}
	ref, err := p.rename(ctx, committed, configured(from, labels), name)
	return ref, p.fail("snapshot", string(id), err)
}

// DeleteSnapshot removes the image of a snapshot.
func (p *Provider) DeleteSnapshot(ctx context.Context, ref string) error {
	return p.RemoveImage(ctx, ref)
}

// InspectSnapshot looks for the image of a snapshot.
func (p *Provider) InspectSnapshot(ctx context.Context, ref string) (providers.Image, error) {
	if err := p.snapshots(ctx); err != nil {
		return providers.Image{}, err
	}
	return p.InspectImage(ctx, ref)
}

// snapshots says why an engine cannot keep any.
func (p *Provider) snapshots(ctx context.Context) error {
	f, err := p.ask(ctx)
	if err == nil && f.loadsAll {
		err = providers.Errorf(providers.KindUnsupported, "snapshot", "the engine keeps its images in containerd's store, which takes no image without its layers")
	}
	return err
}

// dropCommit removes the image that the engine made of a container. Its layers stay
// with the snapshot.
func (p *Provider) dropCommit(ctx context.Context, id string) {
	ctx, cancel := providers.Cleanup(ctx, removeLimit, hurry)
	defer cancel()
	if _, err := p.engine.ImageRemove(ctx, id, image.RemoveOptions{}); err != nil && kindOf(err) != providers.KindNotFound {
		p.log.Warn("an intermediate image of a snapshot could not be removed, `harbor cleanup --images` will", "image", id, "error", err)
	}
}

// configured is what an image says about its processes, with other labels on top.
func configured(from image.InspectResponse, labels map[string]string) dockerspec.DockerOCIImageConfig {
	var cfg dockerspec.DockerOCIImageConfig
	if from.Config != nil {
		cfg = *from.Config
	}
	own := maps.Clone(cfg.Labels)
	if own == nil {
		own = map[string]string{}
	}
	maps.Copy(own, labels)
	cfg.Labels = own
	return cfg
}

// rename makes an image of another's layers, by loading an archive that has no layers:
// the engine has them.
func (p *Provider) rename(ctx context.Context, layers image.InspectResponse, cfg dockerspec.DockerOCIImageConfig, name string) (string, error) {
	archive, ref, err := imageArchive(layers, cfg, name)
	if err != nil {
		return "", err
	}
	body, err := p.engine.ImageLoad(ctx, archive)
	if err == nil {
		err = followPull(body.Body, name, nil)
	}
	if err != nil && ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", &providers.Error{Kind: loadKind(err), Err: fmt.Errorf("the engine does not take an image of layers that it has: %w", err)}
	}
	got, err := p.inspect(ctx, ref)
	return got.ID, err
}

// loadKind is Unsupported for what the engine says about the archive: one whose images
// are kept by containerd wants the layers too.
func loadKind(err error) providers.Kind {
	switch kind := kindOf(err); kind {
	case providers.KindUnavailable, providers.KindExhausted:
		return kind
	default:
		return providers.KindUnsupported
	}
}

// imageArchive is what `docker save` would write, without the layers, and the id that
// the image will have.
func imageArchive(layers image.InspectResponse, cfg dockerspec.DockerOCIImageConfig, name string) (*bytes.Buffer, string, error) {
	if len(layers.RootFS.Layers) == 0 {
		return nil, "", errors.New("the engine does not say of which layers the image is")
	}
	now := time.Now().UTC()
	img := dockerspec.DockerOCIImage{Config: cfg, Image: ocispec.Image{
		Created:  &now,
		Platform: ocispec.Platform{Architecture: layers.Architecture, OS: layers.Os, Variant: layers.Variant},
		RootFS:   ocispec.RootFS{Type: "layers"},
	}}
	paths := make([]string, len(layers.RootFS.Layers))
	for i, l := range layers.RootFS.Layers {
		img.RootFS.DiffIDs = append(img.RootFS.DiffIDs, digest.Digest(l))
		paths[i] = fmt.Sprintf("%d/layer.tar", i)
	}
	config, err := json.Marshal(img)
	if err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256(config)
	id := hex.EncodeToString(sum[:])
	tag, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return nil, "", err
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": id + ".json", "RepoTags": []string{reference.TagNameOnly(tag).String()}, "Layers": paths,
	}})
	if err != nil {
		return nil, "", err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range []struct {
		name string
		body []byte
	}{{id + ".json", config}, {"manifest.json", manifest}} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o644, Size: int64(len(f.body))}); err != nil {
			return nil, "", err
		}
		if _, err := io.Copy(w, bytes.NewReader(f.body)); err != nil {
			return nil, "", err
		}
	}
	return &buf, idPrefix + id, w.Close()
}
