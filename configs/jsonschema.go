package configs

import (
	"fmt"
	"reflect"

	"harborgate/trials"
)

// SchemaDialect is the version of JSON Schema that all schemas of ours are in.
const SchemaDialect = "https://json-schema.org/draft/2020-12/schema"

// JobSchema is the JSON Schema of job configurations in today's form: the keys that
// LoadJob takes, made from the same types. Old forms, which LoadJob reads with a
// warning, are not in it.
func JobSchema() map[string]any {
	return schemaOf(reflect.TypeFor[trials.JobConfig](), "Job configuration", trials.NewJobConfig())
}

// TrialSchema is the JSON Schema of the configuration of a single trial.
func TrialSchema() map[string]any {
	s := schemaOf(reflect.TypeFor[trials.TrialConfig](), "Trial configuration", trials.NewTrialConfig(trials.TaskConfig{}))
	s["required"] = []string{"task"}
	return s
}

func schemaOf(t reflect.Type, title string, defaults any) map[string]any {
	w := schemaWriter{defs: map[string]any{}}
	root := w.object(t, w.plain(defaults))
	root["$schema"], root["title"] = SchemaDialect, title
	if len(w.defs) > 0 {
		root["$defs"] = w.defs
	}
	return root
}

// schemaWriter describes Go types as document.check holds values against them.
type schemaWriter struct {
	defs map[string]any // structs by the name of their type
}

// plain is a value as JSON has it. Values of configurations always can be written.
func (schemaWriter) plain(v any) map[string]any {
	out := map[string]any{}
	if err := remarshal(v, &out); err != nil {
		panic(fmt.Sprintf("default configuration: %v", err))
	}
	return out
}

// object describes a struct. defaults are its values where a document says nothing;
// those that are null or empty say nothing either.
func (w schemaWriter) object(t reflect.Type, defaults map[string]any) map[string]any {
	properties := map[string]any{}
	for _, f := range jsonFields(t) {
		nested, _ := defaults[f.name].(map[string]any)
		p := w.schema(f.typ, nested)
		w.constrain(p, t, f.name)
		switch d := defaults[f.name].(type) {
		case nil, map[string]any, []any:
		default:
			if d != "" {
				p["default"] = d
			}
		}
		properties[f.name] = p
	}
	return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
}

func (w schemaWriter) schema(t reflect.Type, defaults map[string]any) map[string]any {
	switch t {
	case reflect.TypeFor[trials.ArtifactConfig]():
		return anyOf(map[string]any{"type": "string"}, w.reference(t, nil))
	case reflect.TypeFor[trials.Env]():
		return anyOf(
			map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}},
			map[string]any{"type": "array", "items": map[string]any{"type": "string", "pattern": "="}})
	}
	switch t.Kind() {
	case reflect.Pointer:
		return anyOf(w.schema(t.Elem(), defaults), map[string]any{"type": "null"})
	case reflect.Struct:
		return w.reference(t, defaults)
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": w.schema(t.Elem(), nil)}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": w.schema(t.Elem(), nil)}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	default:
		return map[string]any{}
	}
}

// reference describes a struct once.
func (w schemaWriter) reference(t reflect.Type, defaults map[string]any) map[string]any {
	if _, ok := w.defs[t.Name()]; !ok {
		w.defs[t.Name()] = nil // ends recursion
		w.defs[t.Name()] = w.object(t, defaults)
	}
	return map[string]any{"$ref": "#/$defs/" + t.Name()}
}

func anyOf(schemas ...map[string]any) map[string]any {
	return map[string]any{"anyOf": schemas}
}

// constrain adds what Validate wants of a key beyond its type.
func (schemaWriter) constrain(p map[string]any, t reflect.Type, key string) {
	bound, ok := trials.BoundOf(t, key)
	if !ok {
		return
	}
	if alternatives, ok := p["anyOf"].([]map[string]any); ok {
		p = alternatives[0] // the other is null
	}
	if bound.Values != nil {
		p["enum"] = bound.Values
	}
	if bound.Least != nil {
		p["minimum"] = *bound.Least
	}
	if bound.Positive {
		p["exclusiveMinimum"] = 0
	}
}
