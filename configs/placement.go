package configs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"harborgate/tasks"
)

// Choice is one provider of several that a job may use.
type Choice struct {
	Provider string `json:"provider"`
	// Weight is its share beside its neighbours that have one too. Without it, the
	// provider takes what those before it cannot take.
	Weight int `json:"weight"`
}

// Ranked is a Choice with its place in the order: a higher rank takes what lower ranks
// cannot take. Those of one rank share by their weights.
type Ranked struct {
	Choice
	Rank int
}

// ParseChoices reads what -e takes: names of providers, or of a pool, with commas
// between them, each with a weight if there is one ("big=3,small=1,cloud").
func ParseChoices(text string) ([]Choice, error) {
	var out []Choice
	for _, part := range strings.Split(text, ",") {
		name, weight, weighted := strings.Cut(strings.TrimSpace(part), "=")
		c := Choice{Provider: strings.TrimSpace(name)}
		if c.Provider == "" {
			return nil, fmt.Errorf("environment %q: a name is missing between the commas", text)
		}
		if weighted {
			n, err := strconv.Atoi(strings.TrimSpace(weight))
			if err != nil || n < 1 {
				return nil, fmt.Errorf("environment %q: weight %q of %s must be a whole number from 1", text, weight, c.Provider)
			}
			c.Weight = n
		}
		out = append(out, c)
	}
	return out, unique(out)
}

func unique(all []Choice) error {
	seen := map[string]bool{}
	for _, c := range all {
		if seen[c.Provider] {
			return fmt.Errorf("provider %s is named twice: name it once, with the weight that it is to have", c.Provider)
		}
		seen[c.Provider] = true
	}
	return nil
}

// Choices are the providers that a text names, pools expanded, in their order.
func (h *Host) Choices(text string) ([]Ranked, error) {
	named, err := ParseChoices(text)
	if err != nil {
		return nil, err
	}
	var all []Choice
	for _, c := range named {
		pool, ok := h.Pools[c.Provider]
		switch {
		case ok && c.Weight > 0:
			return nil, fmt.Errorf("environment %q: %s is a pool, whose weights are in config.yaml: leave out =%d", text, c.Provider, c.Weight)
		case ok:
			all = append(all, pool...)
		default:
			all = append(all, c)
		}
	}
	if err := unique(all); err != nil {
		return nil, fmt.Errorf("environment %q: %w", text, err)
	}
	out := make([]Ranked, len(all))
	for i, c := range all {
		out[i].Choice = c
		if i > 0 {
			out[i].Rank = out[i-1].Rank
			if c.Weight == 0 || all[i-1].Weight == 0 {
				out[i].Rank++
			}
		}
	}
	return out, nil
}

// validatePools holds pools against names and weights.
func (h *Host) validatePools(d *document, types Types) {
	known := slices.Sorted(maps.Keys(h.Providers))
	for _, typ := range types.Built {
		if !slices.Contains(known, typ) {
			known = append(known, typ)
		}
	}
	for _, name := range sortedKeys(h.Pools) {
		path := join("pools", name)
		_, provider := h.Providers[name]
		switch {
		case !providerName.MatchString(name):
			d.fail(tasks.SeverityError, path, "bad-name", "use lower-case letters, digits and dashes", "%q cannot be the name of a pool", name)
		case provider:
			d.fail(tasks.SeverityError, path, "bad-name", "give the pool another name", "%q is a provider's name", name)
		case len(h.Pools[name]) == 0:
			d.fail(tasks.SeverityError, path, "bad-value", "list its providers", "pool %q is empty", name)
		}
		if err := errors.Join(unique(h.Pools[name]), h.nested(name)); err != nil {
			d.fail(tasks.SeverityError, path, "bad-value", "", "pool %q: %v", name, err)
		}
		for i, c := range h.Pools[name] {
			h.validateChoice(d, element(path, i), c, types, known)
		}
	}
}

// validateChoice is about one provider of a pool; known are the names that there are.
func (h *Host) validateChoice(d *document, path string, c Choice, types Types, known []string) {
	if c.Weight < 0 {
		d.fail(tasks.SeverityError, join(path, "weight"), "bad-value", "write a whole number from 1, or leave it out", "a weight is %d", c.Weight)
	}
	_, configured := h.Providers[c.Provider]
	switch {
	case c.Provider == "":
		d.fail(tasks.SeverityError, path, "missing-key", "write provider: with one of "+strings.Join(known, ", "), "%s names no provider", path)
	case !configured && h.Pools[c.Provider] == nil && !types.has(c.Provider):
		d.fail(tasks.SeverityError, join(path, "provider"), "unknown-provider", meant(c.Provider, known, "add it under providers:, or write one of "),
			"%s: %q is no provider", join(path, "provider"), c.Provider)
	}
}

// nested refuses pools of pools.
func (h *Host) nested(name string) error {
	i := slices.IndexFunc(h.Pools[name], func(c Choice) bool { return h.Pools[c.Provider] != nil })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("%s is a pool itself: list its providers instead", h.Pools[name][i].Provider)
}
