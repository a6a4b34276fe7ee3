package tasks

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// document is one task.toml being read. It collects problems instead of stopping
// at the first.
type document struct {
	file     string
	source   []byte
	problems Problems
	at       map[string]position // see positions; nil until needed

	newer   bool     // the version is newer than ours: unknown keys may be meant
	ignored []string // paths of unknown keys
}

// parse returns the top-level table, nil when the document is no TOML.
func (d *document) parse() *table {
	var keys map[string]any
	err := toml.Unmarshal(d.source, &keys)
	if err == nil {
		return &table{d: d, keys: keys}
	}
	p := Problem{
		File: d.file, Severity: SeverityError, Code: "toml-syntax",
		Message: "not valid TOML: " + strings.TrimPrefix(err.Error(), "toml: "),
		Next:    "correct the syntax",
	}
	var syntax *toml.DecodeError
	if errors.As(err, &syntax) {
		p.Line, p.Column = syntax.Position()
	}
	d.problems = append(d.problems, p)
	return nil
}

func (d *document) add(s Severity, code, path, next, format string, args ...any) {
	if d.at == nil {
		d.at = positions(d.source)
	}
	place, ok := d.at[path]
	for up := path; !ok && up != ""; {
		up = parent(up)
		place, ok = d.at[up]
	}
	d.problems = append(d.problems, Problem{
		File: d.file, Line: place.line, Column: place.column, Severity: s, Code: code,
		Message: fmt.Sprintf(format, args...), Next: next,
	})
}

// table is one table of the document. Its readers remember the keys they were
// asked for, so done can tell the unknown ones: the code that reads a table is
// its schema. Each reader leaves the destination alone when the key is missing
// or wrong.
type table struct {
	d     *document
	path  string
	keys  map[string]any
	known []string
	shape map[string]any // see Schema; nil for a table that is read
}

func (t *table) has(key string) bool {
	_, ok := t.keys[key]
	return ok
}

func (t *table) take(key string) (any, bool) {
	t.known = append(t.known, key)
	v, ok := t.keys[key]
	return v, ok
}

func (t *table) fail(key, code, next, format string, args ...any) {
	path := join(t.path, key)
	t.d.add(SeverityError, code, path, next, "%s %s", path, fmt.Sprintf(format, args...))
}

func (t *table) warn(key, code, next, message string) {
	path := join(t.path, key)
	t.d.add(SeverityWarning, code, path, next, "%s %s", path, message)
}

// deprecated notes an old form that means exactly the same as the new one.
func (t *table) deprecated(key, next string) {
	path := join(t.path, key)
	t.d.add(SeverityInfo, "deprecated-key", path, next, "%s is an old form", path)
}

// wrongType reports a value that is not what the key wants.
func (t *table) wrongType(key, want string, v any) {
	next := "write " + want
	if want == "a string" {
		next = "put the value in quotes"
	}
	t.fail(key, "wrong-type", next, "must be %s, not %s", want, typeName(v))
}

// done reports the keys that nobody asked for. Those that look like a slip of
// the keyboard are errors, because the wrong limit or network changes a score.
func (t *table) done() {
	if t.shape != nil {
		t.shape["additionalProperties"] = false
	}
	var unknown []string
	for key := range t.keys {
		if !slices.Contains(t.known, key) {
			unknown = append(unknown, key)
		}
	}
	slices.Sort(unknown)
	for _, key := range unknown {
		path := join(t.path, key)
		t.d.ignored = append(t.d.ignored, path)
		switch meant := Closest(key, t.known); {
		case t.d.newer:
		case meant != "":
			t.fail(key, "misspelt-key", "did you mean "+meant+"?", "is not a known key")
		default:
			t.warn(key, "unknown-key", "remove it, or move it to [metadata]", "is not a known key and is ignored")
		}
	}
}

func (t *table) str(key string, into *string) bool {
	t.note(key, "type", "string")
	noteDefault(t, key, *into)
	v, ok := t.take(key)
	if !ok {
		return false
	}
	s, ok := v.(string)
	if !ok {
		t.wrongType(key, "a string", v)
		return false
	}
	*into = s
	return true
}

func (t *table) boolean(key string, into *bool) bool {
	t.note(key, "type", "boolean")
	v, ok := t.take(key)
	if !ok {
		return false
	}
	b, ok := v.(bool)
	if !ok {
		t.wrongType(key, "true or false", v)
		return false
	}
	*into = b
	return true
}

