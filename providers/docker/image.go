package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/image"

	"harborgate/providers"
)

// imageConfig is what an image says about the processes that run in it.
type imageConfig struct {
	providers.Image
	ref        string
	Entrypoint []string
}

func (c imageConfig) archOr(engine string) string {
	if c.Arch == "" {
		return engine
	}
	return c.Arch
}

// idPrefix starts references that are content ids.
const idPrefix = "sha256:"

// imageFor makes the image of a spec present and reads its configuration.
func (p *Provider) imageFor(ctx context.Context, spec providers.Spec) (imageConfig, error) {
	ref := spec.Source.Image
	if spec.Source.Snapshot != "" {
		ref = spec.Source.Snapshot
	}
	if c, ok := p.configs.Get(ref); ok {
		return c, nil
	}
	c, err := p.inspect(ctx, ref)
	if err == nil || !providers.Is(err, providers.KindNotFound) || spec.Source.Snapshot != "" {
		return c, err
	}
	if _, err := p.PullImage(ctx, ref, lineWriter(spec.Progress)); err != nil {
		return imageConfig{}, err
	}
	return p.inspect(ctx, ref)
}

func (p *Provider) inspect(ctx context.Context, ref string) (imageConfig, error) {
	got, err := p.engine.ImageInspect(ctx, ref)
	if err != nil {
		return imageConfig{}, p.fail("inspect image", ref, err)
	}
	c := imageConfig{
		Image: providers.Image{ID: got.ID, OS: got.Os, Arch: got.Architecture, Bytes: got.Size, Tags: named(got.RepoTags)},
		ref:   got.ID,
	}
	if got.Config != nil {
		c.User, c.Labels, c.Entrypoint = got.Config.User, got.Config.Labels, got.Config.Entrypoint
	}
	if got.Os != "" && got.Os != "linux" {
		return imageConfig{}, providers.Errorf(providers.KindUnsupported, "inspect image", "image %s is for %s, only linux is supported", ref, got.Os)
	}
	if strings.HasPrefix(ref, idPrefix) {
		p.configs.Add(ref, c) // content never changes; a tag may move
	}
	return c, nil
}

// InspectImage looks only into the engine's store.
func (p *Provider) InspectImage(ctx context.Context, ref string) (providers.Image, error) {
	c, err := p.inspect(ctx, ref)
	return c.Image, err
}

// PullImage takes the image from the engine's store, or pulls it.
func (p *Provider) PullImage(ctx context.Context, ref string, progress io.Writer) (providers.Image, error) {
	c, err := p.inspect(ctx, ref)
	if err == nil || !providers.Is(err, providers.KindNotFound) || strings.HasPrefix(ref, idPrefix) {
		return c.Image, err
	}
	auth, err := registryAuth(ctx, ref)
	if err != nil {
		return providers.Image{}, p.fail("pull", ref, err)
	}
	body, err := p.engine.ImagePull(ctx, ref, image.PullOptions{RegistryAuth: auth})
	if err == nil {
		err = followPull(body, ref, progress)
	}
	if err != nil {
		return providers.Image{}, p.fail("pull", ref, fmt.Errorf(
			"image is not on this engine and could not be pulled: %w (check the name, `docker login`, or load it with `docker load`)", err))
	}
	c, err = p.inspect(ctx, ref)
	return c.Image, err
}

// followPull reads the engine's progress to its end; an error in it is the
// pull's error.
func followPull(body io.ReadCloser, ref string, progress io.Writer) error {
	defer body.Close()
	dec := json.NewDecoder(body)
	last := map[string]string{}
	for {
		var m struct {
			ID, Status, Error string
		}
		err := dec.Decode(&m)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case m.Error != "":
			return errors.New(m.Error)
		}
		if progress != nil && last[m.ID] != m.Status {
			last[m.ID] = m.Status
			fmt.Fprintf(progress, "pull %s: %s %s\n", ref, m.ID, m.Status)
		}
	}
}

// ListImages finds images that carry labels, with their tags or without.
func (p *Provider) ListImages(ctx context.Context, labels map[string]string) ([]providers.Image, error) {
	all, err := p.engine.ImageList(ctx, image.ListOptions{Filters: labelFilter(labels)})
	if err != nil {
		return nil, p.fail("list images", "", err)
	}
	out := make([]providers.Image, len(all))
	for i, img := range all {
		out[i] = providers.Image{ID: img.ID, OS: "linux", Labels: img.Labels, Bytes: img.Size, Tags: named(img.RepoTags), Parent: img.ParentID}
	}
	return out, nil
}

// named leaves out what older engines list for an image without a tag.
func named(tags []string) []string {
	return slices.DeleteFunc(slices.Clone(tags), func(t string) bool { return t == "<none>:<none>" })
}

// RemoveImage removes an image by id, tags included.
func (p *Provider) RemoveImage(ctx context.Context, id string) error {
	p.configs.Remove(id)
	_, err := p.engine.ImageRemove(ctx, id, image.RemoveOptions{Force: false, PruneChildren: true})
	switch {
	case err == nil || kindOf(err) == providers.KindNotFound:
		return nil
	case kindOf(err) == providers.KindAlreadyExists: // the engine's conflict: a container uses it
		return p.fail("remove image", id, &providers.Error{Kind: providers.KindDenied, Err: err})
	}
	return p.fail("remove image", id, err)
}

// lineWriter hands whole lines to f; nil stays nil.
func lineWriter(f func(string)) io.Writer {
	if f == nil {
		return nil
	}
	return &lines{f: f}
}

type lines struct {
	f    func(string)
	rest string
}

func (l *lines) Write(b []byte) (int, error) {
	l.rest += string(b)
	for {
		line, rest, ok := strings.Cut(l.rest, "\n")
		if !ok {
			return len(b), nil
		}
		l.f(line)
		l.rest = rest
	}
}
