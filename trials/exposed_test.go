package trials

import (
	"strings"
	"testing"
)

func TestLiteralKeyInAgentOptionsIsRefused(t *testing.T) {
	t.Parallel()
	const canary = "sk-canary-abcdefghijk"
	for name, c := range map[string]struct {
		kwargs Object[any]
		at     string // "" is nothing
	}{
		"nested":       {Object[any]{"opencode_config": map[string]any{"provider": map[string]any{"evil": map[string]any{"options": map[string]any{"apiKey": canary}}}}}, "kwargs.opencode_config.provider.evil.options.apiKey: "},
		"as text":      {Object[any]{"opencode_config": `{"provider":{"evil":{"options":{"apiKey":"` + canary + `"}}}}`}, "kwargs.opencode_config.provider.evil.options.apiKey: "},
		"in a list":    {Object[any]{"x": map[string]any{"tokens_of": "a", "secrets": []any{"${A}", canary}}}, "kwargs.x.secrets[1]: "},
		"itself":       {Object[any]{"api_key": canary}, "kwargs.api_key: "},
		"header":       {Object[any]{"x": map[string]any{"headers": map[string]any{"Authorization": "Bearer " + canary}}}, "kwargs.x.headers.Authorization: "},
		"reference":    {Object[any]{"x": map[string]any{"apiKey": "{env:A}", "Authorization": "Bearer {file:~/a}", "token": "${A}"}}, ""},
		"no text":      {Object[any]{"x": map[string]any{"setCacheKey": true, "keybinds": map[string]any{"leader": "ctrl+x"}, "max_tokens": 3, "apiKey": ""}}, ""},
		"not a secret": {Object[any]{"max_tokens": "4096", "command": "echo a"}, ""},
	} {
		job := NewJobConfig()
		job.Agents[0].Kwargs = c.kwargs
		var texts []string
		for _, e := range job.Validate() {
			texts = append(texts, e.Error())
		}
		got := strings.Join(texts, "\n")
		if strings.Contains(got, canary) || (c.at == "") != (got == "") || !strings.Contains(got, c.at) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
