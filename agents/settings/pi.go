package settings

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"gopkg.in/yaml.v3"
)

// catalog is models.json of pi, and models.yml of omp.
type catalog struct {
	Providers map[string]catalogProvider `json:"providers" yaml:"providers"`
}

type catalogProvider struct {
	BaseURL string         `json:"baseUrl" yaml:"baseUrl"`
	APIKey  string         `json:"apiKey" yaml:"apiKey"`
	API     string         `json:"api" yaml:"api"`
	Models  []catalogModel `json:"models" yaml:"models"`
}

type catalogModel struct {
	ID            string `json:"id" yaml:"id"`
	ContextWindow int64  `json:"contextWindow,omitempty" yaml:"contextWindow,omitempty"`
	MaxTokens     int64  `json:"maxTokens,omitempty" yaml:"maxTokens,omitempty"`
}

// Pi is ~/.pi/agent/models.json. The agent takes "$NAME" for a variable, and other
// texts as they are.
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

// OmpDisabled are providers that omp asks by itself, whatever models.yml says: for
// its config.yml, as disabledProviders.
func OmpDisabled() []string {
	return []string{
		"command-code", "commandcode", "kilo", "venice", "hyper", "charm-hyper", "zenmux", "alibaba-coding-plan", "ollama", "llama.cpp",
		"lm-studio", "google",
	}
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
	for _, p := range all {
		one := catalogProvider{BaseURL: p.versioned(), APIKey: key, API: "openai-completions", Models: []catalogModel{}}
		switch {
		case p.Dialect == "anthropic":
			one.BaseURL, one.API = p.Base, "anthropic-messages"
		case p.Dialect == "gemini":
			one.API = "google-generative-ai"
		case p.Responses:
			one.API = "openai-responses"
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
