package app

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"harborgate/agents"
	"harborgate/authproxy"
	"harborgate/tasks"
	"harborgate/trials"
)

// endpoint is a model API that an agent's own settings describe: its base URL, and
// where its key is. What they do not say is as for other agents.
type endpoint struct {
	dialect string
	base    string
	// variable of the host that holds the key, or else the key itself.
	variable, value string
	bearer          bool // the key goes into the Authorization header, whatever the dialect
	// usual says that the key is the one that the shell has for the provider: no
	// reason for an upstream beside the one that is there.
	usual bool
}

// asked is an endpoint with the agent's variables that it was read from.
type asked struct {
	endpoint
	main       bool // the agent's model is there
	keys, urls []string
}

// endpoints are those that an agent's settings describe. Its own flags are about the
// endpoint of its model; variables are about that of their provider.
func endpoints(a *trials.AgentConfig, main string, lookup func(string) (string, bool)) ([]asked, error) {
	kind, err := agents.Find(a.AgentName())
	if err != nil || !kind.Thinks {
		return nil, nil //nolint:nilerr // an unknown one is refused elsewhere
	}
	var out []asked
	for _, p := range knownProviders() {
		if len(kind.Dialects) > 0 && !slices.Contains(kind.Dialects, p.name) {
			continue
		}
		e := asked{endpoint: endpoint{dialect: p.name}, main: p.name == main}
		e.readVariables(a.Env, p, lookup)
		if e.main {
			if err := e.readFlags(a, lookup); err != nil {
				return nil, fmt.Errorf("agent %s: %w", kind.Name, err)
			}
		}
		if e.base != "" || e.variable != "" || e.value != "" {
			out = append(out, e)
		}
	}
	return out, nil
}

func (e *asked) readVariables(env trials.Env, p known, lookup func(string) (string, bool)) {
	for _, name := range p.urls {
		if v := resolved(env[name], lookup); v != "" {
			e.base, e.urls = cmp.Or(e.base, v), append(e.urls, name)
		}
	}
	for _, name := range slices.Concat(p.keys, p.agentKeys) {
		if resolved(env[name], lookup) == "" {
			continue
		}
		if e.keys = append(e.keys, name); len(e.keys) == 1 {
			e.readKey(env[name], lookup)
			e.bearer = slices.Contains(bearerKeys(), name)
			e.usual = slices.Contains(p.keys, e.variable)
		}
	}
	if e.value == "" {
		return
	}
	if i := slices.IndexFunc(p.keys, func(k string) bool { v, _ := lookup(k); return v == e.value }); i >= 0 {
		e.variable, e.value, e.usual = p.keys[i], "", true // as the shell wrote it out
	}
}

// readKey reads the value of an agent's variable.
func (e *asked) readKey(text string, lookup func(string) (string, bool)) {
	e.variable, e.value = "", text
	if t, ok := tasks.ParseTemplate(text); ok {
		e.variable, e.value = t.Name, ""
		if v, _ := lookup(t.Name); v == "" {
			e.variable, e.value = "", t.Default
		}
	}
}

func (e *asked) readFlags(a *trials.AgentConfig, lookup func(string) (string, bool)) error {
	e.base = cmp.Or(value(a.BaseURL), e.base)
	name := value(a.ModelAPIKeyName)
	if name == "" {
		return nil
	}
	e.usual, e.bearer = false, slices.Contains(bearerKeys(), name)
	if resolved(a.Env[name], lookup) != "" {
		e.keys = append(e.keys, name)
		e.readKey(a.Env[name], lookup)
		return nil
	}
	if v, _ := lookup(name); v == "" {
		if name != strings.ToUpper(name) {
			name = "that it names (not repeated here, because it may be a key)"
		}
		return fmt.Errorf("--api-key-name (model_api_key_name): the variable %s is not set: export it with the key of the endpoint, or name another", name)
	}
	e.variable, e.value = name, ""
	return nil
}

// resolved is a value of an agent's environment, "" also when the host lacks it.
func resolved(text string, lookup func(string) (string, bool)) string {
	t, ok := tasks.ParseTemplate(text)
	if !ok {
		return text
	}
	if v, _ := lookup(t.Name); v != "" {
		return v
	}
	return t.Default
}

// mainDialect is the format of the endpoint of an agent's model: as it was asked for,
// the agent's only one, or its provider's. What nobody knows is compatible with
// OpenAI, as servers of one's own are.
func (m *models) mainDialect(a *trials.AgentConfig) (string, error) {
	kind, err := agents.Find(a.AgentName())
	if err != nil {
		return "", nil //nolint:nilerr // an unknown one is refused elsewhere
	}
	if f := value(a.ModelAPIFormat); f != "" {
		return formatDialect(kind, f)
	}
	if len(kind.Dialects) == 1 {
		return kind.Dialects[0], nil
	}
	provider, _, split := strings.Cut(value(a.ModelName), "/")
	if !split {
		provider = family(value(a.ModelName))
	}
	if i := slices.IndexFunc(m.upstreams, func(u upstream) bool { return u.name == provider }); i >= 0 {
		provider = m.upstreams[i].dialect
	}
	if provider == "google" {
		provider = "gemini"
	}
	if slices.ContainsFunc(knownProviders(), func(p known) bool { return p.name == provider }) {
		return provider, nil
	}
	return "openai", nil
}

