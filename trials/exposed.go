package trials

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"harborgate/tasks"
)

// referencePattern is a reference to a variable or a file as agents' own settings have
// it, with a scheme before it where it is a header.
var referencePattern = regexp.MustCompile(`^(\w+ )?\{(env|file):[^{}]+\}$`)

// exposed lists the paths below path of texts that are called like secrets and refer to
// nothing: what a configuration says stands in many files of a job. A text that is a
// document in JSON is looked through, too.
func exposed(path, name string, v any) (out []string) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(out, exposed(path+"."+key, key, v[key])...)
		}
	case []any:
		for i, one := range v {
			out = append(out, exposed(fmt.Sprintf("%s[%d]", path, i), name, one)...)
		}
	case string:
		var doc map[string]any
		switch {
		case json.Unmarshal([]byte(v), &doc) == nil:
			return exposed(path, name, doc)
		case v != "" && Sensitive(name) && !tasks.IsTemplate(v) && !referencePattern.MatchString(v):
			return []string{path}
		}
	}
	return out
}
