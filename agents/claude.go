package agents

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"

	"harborgate/agents/packages"
	"harborgate/agents/settings"
	"harborgate/providers"
	"harborgate/trials"
)

// claudeCode is Anthropic's command line agent. It speaks to nobody but its base
// URL when told so, works as root when told that it is in a sandbox, and never
// waits for standard input for long.
func claudeCode() facts {
	programs := native{"claude-code", "2.1.332", map[string]packages.Archive{
		"amd64": {Spec: "@anthropic-ai/claude-code-linux-x64@%s", Integrity: "sha512-f4JWhzwYutJIHScC7/dYOPX6s28tt7ZADhsOi8zwOHq5fFPEuUeChh2NMfinSg0GrUckYxaeebC4h0DqiKzLcw==", Below: "package"},
		"arm64": {Spec: "@anthropic-ai/claude-code-linux-arm64@%s", Integrity: "sha512-BlHNEtK38KBPWU31F4lUSS9sHclCyfWbThT1CErvxxH8+XcljYLZlQwdyXBkTD62rw1TgfE1u1a+quMWS0NSJg==", Below: "package"},
	}}
	return facts{
		name: programs.name, doc: "Anthropic's Claude Code, unmodified, from this host's cache", version: programs.pinned, bundle: programs.bundle,
		dialects: []string{"anthropic"}, log: "claude-code.txt",
		asks: func(model string) string { return claudeWindow.ReplaceAllString(model, "") }, probe: providers.Command{Args: []string{bundleDir + "/claude", "--version"}}, glibc: true, quirks: bunVariables(),
		ways: []string{
			"CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY", "CLAUDE_CODE_USE_MANTLE", "CLAUDE_CODE_USE_GATEWAY",
			"CLAUDE_CODE_USE_ANTHROPIC_AWS", "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD", "ANTHROPIC_UNIX_SOCKET", "CLAUDE_CODE_API_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN",
		},
		options: []Option{
			{Name: "max_turns", Doc: "turns at most", Type: integer, Least: 1},
			{Name: "reasoning_effort", Doc: "how hard the model thinks", Values: []string{"", "low", "medium", "high", "xhigh", "max"}},
			{Name: "append_system_prompt", Doc: "text behind the system prompt"},
			{Name: "allowed_tools", Doc: "tools that it may use"},
			{Name: "disallowed_tools", Doc: "tools that it may not use"},
		},
		tools: true, skills: func(_, logsDir string) string { return logsDir + "/sessions/skills" },
		files: claudeFiles, command: claudeCommand,
		outcome: func() outcome { return &claudeOutcome{} }, steps: claudeSteps,
	}
}

// claudeWindow is the end of a model's name that asks Claude Code for a larger context.
// The provider is told so otherwise, and gets the name without it.
var claudeWindow = regexp.MustCompile(`(?i)\[[12]m\]$`)

// claudeFlags are options that are passed on, with their flags.
var claudeFlags = []struct{ option, flag string }{
	{"max_turns", "--max-turns"}, {"reasoning_effort", "--effort"}, {"append_system_prompt", "--append-system-prompt"},
	{"allowed_tools", "--allowedTools"}, {"disallowed_tools", "--disallowedTools"},
}

// claudeTools is the file of the MCP servers.
const claudeTools = "mcp.json"

func claudeFiles(j job) (map[string]string, error) {
	if len(j.Tools) == 0 {
		return nil, nil
	}
	return map[string]string{claudeTools: settings.ClaudeTools(j.Tools)}, nil
}

func claudeCommand(j job) providers.Command {
	args := []string{
		bundleDir + "/claude", "--verbose", "--output-format=stream-json", "--permission-mode=bypassPermissions", "--model", j.Model,
	}
	for _, f := range claudeFlags {
		if v := j.Options[f.option]; v != "" {
			args = append(args, f.flag, v)
		}
	}
	if len(j.Tools) > 0 {
		args = append(args, "--mcp-config", j.Home+"/"+claudeTools)
	}
	return providers.Command{
		Args: append(args, "--print", "--", j.Instruction),
		SecretEnv: map[string]string{
			"ANTHROPIC_BASE_URL": j.Base, "ANTHROPIC_API_KEY": j.Token, "ANTHROPIC_AUTH_TOKEN": "", // both set would both be sent
			"IS_SANDBOX": "1", "CLAUDE_CONFIG_DIR": j.LogsDir + "/sessions", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
			"DISABLE_AUTOUPDATER": "1", "FORCE_AUTO_BACKGROUND_TASKS": "1", "ENABLE_BACKGROUND_TASKS": "1",
			"ANTHROPIC_DEFAULT_SONNET_MODEL": j.Model, "ANTHROPIC_DEFAULT_OPUS_MODEL": j.Model, "ANTHROPIC_DEFAULT_HAIKU_MODEL": j.Model,
			"CLAUDE_CODE_SUBAGENT_MODEL": j.Model,
		},
	}
}

// claudeOutcome reads the result line. Its subtype says "success" also when nothing
// worked: is_error is what counts.
type claudeOutcome struct {
	last struct {
		Type    string       `json:"type"`
		IsError bool         `json:"is_error"`
		Result  string       `json:"result"`
		Errors  []string     `json:"errors"` // in place of a result, as for a limit of turns
		Cost    dollars      `json:"total_cost_usd"`
		Usage   *claudeUsage `json:"usage"`
	}
}

type claudeUsage struct {
	Input      count `json:"input_tokens"`
	CacheRead  count `json:"cache_read_input_tokens"`
	CacheWrite count `json:"cache_creation_input_tokens"`
	Output     count `json:"output_tokens"`
}

func (u claudeUsage) used() used {
	return used{in: u.Input + u.CacheRead + u.CacheWrite, read: u.CacheRead, out: u.Output}
}

func (o *claudeOutcome) line(b []byte) {
	was := o.last
	o.last.Usage, o.last.Cost, o.last.Errors = nil, 0, nil
	if json.Unmarshal(b, &o.last) != nil || o.last.Type != "result" {
		o.last = was
	}
}

func (o *claudeOutcome) result() (trials.AgentResult, string) {
	var r trials.AgentResult
	if o.last.Type == "" {
		return r, "it ended without a result"
	}
	if u := o.last.Usage; u != nil {
		r = u.used().result()
	}
	r.CostUSD = o.last.Cost.known()
	if o.last.IsError {
		return r, cmp.Or(o.last.Result, strings.Join(o.last.Errors, "; "), "its result is an error")
	}
	return r, ""
}
