package probe

import (
	"encoding/json"
	"net/url"
	"strings"

	"harborgate/authproxy"
)

// choose is the model to ask for: the first that an upstream lists by name, or a
// small one of its provider. Empty is none known.
func choose(u authproxy.UpstreamStatus) string {
	for _, m := range u.Models {
		if !strings.HasSuffix(m, "*") {
			return m
		}
	}
	small, host := map[string][2]string{
		"anthropic":  {"api.anthropic.com", "claude-haiku-4-5"},
		"openai":     {"api.openai.com", "gpt-5-nano"},
		"gemini":     {"generativelanguage.googleapis.com", "gemini-2.5-flash-lite"},
		"openrouter": {"openrouter.ai", "openai/gpt-5-nano"},
	}[u.Dialect], ""
	if b, err := url.Parse(u.Base); err == nil {
		host = b.Hostname()
	}
	if host != small[0] { // a server of its own has models of its own
		return ""
	}
	return small[1]
}

// tokens is how many an answer may have: the least that every model takes.
const tokens = 16

// tiny is the path and body of the smallest request of a dialect.
func tiny(u authproxy.UpstreamStatus, model string) (path, body string) {
	type object = map[string]any
	hi := []any{object{"role": "user", "content": "hi"}}
	var doc object
	switch u.Dialect {
	case "anthropic":
		path, doc = "/v1/messages", object{"model": model, "max_tokens": tokens, "messages": hi}
	case "gemini":
		path = "/v1beta/models/" + model + ":generateContent"
		doc = object{
			"contents":         []any{object{"role": "user", "parts": []any{object{"text": "hi"}}}},
			"generationConfig": object{"maxOutputTokens": tokens},
		}
	default:
		most := "max_tokens"
		if strings.HasPrefix(u.Base, "https://api.openai.com/") { // its newer models know no other
			most = "max_completion_tokens"
		}
		path, doc = "/v1/chat/completions", object{"model": model, most: tokens, "messages": hi}
	}
	text, err := json.Marshal(doc)
	if err != nil {
		panic(err) // strings and numbers always have a form in JSON
	}
	return path, string(text)
}
