package wire

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// always are the headers that pass to every upstream.
func always() []string {
	return []string{"Accept", "Content-Type", "User-Agent", "X-Stainless-*"}
}

// single are headers that mean different things to different programs when they
// come twice.
func single() []string {
	return []string{
		"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Content-Type", "Content-Length",
		"Anthropic-Version", "User-Agent", "Accept",
	}
}

// Outbound returns the headers that go to an upstream: the allowed ones, byte for
// byte, and none that carries a credential or belongs to a connection. What the
// Connection header names is not looked at: nothing passes because, or is kept
// back because, a client says so.
func (s Spec) Outbound(in http.Header) http.Header {
	out := make(http.Header, len(in))
	for name, values := range in {
		if s.passes(name) {
			out[name] = slices.Clone(values)
		}
	}
	out["Accept-Encoding"] = []string{"identity"}
	if _, ok := out["User-Agent"]; !ok {
		out["User-Agent"] = nil // or net/http would add its own
	}
	return out
}

func (s Spec) passes(name string) bool {
	fits := func(pattern string) bool {
		start, open := strings.CutSuffix(pattern, "*")
		return name == pattern || open && strings.HasPrefix(name, start)
	}
	return slices.ContainsFunc(always(), fits) || slices.ContainsFunc(s.Headers, fits)
}

// CheckHeader refuses headers that could be read in two ways.
func CheckHeader(h http.Header) error {
	for _, name := range single() {
		if len(h[name]) > 1 {
			return fmt.Errorf("the header %s comes more than once", name)
		}
	}
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return errors.New("the body is compressed; send it plain")
	}
	return nil
}

// Inbound are the headers of an answer that pass to the client. Anything about the
// account, its limits, cookies and other places to go stays here.
func Inbound(in http.Header) http.Header {
	out := make(http.Header, 8)
	for _, name := range []string{
		"Content-Type", "Cache-Control", "Request-Id", "X-Request-Id",
		"Retry-After", "Retry-After-Ms", "X-Should-Retry", "Openai-Processing-Ms", "Openai-Version",
	} {
		if v := in[name]; len(v) > 0 {
			out[name] = v[:1]
		}
	}
	return out
}

// Query returns what of a query passes upstream, and the keys that it carried.
func (s Spec) Query(raw string) (out string, keys []string, err error) {
	if raw == "" {
		return "", nil, nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return "", nil, errors.New("the query cannot be read")
	}
	passed := url.Values{}
	for name, list := range values {
		if name == "key" {
			keys = append(keys, list...)
		}
		if slices.Contains(s.Queries, name) && len(list) == 1 {
			passed[name] = list
		}
	}
	return passed.Encode(), keys, nil
}

// Credentials returns what a request carries in the places for keys, in no
// particular order. An Authorization header of another scheme is one as well.
func Credentials(h http.Header) []string {
	var out []string
	for _, name := range []string{"X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
		out = append(out, h[name]...)
	}
	for _, v := range h["Authorization"] {
		scheme, token, ok := strings.Cut(v, " ")
		if ok && strings.EqualFold(scheme, "Bearer") {
			v = strings.TrimSpace(token)
		}
		out = append(out, v)
	}
	return out
}

// Inject puts a key into its slot, replacing what was there.
func Inject(h http.Header, slot Slot, key string) {
	switch slot {
	case Bearer:
		h["Authorization"] = []string{"Bearer " + key}
	case XAPIKey:
		h["X-Api-Key"] = []string{key}
	case APIKey:
		h["Api-Key"] = []string{key}
	case XGoog:
		h["X-Goog-Api-Key"] = []string{key}
	case NoKey:
	}
}
