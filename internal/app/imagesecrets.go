package app

import (
	"cmp"
	"context"
	"maps"
	"os"
	"strings"

	"harborgate/agents"
	"harborgate/configs"
	"harborgate/trials"
)

// shortestKept is the shortest value that is looked for in what is to be kept:
// shorter ones are in any system by chance.
const shortestKept = 12

// secretive reports whether a variable holds a secret. Paths and names of people are
// none, whatever the variable is called.
func secretive(name, value string) bool {
	return trials.Sensitive(name) && !strings.Contains(name, "AUTHOR") && !strings.HasPrefix(value, "/") && !strings.Contains(value, " ")
}

// imageSecrets are the values that nothing kept may hold: those of variables named
// like secrets, keys of upstreams where they can be read without running a program,
// and passwords of registries' addresses. With each is the variable that has it, "" when
// it is of none.
func (a *App) imageSecrets(ctx context.Context) map[string]string {
	found := map[string]string{}
	is := func(name, value string) { found[value] = cmp.Or(found[value], name) }
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if v, ok := a.opt.Lookup(name); ok && secretive(name, v) {
			is(name, v)
		}
	}
	for name := range modelCredentials() {
		if v, ok := a.opt.Lookup(name); ok {
			is(name, v)
		}
	}
	if c, err := ProxyConfig(a.Host, a.opt.Lookup); err == nil {
		for _, u := range c.Upstreams {
			for _, ref := range u.Keys {
				if v, err := configs.ResolveSecret(string(ref), a.opt.Lookup); err == nil {
					is(variableOf(string(ref)), v)
				}
			}
		}
	}
	if own, err := agents.RegistrySecrets(ctx); err == nil {
		for _, v := range own {
			is("", v)
		}
	}
	maps.DeleteFunc(found, func(v, _ string) bool { return len(v) < shortestKept })
	return found
}

// variableOf is the variable that a reference to a secret names, "" when it names a file.
func variableOf(ref string) string {
	name, ok := strings.CutPrefix(ref, "env:")
	if !ok {
		return ""
	}
	return name
}
