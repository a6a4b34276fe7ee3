package agents

import (
	"slices"
	"strings"
)

// Access is a phase's way to models: the auth proxy as the sandbox sees it, and a
// token that is worth something only there, and only as long as the phase lasts.
type Access struct {
	URL       string // of the proxy, without a path
	Token     string
	Model     string     // of the agent, as the first upstream names it; "" is none
	Upstreams []Upstream // the one of the agent's model first
	// Exempt is what the sandbox's own NO_PROXY says: hosts that are reached without
	// the proxies that its variables name.
	Exempt string
}

// Upstream is one model API behind the proxy.
type Upstream struct {
	Name    string
	Dialect string // of the proxy: anthropic, openai, gemini, openrouter
	Format  string // that was asked for, of Formats; "" leaves it to the agent
	// Keys are variables in which the key of this upstream was asked for, beside
	// those of its dialect.
	Keys []string
}

// dialect is how clients of a wire format find their API.
type dialect struct {
	version string   // what their base URLs end with
	bases   []string // variables
	keys    []string
}

// dialects holds what official client libraries, LiteLLM and agents read; where a
// name is another's old one, both are set so that none of the host's can win.
func dialects() map[string]dialect {
	return map[string]dialect{
		"anthropic":  {"", []string{"ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"}, []string{"ANTHROPIC_API_KEY"}},
		"openai":     {"/v1", []string{"OPENAI_BASE_URL", "OPENAI_API_BASE"}, []string{"OPENAI_API_KEY"}},
		"gemini":     {"", []string{"GOOGLE_GEMINI_BASE_URL"}, []string{"GEMINI_API_KEY"}},
		"openrouter": {"/v1", []string{"OPENROUTER_BASE_URL", "OPENROUTER_API_BASE"}, []string{"OPENROUTER_API_KEY"}},
	}
}

// Base is the base URL that clients of the upstream's dialect want.
func (a Access) Base(u Upstream) string { return a.URL + "/" + u.Name + dialects()[u.Dialect].version }

// Env is the access as environment variables. Of two upstreams with one dialect
// the first has the dialect's variables. Proxies that the sandbox's variables name stay
// in force for everything but its own loopback, where the auth proxy is: nobody else is
// to see the token.
func (a Access) Env() map[string]string {
	out := map[string]string{}
	for _, name := range exemptions() {
		out[name] = a.direct()
	}
	for _, u := range slices.Backward(a.Upstreams) {
		d := dialects()[u.Dialect]
		for _, name := range d.bases {
			out[name] = a.Base(u)
		}
		for _, name := range slices.Concat(d.keys, u.Keys) {
			out[name] = a.Token
		}
	}
	return out
}

// exemptions are the variables that name hosts which are reached without a proxy.
// Programs read the one or the other.
func exemptions() []string { return []string{"NO_PROXY", "no_proxy"} }

// AskExempt is a shell's script that prints what a sandbox's variables exempt.
const AskExempt = `printf '%s,%s' "${NO_PROXY-}" "${no_proxy-}"`

// direct exempts the loopback, and what is exempt as it is. An asterisk counts for
// many programs only where it is alone.
func (a Access) direct() string {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	for _, host := range strings.FieldsFunc(a.Exempt, func(r rune) bool { return r == ',' || r == ' ' }) {
		if host == "*" {
			return host
		}
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return strings.Join(hosts, ",")
}
