package settings

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// catalog is models.json of pi, and models.yml of omp.
type catalog struct {
	Providers map[string]catalogProvider `json:"providers" yaml:"providers"`
}

type catalogProvider struct {
	BaseURL string         `json:"baseUrl" yaml:"baseUrl"`
	APIKey  string         `json:"apiKey" yaml:"apiKey"`
	API     string         `json:"api,omitempty" yaml:"api"`
	Models  []catalogModel `json:"models,omitempty" yaml:"models"`
}

type catalogModel struct {
	ID            string `json:"id" yaml:"id"`
	ContextWindow int64  `json:"contextWindow,omitempty" yaml:"contextWindow,omitempty"`
	MaxTokens     int64  `json:"maxTokens,omitempty" yaml:"maxTokens,omitempty"`
}

// Pi is ~/.pi/agent/models.json. The agent takes "$NAME" for a variable, and other
// texts as they are. A provider without models is one that it knows, and keeps its
// models.
func Pi(all []Provider, k Key) (string, error) {
	c, err := catalogOf(all, k.or("$"+k.Variable))
	if err != nil {
		return "", err
	}
	return text(c)
}

// Omp is ~/.omp/agent/models.yml. The agent takes the name of a variable for the
// variable if there is one, and other texts as they are. What it cannot use it
// passes over in silence, so that is an error here.
func Omp(all []Provider, k Key) (string, error) {
	c, err := catalogOf(all, k.or(k.Variable))
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	const indent = 2
	e.SetIndent(indent)
	if err := errors.Join(e.Encode(c), e.Close()); err != nil {
		return "", err
	}
	return b.String(), CheckOmp(b.Bytes())
}

// OmpDisabled are the providers that omp knows: for its config.yml, as
// disabledProviders. Each of them looks for models by itself when omp starts, whatever
// models.yml says, some with the token, and all share one catalogue.
func OmpDisabled() []string {
	return strings.Fields(`
		abliteration aiand aimlapi alibaba-coding-plan alibaba-token-plan amazon-bedrock anthropic azure
		baseten bedrock-mantle cerebras charm-hyper cline-pass cloudflare-ai-gateway command-code
		commandcode coreweave cursor deepinfra deepseek devin firepass fireworks github-copilot gitlab-duo
		gitlab-duo-agent gmi-cloud google google-antigravity google-gemini-cli google-vertex groq
		huggingface hyper kilo kimi-code litellm llama.cpp lm-studio meta minimax minimax-cn minimax-code
		minimax-code-cn mistral moonshot muse-code nanogpt novita nvidia ollama ollama-cloud openai
		openai-codex opencode-go opencode-zen openrouter qianfan qwen-portal sakana siliconflow synthetic
		together umans venice vercel-ai-gateway vllm wafer-serverless xai xai-oauth xiaomi
		xiaomi-token-plan-ams xiaomi-token-plan-cn xiaomi-token-plan-sgp yolo-auto zai zenmux
		zhipu-coding-plan`)
}

func (k Key) or(reference string) string {
	if k.Text != "" {
		return k.Text
	}
	return reference
}

func catalogOf(all []Provider, key string) (catalog, error) {
	c := catalog{map[string]catalogProvider{}}
	if err := check(all); err != nil {
		return c, err
	}
	if unprintable(key) { // no grant has such, and YAML does not give each of them back
		return c, errors.New("the token has characters that no header can carry")
	}
	for _, p := range all {
		one := catalogProvider{BaseURL: p.versioned(), APIKey: key, API: "openai-completions"}
		switch {
		case p.Dialect == "anthropic":
			one.BaseURL, one.API = p.Base, "anthropic-messages"
		case p.Dialect == "gemini":
			one.API = "google-generative-ai"
		case p.Responses:
			one.API = "openai-responses"
		}
		if len(p.Models) == 0 {
			one.API = ""
		}
		for _, m := range p.Models {
			one.Models = append(one.Models, catalogModel{m.ID, m.Context, m.Output})
		}
		c.Providers[p.Name] = one
	}
	return c, nil
}

// CheckOmp finds what omp would not take of a models.yml as Omp writes them.
func CheckOmp(doc []byte) error {
	var c catalog
	d := yaml.NewDecoder(bytes.NewReader(doc))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		return fmt.Errorf("models.yml: %w", err)
	}
	if len(c.Providers) == 0 {
		return errors.New("models.yml: it has no providers")
	}
	for name, p := range c.Providers {
		u, err := url.Parse(p.BaseURL)
		switch {
		case err != nil || u.Host == "":
			return fmt.Errorf("models.yml: providers.%s.baseUrl: %q is no URL", name, p.BaseURL)
		case p.APIKey == "" || p.APIKey[0] == '!': // that would be run
			return fmt.Errorf("models.yml: providers.%s.apiKey is neither a variable nor a token", name)
		case !slices.Contains([]string{"openai-completions", "openai-responses", "anthropic-messages", "google-generative-ai"}, p.API):
			return fmt.Errorf("models.yml: providers.%s.api: %q is none", name, p.API)
		case len(p.Models) == 0:
			return fmt.Errorf("models.yml: providers.%s has no models", name)
		}
		for i, m := range p.Models {
			if m.ID == "" || m.ContextWindow < 0 || m.MaxTokens < 0 {
				return fmt.Errorf("models.yml: providers.%s.models[%d] has no name, or a negative size", name, i)
			}
		}
	}
	return nil
}
