package configs

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"harborgate/tasks"
	"harborgate/trials"
)

// check holds a value against a Go type and returns it in the form that
// encoding/json reads: keys are those of the json tags, numbers in quotes become
// numbers. What does not fit is reported and left out.
func (d *document) check(v any, t reflect.Type, path string) (any, bool) {
	if v == nil {
		return d.checkNull(t, path)
	}
	t = otherForm(v, t)
	switch t.Kind() {
	case reflect.Pointer:
		return d.check(v, t.Elem(), path)
	case reflect.Interface:
		return v, d.jsonable(v, path)
	case reflect.Struct:
		return d.checkStruct(v, t, path)
	case reflect.Map:
		return d.checkMap(v, t.Elem(), path)
	case reflect.Slice:
		return d.checkList(v, t.Elem(), path)
	case reflect.String:
		s, ok := v.(string)
		return s, ok || d.wrong(path, "a string", v)
	case reflect.Bool:
		return d.checkBool(v, path)
	case reflect.Int, reflect.Int64:
		return d.checkInt(v, path)
	default:
		return d.checkFloat(v, path)
	}
}

// otherForm returns the type that v has to be held against where more than one
// form is allowed: artifacts may be strings, variables a list of KEY=VALUE, and a
// Block any mapping.
func otherForm(v any, t reflect.Type) reflect.Type {
	_, text := v.(string)
	_, list := v.([]any)
	switch {
	case t == reflect.TypeFor[trials.ArtifactConfig]() && text:
		return reflect.TypeFor[string]()
	case t == reflect.TypeFor[trials.Env]() && list:
		return reflect.TypeFor[[]string]()
	case t == reflect.TypeFor[Block]():
		return reflect.TypeFor[map[string]any]()
	}
	return t
}

func (d *document) checkNull(t reflect.Type, path string) (any, bool) {
	if k := t.Kind(); k == reflect.Pointer || k == reflect.Interface || t == reflect.TypeFor[Block]() {
		return nil, true
	}
	d.fail(tasks.SeverityError, path, "empty-value", "give it a value, or remove it", "%s is empty", path)
	return nil, false
}

// wrong always returns false, for use in conditions.
func (d *document) wrong(path, want string, v any) bool {
	next := "write " + want
	if want == "a string" {
		next = "put the value in quotes"
	}
	name := path
	if name == "" {
		name = "the document"
	}
	d.fail(tasks.SeverityError, path, "wrong-type", next, "%s must be %s, not %s", name, want, kindOf(v))
	return false
}

// jsonable refuses numbers that JSON does not have.
func (d *document) jsonable(v any, path string) bool {
	ok := true
	switch v := v.(type) {
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			ok = d.wrong(path, "a finite number", v)
		}
	case map[string]any:
		for key, x := range v {
			ok = d.jsonable(x, join(path, key)) && ok
		}
	case []any:
		for i, x := range v {
			ok = d.jsonable(x, element(path, i)) && ok
		}
	}
	return ok
}

func (d *document) checkStruct(v any, t reflect.Type, path string) (any, bool) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, d.wrong(path, "a mapping", v)
	}
	fields := jsonFields(t)
	out := make(map[string]any, len(m))
	for _, key := range sortedKeys(m) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == key })
		if i < 0 {
			d.unknown(path, key, fields)
			continue
		}
		if x, ok := d.check(m[key], fields[i].typ, join(path, key)); ok {
			out[key] = x
		}
	}
	return out, true
}

func (d *document) unknown(path, key string, fields []field) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	d.fail(tasks.SeverityError, join(path, key), "unknown-key", meant(key, names, "remove it; known here are "), "%s is not a known key", join(path, key))
}

func (d *document) checkMap(v any, elem reflect.Type, path string) (any, bool) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, d.wrong(path, "a mapping", v)
	}
	out := make(map[string]any, len(m))
	for _, key := range sortedKeys(m) {
		if x, ok := d.check(m[key], elem, join(path, key)); ok {
			out[key] = x
		}
	}
	return out, true
}

func (d *document) checkList(v any, elem reflect.Type, path string) (any, bool) {
	list, ok := v.([]any)
	if !ok {
		return nil, d.wrong(path, "a list", v)
	}
	out := make([]any, 0, len(list))
	for i, x := range list {
		if x, ok := d.check(x, elem, element(path, i)); ok {
			out = append(out, x)
		}
	}
	return out, true
}

// checkBool also takes the words of YAML 1.1, which Harbor's reader knows.
func (d *document) checkBool(v any, path string) (any, bool) {
	if b, ok := v.(bool); ok {
		return b, true
	}
	s, _ := v.(string)
	switch strings.ToLower(s) {
	case "true", "yes", "on":
		return true, true
	case "false", "no", "off":
		return false, true
	}
	return nil, d.wrong(path, "true or false", v)
}

func (d *document) checkInt(v any, path string) (any, bool) {
	f, ok := toFloat(v)
	if !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return nil, d.wrong(path, "a whole number", v)
	}
	return int64(f), true
}

func (d *document) checkFloat(v any, path string) (any, bool) {
	f, ok := toFloat(v)
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, d.wrong(path, "a number", v)
	}
	return f, true
}

func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	case string:
		f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		return f, err == nil
	}
	return 0, false
}

func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		return fmt.Sprintf("the text %.60q", v)
	case bool:
		return strconv.FormatBool(v)
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	default:
		return fmt.Sprintf("%v", v)
	}
}

// field is one key of a struct.
type field struct {
	name string
	typ  reflect.Type
}

// jsonFields lists the keys of a struct in order, embedded ones included.
func jsonFields(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			out = append(out, jsonFields(f.Type)...)
		case f.IsExported() && name != "" && name != "-":
			out = append(out, field{name, f.Type})
		}
	}
	return out
}