// formatDialect is the dialect of a format that an agent can speak.
func formatDialect(kind agents.Kind, format string) (string, error) {
	can := kind.Formats()
	all := agents.Formats()
	i := slices.IndexFunc(all, func(f agents.Format) bool { return f.Name == format })
	switch {
	case i < 0: // refused elsewhere, with all names
		return "", nil
	case all[i].Dialect == "":
		return "", fmt.Errorf("--api-format %s: the auth proxy does not speak it; choose one of %s", format, strings.Join(can, ", "))
	case !slices.Contains(can, format):
		return "", fmt.Errorf("agent %s does not speak %s (--api-format): it speaks %s", kind.Name, format, strings.Join(can, ", "))
	}
	return all[i].Dialect, nil
}

// checkEndpoint finds what is wrong with an agent's endpoint whatever the host has.
func checkEndpoint(a trials.AgentConfig) error {
	bare := &models{} // of a host without upstreams
	main, err := bare.mainDialect(&a)
	if err == nil {
		err = checkName(a, main)
	}
	if err != nil || value(a.BaseURL) == "" || main == "" {
		return err
	}
	e := endpoint{dialect: main, base: *a.BaseURL, variable: "KEY"}
	_, err = e.upstream(authproxy.Upstream{}, func(string) (string, bool) { return "", false })
	return err
}

// checkName finds a name that no request could have. What follows a provider that is not
// known may be named otherwise by an upstream: the way to models is checked later.
func checkName(a trials.AgentConfig, dialect string) error {
	kind, err := agents.Find(a.AgentName())
	provider, name, _ := strings.Cut(value(a.ModelName), "/")
	if err != nil || !kind.Thinks || len(kind.Dialects) == 0 || dialect == "" || name == "" || !slices.Contains(providerNames(), provider) {
		return nil //nolint:nilerr // an unknown one is refused elsewhere
	}
	return carried(kind, dialect, name)
}

// upstream is the endpoint as one of the auth proxy. like is the one that would
// serve the agent otherwise, if there is one: what is not said is its.
func (e endpoint) upstream(like authproxy.Upstream, lookup func(string) (string, bool)) (authproxy.Upstream, error) {
	u := like
	if like.Dialect == "" {
		u, _ = providerOf(e.dialect).upstream(lookup)
	}
	if e.base != "" && !sameBase(e.base, like.BaseURL) {
		u = authproxy.Upstream{BaseURL: plainBase(e.dialect, e.base), Local: nearby(e.base)}
	}
	u.Dialect = authproxy.Dialect(e.dialect)
	key, bearer := e.variable, e.bearer
	if key == "" && len(u.Keys) == 0 {
		p := providerOf(e.dialect)
		if key = firstSet(lookup, p.keys); key == "" && !u.Local {
			return u, fmt.Errorf("%s endpoint of the agent: there is no key for it: export %s, or name the variable that holds it with --api-key-name", e.dialect, p.keys[0])
		}
		bearer = slices.Contains(bearerKeys(), key)
	}
	switch {
	case key != "":
		u.Keys = []authproxy.KeyRef{authproxy.KeyRef("env:" + key)}
		if u.KeyIn == "none" {
			u.KeyIn = ""
		}
		if bearer {
			u.KeyIn = "bearer"
		}
	case len(u.Keys) == 0: // a server of one's own, which wants none
		u.KeyIn = "none"
	}
	if err := problem(u); err != nil {
		return u, fmt.Errorf("%s endpoint of the agent: %w; what a base URL cannot say is said by an upstream in config.yaml (see docs/auth-proxy.md)", e.dialect, err)
	}
	return u, nil
}

func providerOf(dialect string) known {
	all := knownProviders()
	return all[slices.IndexFunc(all, func(p known) bool { return p.name == dialect })]
}

// sameBase reports whether two base URLs are one.
func sameBase(a, b string) bool {
	return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}

// providerNames begin the names of models as clients write them; what comes behind
// the slash is then the name that the API knows.
func providerNames() []string {
	return []string{
		"anthropic", "openai", "gemini", "google", "openrouter", "azure", "bedrock", "cerebras", "cohere", "dashscope", "deepseek",
		"fireworks_ai", "groq", "hosted_vllm", "litellm_proxy", "lm_studio", "minimax", "mistral", "moonshot", "nvidia", "nvidia_nim",
		"ollama", "perplexity", "together_ai", "vercel_ai_gateway", "vllm", "xai", "zai",
	}
}

// endpointModel is what the endpoint is asked for: "meta-llama/Llama-3" is a whole
// name, "openai/gpt-5" is one of a provider.
func (m *models) endpointModel(a *trials.AgentConfig) string {
	name := value(a.ModelName)
	provider, rest, split := strings.Cut(name, "/")
	known := slices.Contains(providerNames(), provider) || slices.ContainsFunc(m.upstreams, func(u upstream) bool { return u.name == provider })
	if !split || a.SkipModelParsing || !known {
		return name
	}
	return rest
}
