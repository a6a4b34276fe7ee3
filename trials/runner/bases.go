package runner

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"harborgate/providers"
	"harborgate/tasks"
)

// basesLabel is on images that we build: the images that they are made from, as the
// provider had them when the build began, "reference=id" with spaces between.
const basesLabel = "harborgate.image.bases"

// bases are the images that a build starts from and that the provider has, for the label.
func (im *Images) bases(ctx context.Context, dir string) string {
	all, err := tasks.ReadBaseImages(filepath.Join(dir, "Dockerfile"))
	if err != nil {
		return "" // the build will tell
	}
	var out []string
	for _, base := range all {
		img, err := im.builder.InspectImage(ctx, base.Ref) // one with variables is not found
		if note := base.Ref + "=" + img.ID; err == nil && !strings.Contains(base.Ref, "$") && !slices.Contains(out, note) {
			out = append(out, note)
		}
	}
	return strings.Join(out, " ")
}

// standing reports an image as not there when one that it is made from is another by now.
// A base that the provider does not have any more is no reason to build.
func (im *Images) standing(ctx context.Context, id string) (providers.Image, error) {
	img, err := im.builder.InspectImage(ctx, id)
	if err == nil {
		err = im.moved(ctx, img)
	}
	return img, err
}

// moved is KindNotFound when an image that img is made from is another by now.
func (im *Images) moved(ctx context.Context, img providers.Image) error {
	for _, base := range strings.Fields(img.Labels[basesLabel]) {
		ref, was, _ := strings.Cut(base, "=")
		if now, err := im.builder.InspectImage(ctx, ref); err == nil && now.ID != was {
			return providers.Errorf(providers.KindNotFound, "inspect", "%s is another image now", ref)
		}
	}
	return nil
}
