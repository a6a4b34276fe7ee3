package agents

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"harborgate/tasks"
)

// Option is one kwarg of an agent.
type Option struct {
	Name    string   `json:"name"`
	Alias   string   `json:"alias,omitempty"` // its old name
	Doc     string   `json:"doc"`
	Type    string   `json:"type,omitempty"`   // of optionTypes; "" is text
	Least   int      `json:"least,omitempty"`  // of a number
	Values  []string `json:"values,omitempty"` // closed list; empty is any of its type
	Default string   `json:"default,omitempty"`
	// File is a path of this host: the agent gets what the file says.
	File bool `json:"file,omitempty"`
}

func (o Option) is(name string) bool { return name != "" && (name == o.Name || name == o.Alias) }

// Types of options beside text, as JSON Schema names them.
const (
	integer = "integer"
	number  = "number"
	boolean = "boolean"
	object  = "object"
)

// optionTypes say what the text of a value must be, by type.
var optionTypes = map[string]struct {
	is   func(text string, least int) bool
	want string // in words, with room for the least value where there is one
}{
	integer: {isInteger, "a whole number of %d or more"},
	number:  {isNumber, "a number of %d or more"},
	boolean: {func(text string, _ int) bool { return text == "true" || text == "false" }, "true or false"},
	object:  {isObject, "a JSON object"},
}

func isInteger(text string, least int) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && n >= int64(least)
}

func isNumber(text string, least int) bool {
	var n float64 // as JSON has it: neither infinite nor hexadecimal
	return json.Unmarshal([]byte(text), &n) == nil && n >= float64(least) && text != "null"
}

func isObject(text string, _ int) bool {
	var o map[string]json.RawMessage
	return json.Unmarshal([]byte(text), &o) == nil && o != nil
}

// check says what is wrong with a value; nothing at all is the agent's own choice.
func (o Option) check(text string) error {
	if text == "" || len(o.Values) > 0 && slices.Contains(o.Values, text) {
		return nil
	}
	if len(o.Values) > 0 {
		return fmt.Errorf("must be one of %s", strings.Join(o.choices(), ", "))
	}
	t, typed := optionTypes[o.Type]
	if !typed || t.is(text, o.Least) {
		return nil
	}
	want := t.want
	if strings.Contains(want, "%d") {
		want = fmt.Sprintf(want, o.Least)
	}
	return fmt.Errorf("must be %s", want)
}

// choices are the values that can be shown.
func (o Option) choices() []string {
	return slices.DeleteFunc(slices.Clone(o.Values), func(v string) bool { return v == "" })
}

// Describe is what the option is for, and which values it has.
func (o Option) Describe() string {
	switch {
	case len(o.Values) > 0:
		return o.Doc + ": " + strings.Join(o.choices(), ", ")
	case o.Type != "":
		return o.Doc + " (" + o.Type + ")"
	}
	return o.Doc
}

// kwargs are the values of all options, by name; null is as if it were not there.
func (k Kind) kwargs(given map[string]any) (map[string]string, error) {
	out := map[string]string{}
	for _, o := range k.Options {
		out[o.Name] = o.Default
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(k.Options, func(o Option) bool { return o.is(name) })
		switch {
		case i < 0 && !k.AnyOption:
			return nil, k.unknown(name)
		case i < 0 || given[name] == nil:
			continue
		}
		o, v := k.Options[i], optionText(given[name])
		if err := o.check(v); err != nil {
			return nil, fmt.Errorf("agent %s: option %s=%q %w", k.Name, name, v, err)
		}
		out[o.Name] = v
	}
	return out, nil
}

// unknown is for an option that the agent does not have.
func (k Kind) unknown(name string) error {
	names := make([]string, len(k.Options))
	for i, o := range k.Options {
		names[i] = o.Name
	}
	if near := tasks.Closest(name, names); near != "" {
		return fmt.Errorf("agent %s has no option %q: did you mean %s?", k.Name, name, near)
	}
	return fmt.Errorf("agent %s has no option %q: it has %s", k.Name, name, strings.Join(names, ", "))
}

// optionText is an option's value as text: JSON for lists and objects, and numbers
// without an exponent, which not every agent reads.
func optionText(v any) string {
	switch v := v.(type) {
	case map[string]any, []any:
		if text, err := json.Marshal(v); err == nil {
			return string(text)
		}
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// Schema is the JSON Schema of the agent's kwargs.
func (k Kind) Schema() map[string]any {
	props := map[string]any{}
	for _, o := range k.Options {
		props[o.Name] = o.schema()
		if o.Alias != "" {
			props[o.Alias] = props[o.Name]
		}
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": k.Name, "type": "object",
		"properties": props, "additionalProperties": k.AnyOption,
	}
}

func (o Option) schema() map[string]any {
	if o.Type == "" {
		p := map[string]any{"type": "string", "description": o.Doc, "default": o.Default}
		if len(o.Values) > 0 {
			p["enum"] = o.Values
		}
		return p
	}
	p := map[string]any{"type": o.Type, "description": o.Doc}
	if o.Type == integer || o.Type == number {
		p["minimum"] = o.Least
	}
	if o.Default != "" {
		p["default"] = json.RawMessage(o.Default)
	}
	return p
}
