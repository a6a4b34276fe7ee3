package agents

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"harborgate/agents/packages"
)

// native is an agent that is one archive of npm's registry per architecture. A
// %s in a spec is the version.
type native struct {
	name, pinned string // of the agent, its version
	archives     map[string]packages.Archive
}

// bundle implements facts.bundle.
func (n native) bundle(arch, version string) ([]Part, error) {
	p, err := n.part(bundleDir, arch, version)
	if err != nil {
		return nil, err
	}
	return []Part{p}, nil
}

func (n native) part(dir, arch, version string) (Part, error) {
	a, ok := n.archives[arch]
	if !ok {
		return Part{}, noPackage(n.name, arch, n.archives)
	}
	return Part{dir, packages.Package{Name: n.name + "-" + arch, Version: version, From: at(a, version, n.pinned)}}, nil
}

// at is an archive in a version. One that is not the pinned one has no pinned digest:
// there the registry's own has to do, which npm checks.
func at(a packages.Archive, version, pinned string) packages.Archive {
	if a.Spec = fmt.Sprintf(a.Spec, version); version != pinned {
		a.Integrity = ""
	}
	return a
}

func noPackage[T any](name, arch string, have map[string]T) error {
	return fmt.Errorf("%s has no package for %s, there is one for %s", name, arch, strings.Join(slices.Sorted(maps.Keys(have)), ", "))
}
