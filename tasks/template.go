package tasks

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// templatePattern matches a whole value: ${NAME} or ${NAME:-default}.
var templatePattern = regexp.MustCompile(`^\$\{([^}:\n]+)(:-(.*))?\}$`)

// Variable is a reference to a variable of the host.
type Variable struct {
	Name       string
	Default    string
	HasDefault bool
	Where      string // "task.toml [verifier.env] OPENAI_API_KEY"
}

// ParseTemplate reads a value of the form ${NAME} or ${NAME:-default}. Anything
// else, also with such a form inside, is an ordinary value and ok is false.
func ParseTemplate(value string) (v Variable, ok bool) {
	m := templatePattern.FindStringSubmatch(value)
	if m == nil {
		return Variable{}, false
	}
	return Variable{Name: m[1], Default: m[3], HasDefault: m[2] != ""}, true
}

// IsTemplate reports whether value refers to a variable of the host.
func IsTemplate(value string) bool {
	_, ok := ParseTemplate(value)
	return ok
}

// MissingVariablesError lists variables of the host that have neither a value
// nor a default.
type MissingVariablesError struct{ Variables []Variable }

func (e *MissingVariablesError) Error() string {
	parts := make([]string, len(e.Variables))
	for i, v := range e.Variables {
		parts[i] = fmt.Sprintf("%s (used by %s)", v.Name, v.Where)
	}
	return "environment variables are not set: " + strings.Join(parts, ", ") +
		"; export them or pass --env-file"
}

// ResolveEnv replaces templates by the values of the host. A variable that is
// set but empty counts as set. where names the table in the error, which is a
// *MissingVariablesError and lists all that is missing.
func ResolveEnv(env map[string]string, where string, lookup func(string) (string, bool)) (map[string]string, error) {
	out := make(map[string]string, len(env))
	var missing []Variable
	for _, key := range slices.Sorted(maps.Keys(env)) {
		v, ok := ParseTemplate(env[key])
		if !ok {
			out[key] = env[key]
			continue
		}
		value, set := lookup(v.Name)
		switch {
		case set:
			out[key] = value
		case v.HasDefault:
			out[key] = v.Default
		default:
			v.Where = where + " " + key
			missing = append(missing, v)
		}
	}
	if missing != nil {
		return nil, &MissingVariablesError{missing}
	}
	return out, nil
}

// Variables lists what the task wants to know of the host, in order of tables.
// solution includes what only the oracle agent needs.
func (t *Task) Variables(solution bool) []Variable {
	type section struct {
		where string
		env   map[string]string
	}
	sections := []section{
		{"task.toml [environment.env]", t.Config.Environment.Env},
		{"task.toml [verifier.env]", t.Config.Verifier.Env},
	}
	for _, m := range t.Config.Environment.MCPServers {
		sections = append(sections, section{"task.toml [[environment.mcp_servers]] " + m.Name + " headers", m.Headers})
	}
	if e := t.Config.Verifier.Environment; e != nil {
		sections = append(sections, section{"task.toml [verifier.environment.env]", e.Env})
	}
	for _, s := range t.Config.Steps {
		sections = append(sections, section{fmt.Sprintf("task.toml step %q verifier.env", s.Name), s.Verifier.Env})
		if e := s.Verifier.Environment; e != nil {
			sections = append(sections, section{fmt.Sprintf("task.toml step %q verifier.environment.env", s.Name), e.Env})
		}
	}
	if solution {
		sections = append(sections, section{"task.toml [solution.env]", t.Config.Solution.Env})
	}
	var out []Variable
	for _, s := range sections {
		for _, key := range slices.Sorted(maps.Keys(s.env)) {
			if v, ok := ParseTemplate(s.env[key]); ok {
				v.Where = s.where + " " + key
				out = append(out, v)
			}
		}
	}
	return out
}