// float reads any finite number. Numbers in quotes are accepted with a warning.
func (t *table) float(key string, into *float64) bool {
	t.note(key, "type", "number")
	noteDefault(t, key, *into)
	v, ok := t.take(key)
	if !ok {
		return false
	}
	f, err := toFloat(v)
	switch {
	case errors.Is(err, errQuoted):
		t.warn(key, "quoted-number", "remove the quotes", "is a number in quotes")
	case err != nil:
		t.wrongType(key, "a number", v)
		return false
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		t.fail(key, "bad-number", "write a finite number", "is %v", f)
		return false
	}
	*into = f
	return true
}

var errQuoted = errors.New("number in quotes")

func toFloat(v any) (float64, error) {
	switch v := v.(type) {
	case int64:
		return float64(v), nil
	case float64:
		return v, nil
	case string:
		if f, err := strconv.ParseFloat(strings.TrimSpace(v), 64); err == nil {
			return f, errQuoted
		}
	}
	return 0, errors.New("no number")
}

// seconds reads a number of seconds above zero, or from zero.
func (t *table) seconds(key string, into *float64, zero bool) bool {
	bound := "exclusiveMinimum"
	if zero {
		bound = "minimum"
	}
	f := *into
	read := t.float(key, &f)
	t.note(key, bound, 0)
	if !read {
		return false
	}
	if f < 0 || f == 0 && !zero {
		t.fail(key, "bad-number", "write a number of seconds above 0", "is %v", f)
		return false
	}
	*into = f
	return true
}

// integer reads a whole number that is not negative.
func (t *table) integer(key string, into *int64) bool {
	f := float64(*into)
	read := t.float(key, &f)
	t.note(key, "type", "integer", "minimum", 0)
	if !read {
		return false
	}
	if f != math.Trunc(f) || f < 0 || f > 1<<53 {
		t.fail(key, "bad-number", "write a whole number, 0 or more", "is %v", f)
		return false
	}
	*into = int64(f)
	return true
}

func (t *table) stringList(key string, into *[]string) bool {
	t.note(key, "type", "array", "items", textSchema())
	v, ok := t.take(key)
	if !ok {
		return false
	}
	list, ok := v.([]any)
	if !ok {
		t.wrongType(key, "a list of strings", v)
		return false
	}
	out := make([]string, 0, len(list))
	for i, item := range list {
		s, ok := item.(string)
		if !ok {
			t.wrongType(element(key, i), "a string", item)
			continue
		}
		out = append(out, s)
	}
	*into = out
	return true
}

// env reads a table whose values are strings.
func (t *table) env(key string) map[string]string {
	sub := t.table(key)
	t.note(key, "additionalProperties", textSchema())
	if sub == nil {
		return nil
	}
	out := make(map[string]string, len(sub.keys))
	for name, v := range sub.keys {
		s, ok := v.(string)
		switch {
		case !ok:
			sub.wrongType(name, "a string", v)
		case name == "" || strings.ContainsAny(name, "=\x00"):
			sub.fail(name, "bad-name", "rename it", "is not the name of an environment variable")
		default:
			out[name] = s
		}
	}
	return out
}

// table reads a table, nil when the key is missing or wrong.
func (t *table) table(key string) *table {
	if t.shape != nil {
		return t.noteTable(key)
	}
	v, ok := t.take(key)
	if !ok {
		return nil
	}
	keys, ok := v.(map[string]any)
	if !ok {
		t.wrongType(key, "a table", v)
		return nil
	}
	return &table{d: t.d, path: join(t.path, key), keys: keys}
}

// tables reads a list of tables.
func (t *table) tables(key string) []*table {
	if t.shape != nil {
		return []*table{t.noteTables(key)}
	}
	v, ok := t.take(key)
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		t.wrongType(key, "a list of tables", v)
		return nil
	}
	var out []*table
	for i, item := range list {
		keys, ok := item.(map[string]any)
		if !ok {
			t.wrongType(element(key, i), "a table", item)
			continue
		}
		out = append(out, &table{d: t.d, path: element(join(t.path, key), i), keys: keys})
	}
	return out
}

// oneOf reads one of a few words, in any case.
func oneOf[T ~string](t *table, key string, into *T, allowed ...T) bool {
	defer t.note(key, "enum", allowed)
	var s string
	if !t.str(key, &s) {
		return false
	}
	words := make([]string, len(allowed))
	for i, a := range allowed {
		if strings.EqualFold(s, string(a)) {
			*into = a
			return true
		}
		words[i] = string(a)
	}
	t.fail(key, "bad-value", "write one of "+strings.Join(words, ", "), "is %q", s)
	return false
}

func typeName(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64, float64:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	default:
		return "a date or time"
	}
}
