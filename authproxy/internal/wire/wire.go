// Package wire holds the facts about model APIs that the proxy acts on, as tables
// and pure functions: which methods and paths a dialect has, what of a request may
// pass, what a body asks for, what an answer says it used, how long a provider
// wants to be left alone, and what an error of each provider looks like. It does
// no I/O and keeps no state.
package wire

import (
	"slices"
	"strings"
)

// Dialect is a family of APIs.
type Dialect string

// The dialects that are spoken.
const (
	Anthropic  Dialect = "anthropic"
	OpenAI     Dialect = "openai"
	Gemini     Dialect = "gemini"
	OpenRouter Dialect = "openrouter"
)

// Slot is where clients of a provider put their key.
type Slot string

// The slots. Bearer is the Authorization header with that scheme.
const (
	Bearer  Slot = "bearer"
	XAPIKey Slot = "x-api-key"
	APIKey  Slot = "api-key"
	XGoog   Slot = "x-goog-api-key"
	NoKey   Slot = "none" // an upstream that asks for none
)

// Slots are those that an upstream may use.
func Slots() []Slot { return []Slot{Bearer, XAPIKey, APIKey, XGoog, NoKey} }

// Format is what a request and its answer look like.
type Format int

// The formats. Meta is that of routes without usage.
const (
	Meta       Format = iota
	Messages          // Anthropic
	Chat              // OpenAI chat completions, and the older completions
	Responses         // OpenAI
	Embeddings        // OpenAI
	Generate          // Gemini
)

// Cost says who answers a route, and who pays.
type Cost int

// The costs of routes.
const (
	Billed Cost = iota // forwarded and metered
	Free               // forwarded, not billed by the provider
	Local              // answered by the proxy itself
)

// Route is one method and path of a dialect.
type Route struct {
	Method string
	Path   string // with {model} where the path names one
	Format Format
	Cost   Cost
	Sink   bool // Local, and answered with nothing: telemetry
}

// Spec is what there is to know about a dialect.
type Spec struct {
	Slot    Slot   // where its key goes unless the upstream says otherwise
	Default string // base URL
	Version string // leading part of the routes' paths that the base URL holds already
	Queries []string
	Headers []string // that pass beside those of every dialect; a final * is any rest
	Routes  []Route
}

// SpecOf returns what there is to know about d.
func SpecOf(d Dialect) (Spec, bool) {
	switch d {
	case Anthropic:
		return anthropicSpec(), true
	case OpenAI:
		return openAISpec(), true
	case Gemini:
		return geminiSpec(), true
	case OpenRouter:
		return openRouterSpec(), true
	}
	return Spec{}, false
}

// Unsupported says why a dialect that exists elsewhere is refused, empty for names
// that mean nothing.
func Unsupported(d Dialect) string {
	switch d {
	case "vertex":
		return "Vertex AI needs tokens of a service account, which are not supported yet; use the Gemini API with dialect gemini"
	case "bedrock":
		return "Bedrock needs signed requests, which are not supported yet; use the provider's own API"
	}
	return ""
}

func anthropicSpec() Spec {
	return Spec{
		Slot: XAPIKey, Default: "https://api.anthropic.com",
		Queries: []string{"beta"},
		Headers: []string{"Anthropic-*", "X-Claude-Code-*", "X-App"},
		Routes: []Route{
			{"POST", "/v1/messages", Messages, Billed, false},
			{"POST", "/v1/messages/count_tokens", Meta, Free, false},
			{"GET", "/v1/models", Meta, Local, false},
			{"GET", "/v1/models/{model}", Meta, Local, false},
			{"HEAD", "/api/hello", Meta, Local, false},
			{"POST", "/api/event_logging/batch", Meta, Local, true},
			{"POST", "/api/event_logging/v2/batch", Meta, Local, true},
		},
	}
}

