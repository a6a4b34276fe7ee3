// Package settings writes what coding agents read to find their models: pure
// functions of the auth proxy's routes, a token and names of models. The same
// functions serve agents in sandboxes and people who use a shared proxy by hand.
package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// Provider is one model API of the auth proxy.
type Provider struct {
	Name    string // under which the agent knows it: its models are Name/ID
	Dialect string // anthropic, openai, gemini or openrouter
	// Responses asks in OpenAI's newer format, where the dialect has two.
	Responses bool
	Base      string // of its route at the proxy, without a version
	Models    []Model
}

// Model is a model of a provider, by the name that the provider knows.
type Model struct {
	ID      string
	Context int64 // tokens that it takes; 0 is not known
	Output  int64 // tokens of an answer at most; 0 is not known
}

// Key is how settings get at the token.
type Key struct {
	Variable string // that holds it when the agent runs
	Text     string // the token itself, instead
}

// check finds what no settings can be made of.
func check(all []Provider) error {
	if len(all) == 0 {
		return errors.New("there is no upstream whose format the agent speaks")
	}
	for _, p := range all {
		if p.Name == "" || p.Base == "" || strings.Contains(p.Name, "/") || unprintable(p.Name) {
			return fmt.Errorf("provider %q at %q cannot be described", p.Name, p.Base)
		}
		for _, m := range p.Models {
			if m.ID == "" || unprintable(m.ID) {
				return fmt.Errorf("provider %s has a model %q: a name needs characters, and none that control a terminal", p.Name, m.ID)
			}
		}
	}
	return nil
}

// unprintable reports whether a name holds what not every format gives back: line
// breaks and their like.
func unprintable(name string) bool { return strings.ContainsFunc(name, unicode.IsControl) }

// versioned is the base URL for clients that want the version in it.
func (p Provider) versioned() string {
	if p.Dialect == "gemini" {
		return p.Base + "/v1beta"
	}
	return p.Base + "/v1"
}

// text is a document as people write JSON.
func text(doc any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(doc); err != nil {
		return "", err
	}
	return b.String(), nil
}

type object = map[string]any
