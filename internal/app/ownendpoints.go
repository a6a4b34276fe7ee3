package app

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"harborgate/agents"
	"harborgate/authproxy"
	"harborgate/trials"
)

// ownEndpoints are the endpoints that agents bring, as upstreams of the job's proxy.
// It does not change once the job begins.
type ownEndpoints struct {
	names     map[endpoint]string           // upstreams
	upstreams map[string]authproxy.Upstream // of these, those that no configuration has
	list      []upstream                    // the same, as the job knows them: they serve nobody else
	keys      map[string]string             // that were given as values, by variables made up for them
	err       error                         // what is wrong with the agents' settings
}

func newOwnEndpoints() ownEndpoints {
	return ownEndpoints{names: map[endpoint]string{}, upstreams: map[string]authproxy.Upstream{}, keys: map[string]string{}}
}

// over looks up variables of the host, and before them the keys that were given.
func (o ownEndpoints) over(host func(string) (string, bool)) func(string) (string, bool) {
	return func(name string) (string, bool) {
		if v, ok := o.keys[name]; ok {
			return v, true
		}
		return host(name)
	}
}

// givenKey begins the names of variables that are made up for keys.
const givenKey = "AE_"

// keep gives a key a variable, so that upstreams need not hold it.
func (o ownEndpoints) keep(name, key string) string {
	variable := givenKey + name
	for i := 2; o.keys[variable] != "" && o.keys[variable] != key; i++ {
		variable = fmt.Sprintf("%s%s_%d", givenKey, name, i)
	}
	o.keys[variable] = key
	return variable
}

// endpoints are those of an agent that have an upstream; nil has none.
func (m *models) endpoints(a *trials.AgentConfig) []asked {
	all, _ := m.described(a) // what is wrong was said when the job began
	return slices.DeleteFunc(all, func(e asked) bool { return m.own.names[e.endpoint] == "" })
}

func (m *models) described(a *trials.AgentConfig) ([]asked, error) {
	if a == nil || m.set.PassCredentials {
		return nil, nil
	}
	main, err := m.mainDialect(a)
	if err != nil {
		return nil, err
	}
	return endpoints(a, main, m.lookup)
}

// hasOwn reports whether an agent's model is at an endpoint of its own.
func (m *models) hasOwn(a *trials.AgentConfig) bool {
	return slices.ContainsFunc(m.endpoints(a), func(e asked) bool { return e.main })
}

// ownVariables are the variables of an agent that describe endpoints, with their
// upstreams for keys and "" for base URLs.
func (m *models) ownVariables(a *trials.AgentConfig) map[string]string {
	out := map[string]string{}
	for _, e := range m.endpoints(a) {
		for _, name := range e.urls {
			out[name] = ""
		}
		for _, name := range e.keys {
			out[name] = m.own.names[e.endpoint]
		}
	}
	return out
}

// servesAll reports whether the upstreams of a service will do for the endpoints that
// agents bring: they have the same base URL, and then the service's keys are those
// that count.
func (m *models) servesAll(all []trials.AgentConfig) bool {
	for i := range all {
		asked, err := m.described(&all[i])
		if err != nil {
			m.own.err = err
			return true
		}
		for _, e := range asked {
			up, found := m.at(e)
			switch {
			case found:
				m.own.names[e.endpoint] = up.name
			case !e.usual || e.base != "" || !m.speaks(e.dialect):
				clear(m.own.names)
				return false
			}
		}
	}
	return true
}

// at is the upstream at an endpoint's base URL.
func (m *models) at(e asked) (upstream, bool) {
	i := slices.IndexFunc(m.upstreams, func(u upstream) bool {
		return e.base != "" && u.dialect == e.dialect && sameBase(plainBase(e.dialect, e.base), u.base)
	})
	if i < 0 {
		return upstream{}, false
	}
	return m.upstreams[i], true
}

func (m *models) speaks(dialect string) bool {
	return slices.ContainsFunc(m.upstreams, func(u upstream) bool { return u.dialect == dialect })
}

// define makes upstreams of the job's own proxy for endpoints that c does not have.
func (m *models) define(all []trials.AgentConfig, c authproxy.Config) {
	var errs []error
	for i := range all {
		asked, err := m.described(&all[i])
		errs = append(errs, err)
		for _, e := range asked {
			if m.own.names[e.endpoint] == "" {
				errs = append(errs, m.defineOne(e, &all[i], c))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.own.upstreams)) {
		m.own.list = append(m.own.list, upstreamOf(name, m.own.upstreams[name]))
	}
	m.own.err = errors.Join(errs...)
}

func (m *models) defineOne(e asked, a *trials.AgentConfig, c authproxy.Config) error {
	like, found := m.at(e)
	if found && (e.variable == "" && e.value == "" || slices.Contains(like.keys, e.variable)) {
		m.own.names[e.endpoint] = like.name
		return nil
	}
	if !found {
		like = m.otherwise(e, a)
	}
	if e.usual && e.base == "" && like.name != "" {
		return nil // what there is has that key
	}
	as := e.endpoint
	if as.value != "" {
		as.variable, as.value = m.own.keep(e.keys[0], as.value), ""
	}
	u, err := as.upstream(c.Upstreams[like.name], m.lookup)
	if err != nil {
		return fmt.Errorf("agent %s: %w", a.AgentName(), err)
	}
	name := e.dialect
	for n := 2; m.taken(name, c); n++ {
		name = fmt.Sprintf("%s-%d", e.dialect, n)
	}
	m.own.names[e.endpoint], m.own.upstreams[name] = name, u
	return nil
}

func (m *models) taken(name string, c authproxy.Config) bool {
	_, configured := c.Upstreams[name]
	return configured || m.own.upstreams[name].Dialect != ""
}

// otherwise is the upstream that would serve an agent without its endpoint.
func (m *models) otherwise(e asked, a *trials.AgentConfig) upstream {
	if up, _, ok := m.serving(value(a.ModelName)); ok && e.main && up.dialect == e.dialect {
		return up
	}
	if up, _, ok := m.serving(e.dialect + "/"); ok {
		return up
	}
	return upstream{}
}

// remarks are what users should know about the endpoints of agents.
func (m *models) remarks(all []trials.AgentConfig) []string {
	out := slices.Clone(m.notes)
	for i := range all {
		if note := m.otherBase(&all[i]); note != "" && !slices.Contains(out, note) {
			out = append(out, note)
		}
	}
	return out
}

// otherBase says that a base URL of the shell is not used for an agent that people
// may expect it to be used for.
func (m *models) otherBase(a *trials.AgentConfig) string {
	up, _, ok := m.serves(a)
	if !ok || m.set.PassCredentials || m.hasOwn(a) || !agents.Thinks(*a) {
		return ""
	}
	p := providerOf(up.dialect)
	name := firstSet(m.lookup, p.urls)
	base, _ := m.lookup(name)
	if name == "" || sameBase(plainBase(up.dialect, base), strings.TrimSuffix(up.base, "/")) {
		return ""
	}
	return fmt.Sprintf("%s of the shell is not used: upstream %s has its base URL from elsewhere; give it with --base-url or --ae %s=…", name, up.name, name)
}
