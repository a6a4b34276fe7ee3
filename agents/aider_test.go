package agents

import (
	"os"
	"strings"
	"testing"
)

func TestAiderSaysWhatBecameOfItInItsText(t *testing.T) {
	t.Parallel()
	text := func(name string) string {
		b, err := os.ReadFile("testdata/aider-stdout-" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, c := range map[string]struct {
		text              string
		in, cache, output int64
		cost              float64
		failure           string
	}{
		"success":     {text("success"), 2300, 0, 25, 0.0032, ""},
		"401":         {text("401"), -1, -1, -1, 0, "0.000001 USD is left: lower max_tokens"},
		"cached":      {"Tokens: 12k sent, 20 cache write, 1.2k cache hit, 18 received. Cost: $0.01 message, $0.02 session.\n", 13200, 1200, 18, 0.02, ""},
		"twice":       {"Tokens: 100 sent, 1 received.\nTokens: 200 sent, 2 received.\n", 300, 0, 3, 0, ""},
		"again":       {"litellm.APIError: x\nRetrying in 0.2 seconds...\nTokens: 100 sent, 1 received.\n", 100, 0, 1, 0, ""},
		"in the end":  {"Tokens: 100 sent, 1 received.\nlitellm.RateLimitError: x\n", 100, 0, 1, 0, "litellm.RateLimitError"},
		"says errors": {"> litellm.APIError: that is what the task is about\nTokens: 100 sent, 1 received.\n", 100, 0, 1, 0, ""},
		"empty":       {"Empty response received from LLM. Check your provider account?\n\nTokens: 2.3k sent, 0 received. Cost: $0.01 message, $0.01 session.\n", 2300, 0, 0, 0.01, "Empty response received from LLM"},
		"empty first": {"Empty response received from LLM. Check your provider account?\nTokens: 100 sent, 0 received.\nTokens: 200 sent, 2 received.\n", 300, 0, 2, 0, ""},
		"nothing":     {"Aider v1\n", -1, -1, -1, 0, "without an answer"},
	} {
		o := aider().outcome()
		l := &lines{to: o.line}
		_, _ = l.Write([]byte(c.text))
		l.end()
		got, failure := o.result()
		if (failure == "") != (c.failure == "") || !strings.Contains(failure, c.failure) {
			t.Errorf("%s: failure %q, want %q", name, failure, c.failure)
		}
		if value(got.InputTokens) != c.in || value(got.CacheTokens) != c.cache || value(got.OutputTokens) != c.output {
			t.Errorf("%s: %d %d %d", name, value(got.InputTokens), value(got.CacheTokens), value(got.OutputTokens))
		}
		if (got.CostUSD != nil) != (c.cost > 0) || got.CostUSD != nil && *got.CostUSD != c.cost {
			t.Errorf("%s: cost %v", name, got.CostUSD)
		}
	}
}

func TestAiderIsStartedAsItsOptionsSay(t *testing.T) {
	t.Parallel()
	j := job{
		Instruction: "/app is broken", Base: "http://p/up", Dialect: "gemini", Token: "hgt", Model: "m", LogsDir: "/logs/agent", Home: "/h",
		Options: map[string]string{"auto_lint": "false", "cache_prompts": "true", "map_tokens": "0", "stream": ""},
	}
	cmd := aider().command(j)
	args := strings.Join(cmd.Args, " ")
	for _, part := range []string{
		"--no-auto-lint ", "--cache-prompts ", "--map-tokens=0 ", "--message=\n/app is broken", "--model=gemini/m ", "--weak-model=gemini/m ", "--no-auto-commits", "--no-gitignore",
	} {
		if !strings.Contains(args, part) {
			t.Errorf("no %q in %s", part, args)
		}
	}
	if strings.Contains(args, "stream") || strings.Contains(args, "hgt") || cmd.SecretEnv["GEMINI_API_KEY"] != "hgt" {
		t.Errorf("%s %v", args, cmd.SecretEnv)
	}
	if got := filesOf(t, aider(), j); !strings.Contains(got, `"api_base":"http://p/up/v1beta"`) {
		t.Errorf("settings %s", got)
	}
}
