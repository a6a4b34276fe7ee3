package agents

import (
	"regexp"

	"harborgate/agents/packages"
	"harborgate/agents/settings"
	"harborgate/providers"
)

// pi is a small agent that speaks every format. It makes no look-ups when told to be
// offline, and its exit code says nothing.
func pi() facts {
	programs := onNode("pi", "1.6.0", packages.Archive{
		Spec:      "@earendil-works/pi-coding-agent@%s",
		Integrity: "sha512-zX1BVEsshx7A2MRuQ6jfr3RJGWw4Wn+vLq5ZfmlvS1RskhRmByaSZVXH/zcwRrWHO7qPgs98pNCbPOEti/t0fQ==", Below: "package",
	})
	programs.modules = packages.Archives{"node_modules/@silvia-odwyer/photon-node": { // without it, it leaves images out
		Spec:      "@silvia-odwyer/photon-node@0.3.4",
		Integrity: "sha512-bnly4BKB3KDTFxrUIcgCLbaeVVS8lrAkri1pEzskpmxu9MdfGQTy8b8EgcD83ywD3RPMsIulY8xJH5Awa+t9fA==", Below: "package",
	}}
	return facts{
		name: programs.name, doc: "pi, unmodified, from this host's cache", version: programs.pinned, bundle: programs.bundle,
		dialects: allDialects(), log: "pi.txt",
		probe: providers.Command{Args: []string{runtimeDir + "/node", "--version"}}, glibc: true, quirks: append(nodeVariables(), "PI_PACKAGE_DIR"), misread: piLevels,
		options: []Option{
			{Name: "reasoning_effort", Alias: "thinking", Doc: "how hard the model thinks", Values: []string{"", "off", "minimal", "low", "medium", "high", "xhigh", "max"}},
		},
		skills:  func(home, _ string) string { return home + "/skills" },
		files:   piFiles,
		command: piCommand,
		outcome: func() outcome { return &piOutcome{} }, steps: piSteps,
	}
}

// piLevels are what pi takes the end of a model's name for: how hard it is to think.
var piLevels = regexp.MustCompile(`:(off|minimal|low|medium|high|xhigh|max|auto)$`)

// piFiles has the provider that pi knows at another place, with all its models.
func piFiles(j job) (map[string]string, error) {
	p := j.settings(j.provider())
	if p.Name != ownProvider {
		p.Models = nil
	}
	text, err := settings.Pi([]settings.Provider{p}, settings.Key{Variable: modelToken})
	return file("models.json", text, err)
}

func piCommand(j job) providers.Command {
	args := append(node("dist/bundle/cli.js"), "--print", "--mode", "json", "--no-session", "--provider", j.provider(), "--model", j.Model)
	if v := j.Options["reasoning_effort"]; v != "" {
		args = append(args, "--thinking", v)
	}
	return providers.Command{
		Args: append(args, "--", j.Instruction),
		SecretEnv: map[string]string{
			modelToken: j.Token, "PI_CODING_AGENT_DIR": j.Home, "PI_OFFLINE": "1", "PI_TELEMETRY": "0", "NODE_DISABLE_COMPILE_CACHE": "1",
		},
	}
}
