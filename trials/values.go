package trials

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Float is a number that is written as Harbor writes its floats: 1.0, not 1.
type Float float64

// MarshalJSON writes null for what JSON cannot hold.
func (f Float) MarshalJSON() ([]byte, error) {
	if v := float64(f); !math.IsNaN(v) && !math.IsInf(v, 0) {
		return []byte(FormatFloat(v)), nil
	}
	return []byte("null"), nil
}

// Cores is a number of processors: whole ones are written without a point.
type Cores float64

// MarshalJSON writes 2 and 0.5.
func (c Cores) MarshalJSON() ([]byte, error) {
	v := float64(c)
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return strconv.AppendFloat(nil, v, 'f', 0, 64), nil
	}
	return Float(v).MarshalJSON()
}

// List is a list that is never written as null.
type List[T any] []T

// MarshalJSON writes [] for nil.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if len(l) == 0 {
		return []byte("[]"), nil
	}
	return marshalPlain([]T(l))
}

// Object is a free-form object that is never written as null. Numbers read from
// JSON keep their spelling, so 1.0 stays 1.0.
type Object[T any] map[string]T

// MarshalJSON writes {} for nil and sorts the keys.
func (o Object[T]) MarshalJSON() ([]byte, error) {
	if len(o) == 0 {
		return []byte("{}"), nil
	}
	return marshalPlain(map[string]T(o))
}

// UnmarshalJSON reads an object.
func (o *Object[T]) UnmarshalJSON(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	dec.DisallowUnknownFields()
	return dec.Decode((*map[string]T)(o))
}

// Set is a set of names, kept and written in order.
type Set []string

// NewSet sorts names and drops doubles.
func NewSet(names ...string) Set {
	s := slices.Clone(names)
	slices.Sort(s)
	return Set(slices.Compact(s))
}

// Has reports whether name is in the set. A nil set is empty.
func (s *Set) Has(name string) bool {
	return s != nil && slices.Contains(*s, name)
}

// MarshalJSON writes [] for an empty set.
func (s Set) MarshalJSON() ([]byte, error) { return List[string](s).MarshalJSON() }

// UnmarshalJSON reads a list in any order.
func (s *Set) UnmarshalJSON(b []byte) error {
	var names []string
	if err := json.Unmarshal(b, &names); err != nil {
		return err
	}
	*s = NewSet(names...)
	if *s == nil {
		*s = Set{}
	}
	return nil
}

// Env is a set of environment variables. Values may be templates (see
// tasks.ResolveEnv). Harbor's old list of KEY=VALUE strings is read too.
type Env map[string]string

// UnmarshalJSON reads an object, or a list of KEY=VALUE.
func (e *Env) UnmarshalJSON(b []byte) error {
	if !bytes.HasPrefix(bytes.TrimSpace(b), []byte("[")) {
		return json.Unmarshal(b, (*map[string]string)(e))
	}
	var pairs []string
	if err := json.Unmarshal(b, &pairs); err != nil {
		return err
	}
	out := make(Env, len(pairs))
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("environment entry %q is not KEY=VALUE", pair)
		}
		out[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	*e = out
	return nil
}

// Keys returns the names in order.
func (e Env) Keys() []string { return slices.Sorted(maps.Keys(e)) }

// ArtifactConfig is a path of the sandbox that is kept. One that was given as a
// plain string is written as one.
type ArtifactConfig struct {
	Source      string       `json:"source"`
	Destination *string      `json:"destination"` // relative to the artifacts directory
	Exclude     List[string] `json:"exclude"`
	Service     *string      `json:"service"` // compose service; null is the main one

	object bool // it was read as an object
}

// artifactObject is the same without methods.
type artifactObject ArtifactConfig

// MarshalJSON writes a plain string when only the source is set.
func (a ArtifactConfig) MarshalJSON() ([]byte, error) {
	if !a.object && a.Destination == nil && len(a.Exclude) == 0 && a.Service == nil {
		return marshalPlain(a.Source)
	}
	return marshalPlain(artifactObject(a))
}

// UnmarshalJSON reads a string or an object.
func (a *ArtifactConfig) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(b), []byte(`"`)) {
		*a = ArtifactConfig{}
		return json.Unmarshal(b, &a.Source)
	}
	o := artifactObject{object: true}
	if err := json.Unmarshal(b, &o); err != nil {
		return err
	}
	*a = ArtifactConfig(o)
	return nil
}

// marshalPlain is json.Marshal without HTML escapes.
func marshalPlain(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