func openAISpec() Spec {
	return Spec{
		Slot: Bearer, Default: "https://api.openai.com/v1", Version: "/v1",
		Headers: []string{"Openai-Beta", "Originator", "Session-Id", "Thread-Id", "X-Client-Request-Id", "X-Codex-*"},
		Routes: []Route{
			{"POST", "/v1/chat/completions", Chat, Billed, false},
			{"POST", "/v1/completions", Chat, Billed, false},
			{"POST", "/v1/responses", Responses, Billed, false},
			{"POST", "/v1/responses/compact", Responses, Billed, false},
			{"POST", "/v1/responses/input_tokens", Meta, Free, false},
			{"POST", "/v1/embeddings", Embeddings, Billed, false},
			{"GET", "/v1/models", Meta, Local, false},
			{"GET", "/v1/models/{model}", Meta, Local, false},
		},
	}
}

func openRouterSpec() Spec {
	return Spec{
		Slot: Bearer, Default: "https://openrouter.ai/api/v1", Version: "/v1",
		Headers: []string{"Http-Referer", "X-Title", "Anthropic-*"},
		Routes: []Route{
			{"POST", "/v1/chat/completions", Chat, Billed, false},
			{"POST", "/v1/responses", Responses, Billed, false},
			{"POST", "/v1/messages", Messages, Billed, false},
			{"POST", "/v1/embeddings", Embeddings, Billed, false},
			{"GET", "/v1/models", Meta, Local, false},
		},
	}
}

func geminiSpec() Spec {
	s := Spec{
		Slot: XGoog, Default: "https://generativelanguage.googleapis.com",
		Queries: []string{"alt"},
		Headers: []string{"X-Goog-Api-Client"},
	}
	for _, v := range []string{"/v1beta", "/v1"} {
		s.Routes = append(s.Routes, []Route{
			{"POST", v + "/models/{model}:generateContent", Generate, Billed, false},
			{"POST", v + "/models/{model}:streamGenerateContent", Generate, Billed, false},
			{"POST", v + "/models/{model}:embedContent", Generate, Billed, false},
			{"POST", v + "/models/{model}:batchEmbedContents", Generate, Billed, false},
			{"POST", v + "/models/{model}:countTokens", Meta, Free, false},
			{"GET", v + "/models", Meta, Local, false},
			{"GET", v + "/models/{model}", Meta, Local, false},
		}...)
	}
	return s
}

// Match finds the route of a method and a path. model is what the path names.
// known reports whether the path exists with another method.
func (s Spec) Match(method, path string) (r Route, model string, ok, known bool) {
	for _, r := range s.Routes {
		model, fits := fit(r.Path, path)
		if !fits {
			continue
		}
		if r.Method == method {
			return r, model, true, true
		}
		known = true
	}
	return Route{}, "", false, known
}

// fit holds a path against a pattern with at most one {model}.
func fit(pattern, path string) (model string, ok bool) {
	before, after, named := strings.Cut(pattern, "{model}")
	if !named {
		return "", pattern == path
	}
	rest, ok := strings.CutPrefix(path, before)
	if !ok {
		return "", false
	}
	model, ok = strings.CutSuffix(rest, after)
	if !ok || !isModel(model) {
		return "", false
	}
	return model, true
}

// Carries reports whether requests can name a model: what is a part of a path cannot
// be any text.
func (s Spec) Carries(model string) bool {
	return isModel(model) || !slices.ContainsFunc(s.Routes, func(r Route) bool { return r.Cost == Billed && strings.Contains(r.Path, "{model}") })
}

// isModel reports whether s may be a model's name within a path: one segment, and
// no method behind a colon.
func isModel(s string) bool {
	const most = 128
	if s == "" || len(s) > most {
		return false
	}
	for i := range len(s) {
		if !isWord(s[i]) && s[i] != '.' && s[i] != '@' {
			return false
		}
	}
	return s != "." && s != ".."
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// CleanPath reports whether a path as it came is one that no two programs read
// differently: ASCII, absolute, no escapes, no parameters, no empty or dotted
// segments.
func CleanPath(p string) bool {
	if p == "" || p[0] != '/' {
		return false
	}
	for i := range len(p) {
		if c := p[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`%\;?#"<>^|{}`+"`", c) >= 0 {
			return false
		}
	}
	segments := strings.Split(p[1:], "/")
	return !slices.ContainsFunc(segments, func(s string) bool { return s == "" || s == "." || s == ".." })
}
