package app

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"harborgate/authproxy"
	"harborgate/configs"
	"harborgate/tasks"
)

// known is a provider of models whose key people have in their shells. Who has
// configured no upstream of its dialect gets one from there.
type known struct {
	name string   // of the upstream and of its dialect, and of the provider in model names
	keys []string // variables of the host that hold its key
	urls []string // variables that may hold its base URL
	// agentKeys are further variables that agents know, and people rather give to
	// them than have in their shells.
	agentKeys []string
}

// bearerKeys are variables whose key goes into the Authorization header.
func bearerKeys() []string { return []string{"ANTHROPIC_AUTH_TOKEN"} }

func knownProviders() []known {
	return []known{
		{name: "anthropic", keys: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"}, urls: []string{"ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"}},
		{name: "openai", keys: []string{"OPENAI_API_KEY"}, urls: []string{"OPENAI_BASE_URL", "OPENAI_API_BASE"}, agentKeys: []string{"CODEX_API_KEY"}},
		{
			name: "gemini", keys: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"},
			urls: []string{"GOOGLE_GEMINI_BASE_URL", "GOOGLE_BASE_URL", "GEMINI_API_BASE"},
		},
		{name: "openrouter", keys: []string{"OPENROUTER_API_KEY"}, urls: []string{"OPENROUTER_BASE_URL", "OPENROUTER_API_BASE"}},
	}
}

// ProxyConfig is what the auth proxy serves: upstreams and budgets of config.yaml,
// and for each well-known provider of which none is configured and whose key is
// in the environment, that one. No key is read.
func ProxyConfig(h configs.Host, lookup func(string) (string, bool)) (authproxy.Config, error) {
	c := authproxy.Config{Upstreams: map[string]authproxy.Upstream{}}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(h.Upstreams)) {
		one, err := parseBlock(h.Upstreams[name], "upstreams", name)
		errs = append(errs, err)
		maps.Copy(c.Upstreams, one.Upstreams)
	}
	if !h.Budgets.IsZero() {
		b, err := parseBlock(h.Budgets, "budgets", "")
		errs = append(errs, err)
		c.Budgets = b.Budgets
	}
	configured := map[string]bool{}
	for _, u := range c.Upstreams {
		configured[string(u.Dialect)] = true
	}
	for _, p := range knownProviders() {
		if _, taken := c.Upstreams[p.name]; taken || configured[p.name] {
			continue
		}
		u, ok := p.upstream(lookup)
		if !ok {
			continue
		}
		c.Upstreams[p.name] = u
		if err := problem(u); err != nil {
			errs = append(errs, fmt.Errorf("%s in the environment: %w", firstSet(lookup, p.urls), err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return authproxy.Config{}, err
	}
	return c, c.Validate()
}

// parseBlock reads one entry of a block with the proxy's own reader.
func parseBlock(b configs.Block, block, name string) (authproxy.Config, error) {
	text := bytes.TrimSpace(b.JSON())
	if len(text) == 0 {
		text = []byte("{}")
	}
	doc := fmt.Appendf(nil, "{%q: %s}", block, text)
	if name != "" {
		doc = fmt.Appendf(nil, "{%q: {%q: %s}}", block, name, text)
	}
	c, err := authproxy.Parse(doc)
	return c, located(b, err)
}

// located says of each of joined errors in which file it is, and under which key
// unless it says so itself.
func located(b configs.Block, err error) error {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, e := range all.Unwrap() {
			errs = append(errs, located(b, e))
		}
		return errors.Join(errs...)
	}
	var unknown *authproxy.UnknownKeyError
	if errors.As(err, &unknown) {
		if meant := tasks.Closest(unknown.Key, unknown.Known); meant != "" {
			err = fmt.Errorf("%s is not a known key (did you mean %s?)", unknown.Key, meant)
		}
	}
	switch {
	case err == nil:
		return nil
	case strings.HasPrefix(err.Error(), b.Path()+":"):
		return fmt.Errorf("%s: %w", b.File(), err)
	}
	return fmt.Errorf("%s: %w", b.Where(), err)
}

func firstSet(lookup func(string) (string, bool), names []string) string {
	for _, name := range names {
		if v, ok := lookup(name); ok && v != "" {
			return name
		}
	}
	return ""
}

// upstream is the provider as the environment describes it: with its key, or a server
// of this host or its network, which may want none. Such a base URL is what the user
// chose to have there.
func (p known) upstream(lookup func(string) (string, bool)) (u authproxy.Upstream, ok bool) {
	u.Dialect = authproxy.Dialect(p.name)
	if name := firstSet(lookup, p.urls); name != "" {
		base, _ := lookup(name)
		u.BaseURL, u.Local = plainBase(p.name, base), nearby(base)
	}
	switch key := firstSet(lookup, p.keys); {
	case key != "":
		u.Keys = []authproxy.KeyRef{authproxy.KeyRef("env:" + key)}
		if slices.Contains(bearerKeys(), key) {
			u.KeyIn = "bearer"
		}
	case u.Local:
		u.KeyIn = "none"
	default:
		return u, false
	}
	return u, true
}

// problem is what is wrong with an upstream that no file names.
func problem(u authproxy.Upstream) error {
	err := authproxy.Config{Upstreams: map[string]authproxy.Upstream{"it": u}}.Validate()
	if err == nil {
		return nil
	}
	return errors.New(strings.ReplaceAll(err.Error(), "upstreams.it: ", ""))
}

// plainBase is a base URL as an upstream has it: some clients of these two dialects
// want the version in it.
func plainBase(dialect, base string) string {
	base = strings.TrimSuffix(base, "/")
	switch dialect {
	case "anthropic":
		return strings.TrimSuffix(base, "/v1")
	case "gemini":
		return strings.TrimSuffix(strings.TrimSuffix(base, "/v1beta"), "/v1")
	}
	return base
}

func nearby(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	host := strings.ToLower(u.Hostname())
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsPrivate())
}
