package runner

import (
	"testing"

	"harborgate/providers"
	"harborgate/snapshots"
)

// TestB061UserImagesMadeFromOursAreNotOurs: images that are committed of a sandbox, or
// built from an image of ours, have its labels.
func TestB061UserImagesMadeFromOursAreNotOurs(t *testing.T) {
	t.Parallel()
	key := snapshots.KeyOf("one")
	name := tag("task a", key)
	if again := tag("task a", key); again == name {
		t.Errorf("two builds are both called %s", name)
	}
	env := map[string]string{imageLabel: string(key), nameLabel: name}
	layer := map[string]string{imageLabel: string(key), nameLabel: name, baseLabel: "sha256:env"}
	for what, c := range map[string]struct {
		img             providers.Image
		left, ofARecord bool
	}{
		"built":                            {providers.Image{Labels: env, Tags: []string{name}}, true, true},
		"a layer":                          {providers.Image{Labels: layer, Tags: []string{name}}, true, true},
		"committed on the way to a layer":  {providers.Image{Labels: layer, Parent: "sha256:env"}, true, true},
		"built, and named by a user":       {providers.Image{Labels: env, Tags: []string{name, "mine:1"}}, false, false},
		"built, and only a user's name":    {providers.Image{Labels: env, Tags: []string{"mine:1"}}, false, false},
		"a user's commit of a sandbox":     {providers.Image{Labels: env, Parent: "sha256:built"}, false, true},
		"a user's commit of a layer":       {providers.Image{Labels: layer, Parent: "sha256:layer"}, false, true},
		"a user's commit, named":           {providers.Image{Labels: layer, Parent: "sha256:env", Tags: []string{"mine:1"}}, false, false},
		"a user's build from ours":         {providers.Image{Labels: env}, false, true},
		"a user's build from ours, named":  {providers.Image{Labels: env, Tags: []string{"harborgate/mine:1"}}, false, true},
		"of an earlier harbor, never ours": {providers.Image{Labels: map[string]string{imageLabel: string(key)}}, false, true},
		"somebody else's":                  {providers.Image{Tags: []string{name}}, false, false},
	} {
		if got := Unrecorded(c.img) == key; got != c.left {
			t.Errorf("%s: ours without a record: %t", what, got)
		}
		if got := BuiltHere(c.img, key); got != c.ofARecord {
			t.Errorf("%s: ours with a record: %t", what, got)
		}
	}
}
