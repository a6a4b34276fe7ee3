package configs

import (
	"maps"
	"slices"
	"strings"
)

// appended lists the paths whose lists grow from layer to layer; an empty list
// clears them. All other lists are replaced.
var appended = []string{
	"agents", "datasets", "tasks", "metrics", "extra_instruction_paths", "extra_instructions",
	"retry.include_exceptions", "retry.exclude_exceptions",
	"environment.extra_docker_compose", "environment.extra_allowed_hosts",
	"verifier.include_logs", "verifier.exclude_logs", "verifier.extra_allowed_hosts",
	"user_agent.skills", "user_agent.extra_allowed_hosts", "user_agent.include_logs", "user_agent.exclude_logs",
}

// exclusive lists pairs of which a later layer's member removes the other.
var exclusive = map[string][2]string{
	"environment": {"type", "import_path"},
	"user_agent":  {"name", "import_path"},
}

// stack is what the layers so far add up to, with the place of every value.
type stack struct {
	root map[string]any
	at   map[string]place
}

// add puts a layer on top.
func (s *stack) add(layer map[string]any, at map[string]place) {
	s.at[""] = at[""]
	s.merge(s.root, layer, at, "")
}

func (s *stack) merge(base, layer map[string]any, at map[string]place, path string) {
	if pair, ok := exclusive[path]; ok {
		s.exclude(base, layer, path, pair)
	}
	for _, key := range sortedKeys(layer) {
		p := join(path, key)
		old, upper := base[key], layer[key]
		oldMap, isMap := old.(map[string]any)
		upperMap, upperIsMap := upper.(map[string]any)
		oldList, _ := old.([]any)
		upperList, isList := upper.([]any)
		switch {
		case isMap && upperIsMap:
			s.merge(oldMap, upperMap, at, p)
		case isList && len(upperList) > 0 && slices.Contains(appended, p):
			base[key] = append(slices.Clip(oldList), upperList...)
			for i := range upperList {
				s.place(element(p, len(oldList)+i), element(p, i), at)
			}
		default:
			base[key] = upper
			s.forget(p)
			s.place(p, p, at)
		}
	}
}

// exclude removes the member that the layer's own replaces.
func (s *stack) exclude(base, layer map[string]any, path string, pair [2]string) {
	for i, key := range pair {
		if other := pair[1-i]; layer[key] != nil && layer[other] == nil {
			delete(base, other)
			s.forget(join(path, other))
		}
	}
}

// place records where a value came from, and everything below it.
func (s *stack) place(to, from string, at map[string]place) {
	for p, where := range at {
		if rest, ok := below(p, from); ok {
			s.at[to+rest] = where
		}
	}
}

func (s *stack) forget(path string) {
	maps.DeleteFunc(s.at, func(p string, _ place) bool {
		_, ok := below(p, path)
		return ok
	})
}

// below returns what follows prefix in p, when p is prefix or lies below it.
func below(p, prefix string) (string, bool) {
	rest, ok := strings.CutPrefix(p, prefix)
	return rest, ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
