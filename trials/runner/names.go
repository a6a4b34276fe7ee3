package runner

import (
	"crypto/rand"
	"regexp"
	"slices"
	"strings"

	"harborgate/providers"
	"harborgate/snapshots"
)

// imageLabel is on images that we build. Containers carry other keys, so that a
// sweep for the one never finds the other.
const imageLabel = "harborgate.image.key"

// ImageHostLabel names the host whose store has the image, or had it.
const ImageHostLabel = "harborgate.image.host"

// nameLabel is the tag that an image got when it was built. Whatever is made from the
// image inherits its labels, but never has this one tag, too.
const nameLabel = "harborgate.image.name"

const tagPrefix = "harborgate/"

var notInTag = regexp.MustCompile(`[^a-z0-9]+`)

// tag is a name for humans, another one for each build.
func tag(title string, key snapshots.Key) string {
	s := strings.Trim(notInTag.ReplaceAllString(strings.ToLower(title), "-"), "-")
	if s == "" {
		s = "task"
	}
	return tagPrefix + strings.TrimRight(s[:min(len(s), 60)], "-") + ":" + string(key[:12]) + "-" + strings.ToLower(rand.Text()[:6])
}

// BuiltHere reports whether an image whose id is recorded is one that we built, and to
// which nobody has given a name since.
func BuiltHere(img providers.Image, key snapshots.Key) bool {
	return img.Labels[imageLabel] == string(key) &&
		!slices.ContainsFunc(img.Tags, func(t string) bool { return !strings.HasPrefix(t, tagPrefix) })
}

// Unrecorded is the key under which an image was built that no record tells of, "" when
// that is not certain: images that a user makes from ours have the same labels. Ours has
// the name that it was built with and no other, or was committed of a layer's sandbox.
func Unrecorded(img providers.Image) snapshots.Key {
	base := img.Labels[baseLabel]
	built := len(img.Tags) == 1 && img.Tags[0] == img.Labels[nameLabel]
	committed := len(img.Tags) == 0 && base != "" && img.Parent == base
	if !built && !committed {
		return ""
	}
	return snapshots.Key(img.Labels[imageLabel])
}
