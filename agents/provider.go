package agents

import (
	"cmp"

	"harborgate/agents/settings"
)

// ownProvider is a provider that no agent knows.
const ownProvider = "harborgate"

// modelToken is the variable from which providers of ours take their key.
const modelToken = "HARBOR_MODEL_TOKEN"

// allDialects are those of agents that speak every format.
func allDialects() []string { return []string{"anthropic", "openai", "gemini", "openrouter"} }

// format is the one that an agent which speaks several has to speak: what was asked for,
// or what the vendor's own clients speak.
func (j job) format() string {
	usual := map[string]string{
		"anthropic":  "anthropic_messages",
		"openai":     "openai_responses",
		"gemini":     "google_generate_content",
		"openrouter": "openai_chat_completions",
	}
	return cmp.Or(j.Format, usual[j.Dialect])
}

// provider is the name of the job's model API with an agent that knows providers, and
// what their models can do. It knows each with one format: with another the API is a
// provider that it does not know.
func (j job) provider() string {
	known := map[string]string{"anthropic": "anthropic", "openai": "openai", "gemini": "google", "openrouter": "openrouter"}
	if j.Dialect == "openai" && j.format() != "openai_responses" {
		return ownProvider
	}
	return known[j.Dialect]
}

// settings is the job's model API as settings describe it.
func (j job) settings(name string) settings.Provider {
	return settings.Provider{
		Name: name, Dialect: j.Dialect, Responses: j.format() == "openai_responses", Base: j.Route, Models: []settings.Model{{ID: j.Model}},
	}
}

// file is a settings file alone.
func file(name, text string, err error) (map[string]string, error) {
	return map[string]string{name: text}, err
}
