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

// bundle implements facts.bundle. A version that is not the pinned one has no pinned
// digest: there the registry's own has to do, which npm checks.
func (n native) bundle(arch, version string) ([]Part, error) {
	a, ok := n.archives[arch]
	if !ok {
		return nil, noPackage(n.name, arch, n.archives)
	}
	if a.Spec = fmt.Sprintf(a.Spec, version); version != n.pinned {
		a.Integrity = ""
	}
	return []Part{{bundleDir, packages.Package{Name: n.name + "-" + arch, Version: version, From: a}}}, nil
}

func noPackage[T any](name, arch string, have map[string]T) error {
	return fmt.Errorf("agent %s has no package for %s, there is one for %s", name, arch, strings.Join(slices.Sorted(maps.Keys(have)), ", "))
}
