package agents

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"harborgate/agents/packages"
	"harborgate/agents/settings"
	"harborgate/providers"
	"harborgate/trials"
)

// codex is OpenAI's command line agent. Its built-in provider has ways past a base
// URL, so it gets one of its own, by flags alone.
func codex() facts {
	programs := native{"codex", "0.171.0", map[string]packages.Archive{
		"amd64": {Spec: "@openai/codex@%s-linux-x64", Integrity: "sha512-l66NZkQgdk2C3pbcfULDz42yEUB581MVA6I+Y43Wp4OIqEy73HCdmZ0GTjeAHY2ycuH4N00d9VsLrwT1jxshTw==", Below: "package/vendor/x86_64-unknown-linux-musl"},
		"arm64": {Spec: "@openai/codex@%s-linux-arm64", Integrity: "sha512-9z17t4bbUJ9UCIb49O4PoA+ki+45q3rd8nZ8PeH6sYnlKkBld/Xpo/OS3h3Ti954+foshX4o7k5TCU8N7zzqQA==", Below: "package/vendor/aarch64-unknown-linux-musl"},
	}}
	return facts{
		name: programs.name, doc: "OpenAI's Codex CLI, unmodified, from this host's cache", version: programs.pinned, bundle: programs.bundle,
		dialects: []string{"openai"}, searches: true, log: "codex.txt",
		probe: providers.Command{Args: []string{bundleDir + "/bin/codex", "--version"}},
		options: []Option{
			{Name: "reasoning_effort", Doc: "how hard the model thinks", Default: "high"},
			{Name: "reasoning_summary", Doc: "summary of the thinking", Values: []string{"", "auto", "concise", "detailed", "none"}},
		},
		command: codexCommand,
		outcome: func() outcome { return &codexOutcome{} }, steps: codexSteps, dir: codexHome,
		tools: true, skills: func(_, _ string) string { return "~/.agents/skills" },
	}
}

// codexHome is where it keeps its sessions, below the agent's logs. It wants it made.
const codexHome = "codex-home"

func codexCommand(j job) providers.Command {
	provider := fmt.Sprintf(`model_providers.harborgate={name="harborgate",base_url=%s,env_key=%q,wire_api="responses"}`, strconv.Quote(j.Base), modelToken)
	flags := []string{
		provider, `model_provider="harborgate"`, "check_for_update_on_startup=false", "analytics.enabled=false",
		"features.plugins=false", "features.apps=false",
	}
	for _, option := range []string{"reasoning_effort", "reasoning_summary"} {
		if v := j.Options[option]; v != "" {
			flags = append(flags, "model_"+option+"="+strconv.Quote(v))
		}
	}
	tools, env := settings.CodexTools(j.Tools)
	if len(j.Tools) > 0 {
		flags = append(flags, "mcp_servers="+tools)
	}
	maps.Copy(env, map[string]string{modelToken: j.Token, "CODEX_HOME": j.LogsDir + "/" + codexHome, "OPENAI_API_KEY": j.Token, "OPENAI_BASE_URL": j.Base})
	args := []string{bundleDir + "/bin/codex", "exec", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check", "--json", "--model", j.Model}
	for _, f := range flags {
		args = append(args, "-c", f)
	}
	return providers.Command{Args: append(args, "--", j.Instruction), SecretEnv: env}
}

// codexOutcome sums the turns, and keeps the failure of the last one.
type codexOutcome struct {
	turns   int
	sum     used
	failure string
}

func (o *codexOutcome) line(b []byte) {
	var e struct {
		Type  string `json:"type"`
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
		Usage struct {
			Input  count `json:"input_tokens"` // with what was cached
			Cached count `json:"cached_input_tokens"`
			Output count `json:"output_tokens"` // with reasoning
		} `json:"usage"`
	}
	if json.Unmarshal(b, &e) != nil {
		return
	}
	switch e.Type {
	case "turn.completed":
		o.turns++
		o.failure = ""
		o.sum.add(used{in: e.Usage.Input, read: e.Usage.Cached, out: e.Usage.Output})
	case "turn.failed":
		o.failure = e.Error.Message
	}
}

func (o *codexOutcome) result() (trials.AgentResult, string) {
	var r trials.AgentResult
	if o.turns > 0 {
		r = o.sum.result()
	}
	if o.failure == "" && o.turns == 0 {
		return r, "it ended without completing a turn"
	}
	return r, o.failure
}
