package tasks

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// artifactManifest is written into the artifacts directory by the harness.
const artifactManifest = "manifest.json"

// Validate reports what is wrong with an artifact by itself.
func (a Artifact) Validate() error {
	switch {
	case strings.TrimSpace(a.Source) == "":
		return errors.New("artifact has no source")
	case slices.Contains(strings.Split(a.Source, "/"), ".."):
		return fmt.Errorf("artifact source %q contains \"..\"", a.Source)
	case a.Sidecar() && !path.IsAbs(a.Source):
		return fmt.Errorf("artifact source %q of service %q is not an absolute path", a.Source, a.Service)
	case a.Destination == "":
		return nil
	case path.IsAbs(a.Destination) || strings.Contains(a.Destination, `\`):
		return fmt.Errorf("artifact destination %q is not a relative path with forward slashes", a.Destination)
	case slices.Contains(strings.Split(a.Destination, "/"), ".."):
		return fmt.Errorf("artifact destination %q contains \"..\"", a.Destination)
	case path.Clean(a.Destination) == artifactManifest:
		return fmt.Errorf("artifact destination %q is the name of the list of artifacts", a.Destination)
	}
	return nil
}

// Sidecar reports whether the artifact is of a compose service beside the main
// one.
func (a Artifact) Sidecar() bool { return a.Service != "" && a.Service != MainService }

// Target is where the artifact is kept, relative to the artifacts directory:
// its destination, or its source without the leading slash.
func (a Artifact) Target() string {
	if a.Destination != "" {
		return path.Clean(a.Destination)
	}
	return strings.TrimPrefix(path.Clean("/"+a.Source), "/")
}

// overlap reports whether one target is the other or lies below it.
func overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}
