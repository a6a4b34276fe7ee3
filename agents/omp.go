package agents

import (
	"fmt"
	"strings"

	"harborgate/agents/packages"
	"harborgate/agents/settings"
	"harborgate/providers"
)

// omp is oh-my-pi: pi with more tools, on Bun. Left alone it asks a catalogue and many
// providers for their models when it starts, and servers on the sandbox's own ports; a
// provider that it knows may get the token past its base URL. So all that it knows are
// off, and the job's is one that it does not know.
func omp() facts {
	const name, pinned = "omp", "18.2.3"
	return facts{
		name: name, doc: "oh-my-pi, unmodified, from this host's cache", version: pinned,
		bundle:   func(arch, version string) ([]Part, error) { return ompBundle(name, pinned, arch, version) },
		dialects: allDialects(), log: "omp.txt",
		probe: providers.Command{Args: []string{runtimeDir + "/bun", "--version"}}, glibc: true, quirks: bunVariables(), misread: piLevels,
		options: []Option{
			{Name: "reasoning_effort", Doc: "how hard the model thinks", Values: []string{"", "off", "minimal", "low", "medium", "high", "xhigh", "max", "auto"}},
		},
		tools: true, skills: func(home, _ string) string { return home + "/skills" },
		files: func(j job) (map[string]string, error) {
			text, err := settings.Omp([]settings.Provider{j.settings(ownProvider)}, settings.Key{Variable: modelToken})
			files := map[string]string{"models.yml": text, "config.yml": ompConfig()}
			if len(j.Tools) > 0 {
				files["mcp.json"] = settings.ClaudeTools(j.Tools)
			}
			return files, err
		},
		command: ompCommand,
		outcome: func() outcome { return &piOutcome{} }, steps: piSteps,
	}
}

// ompBundle has of omp's modules those that a run without a terminal wants: its browser
// and models on the sandbox's own processor are not among them.
func ompBundle(name, pinned, arch, version string) ([]Part, error) {
	// of is one of omp's own packages, which share a version.
	of := func(module, integrity string) packages.Archive {
		return at(packages.Archive{Spec: "@oh-my-pi/" + module + "@%s", Integrity: integrity, Below: "package"}, version, pinned)
	}
	have := map[string]packages.Archives{"amd64": {
		".":                                 of("pi-coding-agent", "sha512-wc0JUWHoFiimpsn6JpC2aotZkB3gKzm7tunSAHcr1Kou8uVjt+WZIvGGcZMEFHIgEkX0NlNyHcbIL4NS/08n5Q=="),
		"node_modules/@oh-my-pi/pi-natives": of("pi-natives", "sha512-XLgoIR44VmlkpEm88mqUSoZwOcWGmRZ/DZk3bMhL60j6nTXYjMLSvJu0BXAbCOe33CyM2ZC8wH3FzKOTgXgjlA=="),
		"node_modules/@oh-my-pi/pi-natives-linux-x64": of("pi-natives-linux-x64", "sha512-fcZNEjY9Qydwmf0iJAKci5ZshhvHXbdtysJWNiSUKXdvg//R4FDBEYqZ04qz1PRPH0bas9jdXpM5BiW9E9hyxA=="),
		"node_modules/@babel/parser": {
			Spec:      "@babel/parser@7.29.7",
			Integrity: "sha512-hnORnjP/1P/zFEndoeX+n+t1RwWRJiJpM/jO7FW32Kn9r5+sJB2JWOdYo4L6k78j15eCwY3Gm/7364B1EMwtNg==", Below: "package",
		},
	}}
	from, ok := have[arch]
	if !ok {
		return nil, noPackage(name, arch, have)
	}
	bun := bunRuntime()
	runtime, err := bun.part(runtimeDir, arch, bun.pinned)
	return []Part{{bundleDir, packages.Package{Name: name + "-" + arch, Version: version, From: from}}, runtime}, err
}

// fromAnyHome leads to the root: omp takes its directory to be below the user's home,
// which need not be there, or be the user's to write.
const fromAnyHome = "../../../../../../../../../../../.."

func ompCommand(j job) providers.Command {
	args := []string{
		runtimeDir + "/bun", "--no-install", bundleDir + "/dist/cli.js",
		"--print", "--mode=json", "--no-session", "--no-title", "--model=" + ownProvider + "/" + j.Model,
	}
	if v := j.Options["reasoning_effort"]; v != "" {
		args = append(args, "--thinking="+v)
	}
	return providers.Command{
		Args: append(args, "--", j.Instruction),
		SecretEnv: map[string]string{
			modelToken: j.Token, "PI_CONFIG_DIR": fromAnyHome + j.Home, "PI_CODING_AGENT_DIR": j.Home, "BUN_RUNTIME_TRANSPILER_CACHE_PATH": "0",
		},
	}
}

// ompConfig is omp's config.yml: no look-ups, and no tool that wants a browser.
func ompConfig() string {
	return fmt.Sprintf(`startup: {checkUpdate: false}
marketplace: {autoUpdate: "off"}
browser: {enabled: false}
disabledProviders: [%s]
`, strings.Join(settings.OmpDisabled(), ", "))
}
