package runner

import (
	"context"
	"testing"

	"harborgate/providers"
	"harborgate/providers/fake"
	"harborgate/trials"
)

// moving is a provider where a reference leads to another image after a while.
type moving struct {
	*fake.Provider
	id     string // of "base"
	builds int
	labels map[string]string // of the latest build: the fake's image of a context is one
}

func (m *moving) InspectImage(ctx context.Context, ref string) (providers.Image, error) {
	if ref == "base" {
		if m.id == "" {
			return providers.Image{}, providers.Errorf(providers.KindNotFound, "inspect", "no image %s", ref)
		}
		return providers.Image{ID: m.id}, nil
	}
	img, err := m.Provider.InspectImage(ctx, ref)
	if err == nil && m.labels != nil {
		img.Labels = m.labels
	}
	return img, err
}

func (m *moving) BuildImage(ctx context.Context, b providers.Build) (providers.Image, error) {
	m.builds++
	m.labels = b.Labels
	return m.Provider.BuildImage(ctx, b)
}

// An environment is built again when what it is made from is another image by then, and
// not because it is gone.
func TestEnvironmentFollowsItsBase(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := newBench(t)
		m := &moving{Provider: fake.New(fake.Options{World: b.world})}
		b.p = &looked{Provider: m}
		im, task := b.images(), writeTask(t, map[string]string{"environment/Dockerfile": "FROM base\n"})
		for _, c := range []struct {
			id     string
			builds int
		}{{"one", 1}, {"one", 1}, {"two", 2}, {"two", 2}, {"", 2}} {
			m.id = c.id
			req, err := im.Environment(task, trials.NewTrialConfig(trials.TaskConfig{}), 1)
			if err != nil {
				t.Fatal(err)
			}
			hold, err := im.Get(t.Context(), req)
			if err != nil || m.builds != c.builds {
				t.Errorf("base %q: %d builds, want %d: %v", c.id, m.builds, c.builds, err)
			}
			hold.Release()
		}
	})
}
