package runner

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"harborgate/providers"
)

// basesLabel is on images that we build: the images that they are made from, as the
// provider had them when the build began, "reference=id" with spaces between.
const basesLabel = "harborgate.image.bases"

// basesOf are the references that a Dockerfile starts from. Those that only the builder
// knows, because they hold variables or are stages, are none.
func basesOf(dir string) ([]string, error) {
	f, err := os.Open(filepath.Join(dir, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	parsed, err := parser.Parse(f)
	if err != nil {
		return nil, err
	}
	stages, refs := map[string]bool{"scratch": true}, map[string]bool{}
	for _, n := range parsed.AST.Children {
		if !strings.EqualFold(n.Value, "from") || n.Next == nil {
			continue
		}
		if ref := n.Next.Value; !stages[strings.ToLower(ref)] && !strings.Contains(ref, "$") {
			refs[ref] = true
		}
		if as := n.Next.Next; as != nil && as.Next != nil {
			stages[strings.ToLower(as.Next.Value)] = true
		}
	}
	return slices.Sorted(maps.Keys(refs)), nil
}

// bases are the images that a build starts from and that the provider has, for the label.
func (im *Images) bases(ctx context.Context, dir string) string {
	refs, err := basesOf(dir)
	if err != nil {
		return "" // the build will tell
	}
	var out []string
	for _, ref := range refs {
		if img, err := im.builder.InspectImage(ctx, ref); err == nil {
			out = append(out, ref+"="+img.ID)
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
