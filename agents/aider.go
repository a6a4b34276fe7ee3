package agents

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"regexp"
	"strings"

	"harborgate/agents/packages"
	"harborgate/providers"
	"harborgate/trials"
)

//go:embed locks/aider.txt
var aiderLock string

// aider edits files by what the model writes, without tools. It tells nothing in a
// form of its own: its text is all that there is, and its exit code is always 0.
func aider() facts {
	program := wheels{"aider", "aider-chat", "0.86.2", packages.Interpreter{From: 10, Below: 13}, aiderLock}
	return facts{
		name: program.name, doc: "aider, unmodified, from this host's cache, with this host's Python", version: program.pinned, release: fullRelease, bundle: program.bundle,
		dialects: []string{"anthropic", "openai", "gemini"}, log: "aider.txt",
		probe: providers.Command{Args: []string{runtimeDir + "/" + packages.PythonProgram, "-c", "pass"}}, quirks: pythonVariables(),
		options: []Option{
			{Name: "reasoning_effort", Doc: "how hard the model thinks"},
			{Name: "thinking_tokens", Doc: "tokens of thinking at most", Type: integer},
			{Name: "map_tokens", Doc: "tokens of its map of the repository, 0 is no map", Type: integer},
			{Name: "test_cmd", Doc: "command that tests what it did"},
			{Name: "cache_prompts", Doc: "let the provider cache", Type: boolean},
			{Name: "auto_lint", Doc: "lint what it edited", Type: boolean},
			{Name: "auto_test", Doc: "run test_cmd behind edits", Type: boolean},
			{Name: "stream", Doc: "let the model answer piece by piece", Type: boolean},
		},
		files: aiderFiles, command: aiderCommand,
		outcome: func() outcome { return &aiderOutcome{} },
	}
}

// aiderSettings holds what every model is called with.
const aiderSettings = "models.yml"

func aiderFiles(j job) (map[string]string, error) {
	_, base := liteLLM(j)
	doc, err := json.Marshal([]any{map[string]any{"name": "aider/extra_params", "extra_params": map[string]string{"api_base": base}}})
	return map[string]string{aiderSettings: string(doc)}, err // JSON is YAML
}

// aiderStart gives aider the prices that it would look up outside, in a home that it
// can write to. It works in a repository that is there, and makes none; a name for
// commits that it will not make is in the environment, so that it does not write one
// down.
const aiderStart = `mkdir -p "$HOME/.aider/caches" 2>/dev/null || { export HOME="$1"; mkdir -p "$HOME/.aider/caches"; }
shift
cp "$0/litellm/model_prices_and_context_window_backup.json" "$HOME/.aider/caches/model_prices_and_context_window.json"
git=--no-git
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  git=--git
  git config user.email >/dev/null || export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=aider GIT_CONFIG_KEY_1=user.email GIT_CONFIG_VALUE_1=aider@localhost
fi
exec "$@" "$git"`

func aiderCommand(j job) providers.Command {
	model, _ := liteLLM(j)
	args := []string{
		"--yes-always", "--no-check-update", "--no-show-release-notes", "--analytics-disable", "--no-show-model-warnings", "--no-detect-urls",
		"--no-pretty", "--no-fancy-input", "--no-gitignore", "--no-auto-commits", "--no-dirty-commits",
		"--model=" + model, "--weak-model=" + model, "--editor-model=" + model, "--model-settings-file=" + j.Home + "/" + aiderSettings,
		"--input-history-file=" + j.LogsDir + "/aider.input.history", "--chat-history-file=" + j.LogsDir + "/aider.chat.history.md",
	}
	for _, o := range aider().options {
		flag := strings.ReplaceAll(o.Name, "_", "-")
		switch v := j.Options[o.Name]; {
		case v == "":
		case o.Type != boolean:
			args = append(args, "--"+flag+"="+v)
		case v == "true":
			args = append(args, "--"+flag)
		default:
			args = append(args, "--no-"+flag)
		}
	}
	instruction := j.Instruction
	if strings.HasPrefix(instruction, "/") || strings.HasPrefix(instruction, "!") {
		instruction = "\n" + instruction // otherwise a command of its own
	}
	return providers.Command{
		Args:      append([]string{"sh", "-c", aiderStart, bundleDir, j.Home}, python("aider", append(args, "--message="+instruction)...)...),
		SecretEnv: map[string]string{"LITELLM_LOCAL_MODEL_COST_MAP": "True", dialects()[j.Dialect].keys[0]: j.Token},
	}
}

// aiderOutcome reads the text. An answer is what has a line of tokens, which are
// rounded, and where the answer came in pieces aider's own count.
type aiderOutcome struct {
	answers int
	sum     used
	failure string
	rest    int  // lines that the failure may go on for
	nothing bool // the answer whose tokens are said next is none
}

// aiderNothing begins what aider says of an answer without a text. It goes on to say
// how many tokens that took, as of any answer.
const aiderNothing = "Empty response received from LLM"

// failureLines is how far a failure is read, which comes in lines of a terminal.
const failureLines = 4

// Lines of a model's answer are no lines of aider's: those begin like this.
var (
	aiderTokens = regexp.MustCompile(`^Tokens: (\S+) sent,(?: (\S+) cache write,)?(?: (\S+) cache hit,)? (\S+) received\.`)
	aiderCost   = regexp.MustCompile(`\$([0-9.]+) session`)
	aiderError  = regexp.MustCompile(`^litellm\.\w+|^` + aiderNothing + `|^Model \S+ has hit a token limit`)
)

func (o *aiderOutcome) line(b []byte) {
	if m := aiderCost.FindSubmatch(b); m != nil {
		o.sum.cost = dollars(amount(m[1], mostDollars))
	}
	m := aiderTokens.FindSubmatch(b)
	switch {
	case m != nil:
		if !o.nothing {
			o.failure = ""
		}
		o.answers, o.rest, o.nothing = o.answers+1, 0, false
		o.sum.add(used{in: aiderCount(m[1]) + aiderCount(m[3]), read: aiderCount(m[3]), out: aiderCount(m[4])})
	case aiderError.Match(b):
		o.failure, o.rest = string(bytes.TrimSpace(b)), failureLines
		o.nothing = bytes.HasPrefix(b, []byte(aiderNothing))
	case o.rest > 0:
		o.failure, o.rest = o.failure+" "+string(bytes.TrimSpace(b)), o.rest-1
	}
}

// aiderCount reads a number like "2.3k".
func aiderCount(b []byte) count {
	text, thousands := bytes.CutSuffix(b, []byte("k"))
	n := amount(text, mostTokens/1000)
	if thousands {
		n *= 1000
	}
	return count(n)
}

func (o *aiderOutcome) result() (trials.AgentResult, string) {
	var r trials.AgentResult
	if o.answers > 0 {
		r = o.sum.result()
	}
	r.CostUSD = o.sum.cost.known()
	if o.failure == "" && o.answers == 0 {
		return r, "it ended without an answer of the model"
	}
	return r, o.failure
}
