package tasks

// Schema is the JSON Schema of task.toml in today's form, as JSON has it. The code
// that reads a file describes itself: there is no second list of keys. Numbers in
// quotes and words in capitals, which are read with a warning, are not in it.
func Schema() map[string]any {
	root := &table{d: &document{}, shape: map[string]any{"type": "object", "properties": map[string]any{}}}
	var c Config
	root.version(&c)
	root.config(&c)
	root.shape["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root.shape["title"] = ConfigFile
	return root.shape
}

// A table with a shape reads nothing: its readers describe what they would take. The
// functions below do nothing for other tables.

// note describes a key; pairs are keywords of JSON Schema and their values.
func (t *table) note(key string, pairs ...any) {
	if t.shape == nil {
		return
	}
	properties := t.shape["properties"].(map[string]any)
	p, ok := properties[key].(map[string]any)
	if !ok {
		p = map[string]any{}
		properties[key] = p
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		p[pairs[i].(string)] = pairs[i+1]
	}
}

// noteDefault describes what holds without the key, unless that is nothing.
func noteDefault[T comparable](t *table, key string, value T) {
	var zero T
	if value != zero {
		t.note(key, "default", value)
	}
}

// noteRequired says that the table needs a key.
func (t *table) noteRequired(key string) {
	if t.shape != nil {
		required, _ := t.shape["required"].([]string)
		t.shape["required"] = append(required, key)
	}
}

// noteTable describes a key that holds a table, and returns a table that describes
// itself.
func (t *table) noteTable(key string) *table {
	t.note(key, "type", "object", "properties", map[string]any{})
	return &table{d: t.d, shape: t.shape["properties"].(map[string]any)[key].(map[string]any)}
}

// noteTables describes a list of tables likewise.
func (t *table) noteTables(key string) *table {
	item := &table{d: t.d, shape: map[string]any{"type": "object", "properties": map[string]any{}}}
	t.note(key, "type", "array", "items", item.shape)
	return item
}

func textSchema() map[string]any { return map[string]any{"type": "string"} }

func anyOf(schemas ...map[string]any) []map[string]any { return schemas }
