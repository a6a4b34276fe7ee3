package settings

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Codex is ~/.codex/config.toml. Its token comes from a variable; model is "" where
// there is none to choose.
func Codex(all []Provider, k Key, model string) (string, error) {
	if err := check(all); err != nil {
		return "", err
	}
	if k.Variable == "" {
		return "", errors.New("codex takes its token from a variable alone")
	}
	type provider struct {
		Name    string `toml:"name"`
		BaseURL string `toml:"base_url"`
		EnvKey  string `toml:"env_key"`
		Wire    string `toml:"wire_api"`
	}
	doc := struct {
		Model     string              `toml:"model,omitempty"`
		Provider  string              `toml:"model_provider"`
		Providers map[string]provider `toml:"model_providers"`
	}{model, all[0].Name, map[string]provider{}}
	for _, p := range all {
		doc.Providers[p.Name] = provider{p.Name, p.versioned(), k.Variable, "responses"}
	}
	out, err := toml.Marshal(doc)
	return string(out), err
}

// OpenCode is ~/.config/opencode/opencode.json. model, and the one for titles, are
// left to the user where model is "".
func OpenCode(all []Provider, k Key, model string, tools ...Tool) (string, error) {
	if err := check(all); err != nil {
		return "", err
	}
	providers := object{}
	for _, p := range all {
		kit := "@ai-sdk/openai-compatible"
		switch {
		case p.Dialect == "anthropic":
			kit = "@ai-sdk/anthropic"
		case p.Dialect == "gemini":
			kit = "@ai-sdk/google"
		case p.Dialect == "openrouter":
			kit = "@openrouter/ai-sdk-provider"
		case p.Responses:
			kit = "@ai-sdk/openai"
		}
		models := object{}
		for _, m := range p.Models {
			models[m.ID] = openCodeModel(m)
		}
		providers[p.Name] = object{
			"npm": kit, "name": p.Name, "models": models,
			"options": object{"baseURL": p.versioned(), "apiKey": k.or("{env:" + k.Variable + "}")},
		}
	}
	doc := object{"$schema": "https://opencode.ai/config.json", "provider": providers, "autoupdate": false, "share": "disabled"}
	if model != "" {
		doc["model"], doc["small_model"] = model, model
	}
	if len(tools) > 0 {
		doc["mcp"] = openCodeTools(tools)
	}
	return text(doc)
}

func openCodeModel(m Model) object {
	if m.Context == 0 || m.Output == 0 { // it wants both or none
		return object{"name": m.ID}
	}
	return object{"name": m.ID, "limit": object{"context": m.Context, "output": m.Output}}
}

// Gemini is ~/.gemini/settings.json. Base URL and token are variables: see Variables.
func Gemini(model string, tools ...Tool) (string, error) {
	return quietly("gemini-api-key", model, tools)
}

// Qwen is ~/.qwen/settings.json. Base URL and token are variables: see Variables.
func Qwen(model string, tools ...Tool) (string, error) {
	return quietly("openai", model, tools)
}

// quietly are the settings that gemini-cli and its descendant share: without the kind
// of authentication they do not start.
func quietly(auth, model string, tools []Tool) (string, error) {
	doc := object{
		"security": object{"auth": object{"selectedType": auth}},
		"privacy":  object{"usageStatisticsEnabled": false},
		"general":  object{"enableAutoUpdate": false},
	}
	if model != "" {
		doc["model"] = object{"name": model}
	}
	if len(tools) > 0 {
		doc["mcpServers"] = geminiTools(tools)
	}
	return text(doc)
}

// Claude is ~/.claude/settings.json. A variable is read by a command of the agent's.
func Claude(p Provider, k Key, model string) (string, error) {
	if err := check([]Provider{p}); err != nil {
		return "", err
	}
	env := object{"ANTHROPIC_BASE_URL": p.Base}
	doc := object{"env": env}
	if k.Text != "" {
		env["ANTHROPIC_AUTH_TOKEN"] = k.Text
	} else {
		doc["apiKeyHelper"] = "printenv " + k.Variable
	}
	if model != "" {
		doc["model"] = model
	}
	return text(doc)
}

// Variables are lines for a shell that set variables of agents. A value that is
// "$NAME" for the key's variable refers to it.
func Variables(values map[string]string, k Key) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v := "'" + strings.ReplaceAll(values[name], "'", `'\''`) + "'"
		if k.Text == "" && values[name] == "$"+k.Variable {
			v = `"` + values[name] + `"`
		}
		b.WriteString("export " + name + "=" + v + "\n")
	}
	return b.String()
}
