package app

import (
	"context"
	"maps"
	"os"
	"slices"
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
// and passwords of registries' addresses.
func (a *App) imageSecrets(ctx context.Context) []string {
	found := map[string]bool{}
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if v, ok := a.opt.Lookup(name); ok && secretive(name, v) {
			found[v] = true
		}
	}
	for name := range modelCredentials() {
		if v, ok := a.opt.Lookup(name); ok {
			found[v] = true
		}
	}
	if c, err := ProxyConfig(a.Host, a.opt.Lookup); err == nil {
		for _, u := range c.Upstreams {
			for _, ref := range u.Keys {
				if v, err := configs.ResolveSecret(string(ref), a.opt.Lookup); err == nil {
					found[v] = true
				}
			}
		}
	}
	if own, err := agents.RegistrySecrets(ctx); err == nil {
		for _, v := range own {
			found[v] = true
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(found)), func(v string) bool { return len(v) < shortestKept })
}
