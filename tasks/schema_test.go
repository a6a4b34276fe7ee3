package tasks

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	b, err := json.Marshal(Schema())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("task.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("task.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON is a TOML document as a validator wants it.
func asJSON(t *testing.T, document string) any {
	t.Helper()
	var m map[string]any
	if err := toml.Unmarshal([]byte(document), &m); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSchemaTakesRealTasks(t *testing.T) {
	t.Parallel()
	schema := compiledSchema(t)
	for _, g := range []string{"testdata/golden/*/task.toml", "../examples/tasks/*/task.toml", "../e2e/testdata/harbor-0.26/tasks/*/task.toml"} {
		files, err := filepath.Glob(g)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: nothing there: %v", g, err)
		}
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(asJSON(t, string(b))); err != nil {
				t.Errorf("%s: %v", f, err)
			}
		}
	}
	b, err := os.ReadFile("testdata/full.toml")
	if err != nil {
		t.Fatal(err)
	}
	// Words in capitals are read, and are not in the schema.
	if err := schema.Validate(asJSON(t, strings.NewReplacer(`"Separate"`, `"separate"`, `"Linux"`, `"linux"`, `"Windows"`, `"windows"`).Replace(string(b)))); err != nil {
		t.Error(err)
	}
}

// TestSchemaRefusesWhatTheReaderRefuses compares both for one mistake of each kind.
func TestSchemaRefusesWhatTheReaderRefuses(t *testing.T) {
	t.Parallel()
	schema := compiledSchema(t)
	for _, document := range []string{
		"[environment]\nmemry_mb = 1", "[environment]\nmemory_mb = 0", "[environment]\ncpus = 0", "[environment]\nnetwork_mode = \"x\"",
		"[agent]\ntimeout_sec = 0", "[agent]\nuser = -1", "[verifier]\ntimeout_sec = true", "[verifier.env]\nA = 1",
		"[[steps]]\n[steps.agent]\ntimeout_sec = 1", "artifacts = [{ destination = \"x\" }]", "artifacts = [1]",
		"[task]\ndescription = \"x\"", "[[verifier.collect]]\nservice = \"a\"", "[environment.healthcheck]\nretries = -1",
		"[[environment.mcp_servers]]\nname = \"a\"\ntransport = \"pigeon\"\nurl = \"x\"", "multi_step_reward_strategy = \"max\"", "version = true",
	} {
		_, problems := ParseConfig("task.toml", []byte(document))
		if schema.Validate(asJSON(t, document)) == nil || problems.Err() == nil {
			t.Errorf("%s: schema %v, reader %v", document, schema.Validate(asJSON(t, document)), problems.Err())
		}
	}
}

// TestSchemaHasHarborsKeys compares the keys with those of Harbor's own schema.
func TestSchemaHasHarborsKeys(t *testing.T) {
	t.Parallel()
	var theirs struct {
		Properties map[string]any
		Defs       map[string]struct{ Properties map[string]any } `json:"$defs"`
	}
	b, err := os.ReadFile("testdata/harbor-0.26/task-config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &theirs); err != nil {
		t.Fatal(err)
	}
	schema := Schema()
	for name, path := range map[string]string{
		"": "", "AgentConfig": "agent", "VerifierConfig": "verifier", "EnvironmentConfig": "environment", "SolutionConfig": "solution",
		"PackageInfo": "task", "Author": "task.authors[]", "HealthcheckConfig": "environment.healthcheck", "MCPServerConfig": "environment.mcp_servers[]",
		"StepConfig": "steps[]", "TpuSpec": "environment.tpu", "VerifierCollectConfig": "verifier.collect[]",
	} {
		want := theirs.Properties
		if name != "" {
			want = theirs.Defs[name].Properties
		}
		got := slices.DeleteFunc(slices.Sorted(maps.Keys(propertiesAt(schema, path))), func(key string) bool {
			return slices.Contains([]string{"version", "memory", "storage"}, key) && path != "task" // old forms
		})
		if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), got); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

// propertiesAt follows a path of keys, "[]" for the elements of a list.
func propertiesAt(schema map[string]any, path string) map[string]any {
	for key := range strings.SplitSeq(path, ".") {
		if key == "" {
			continue
		}
		key, list := strings.CutSuffix(key, "[]")
		properties, _ := schema["properties"].(map[string]any)
		schema, _ = properties[key].(map[string]any)
		if list {
			schema, _ = schema["items"].(map[string]any)
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	return properties
}

// TestB068KeysOfPublicTasks holds that every key that public tasks use either means
// something, or is named in a problem: none is dropped in silence.
func TestB068KeysOfPublicTasks(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/public-keys.txt")
	if err != nil {
		t.Fatal(err)
	}
	schema := Schema()
	unknown := 0
	for key := range strings.FieldsSeq(string(b)) {
		if knownKey(schema, key) {
			continue
		}
		unknown++
		_, problems := ParseConfig("task.toml", []byte(documentWith(key)))
		if !slices.ContainsFunc(problems.Least(SeverityWarning), func(p Problem) bool { return names(p.Message, key) }) {
			t.Errorf("%s means nothing, and nobody says so: %v", key, problems)
		}
	}
	if unknown == 0 {
		t.Error("every key is known, which cannot be")
	}
}

// knownKey looks a key up in a schema.
func knownKey(schema map[string]any, path string) bool {
	for key := range strings.SplitSeq(path, ".") {
		key, list := strings.CutSuffix(key, "[]")
		if of, free := schema["additionalProperties"].(map[string]any); free && of["type"] == "string" {
			return true // a variable
		}
		properties, _ := schema["properties"].(map[string]any)
		next, ok := properties[key].(map[string]any)
		if !ok {
			return false
		}
		if schema = next; list {
			schema, _ = next["items"].(map[string]any)
		}
	}
	return true
}

// documentWith is a document that has only this key.
func documentWith(path string) string {
	parts := strings.Split(path, ".")
	document := ""
	for i, part := range parts[:len(parts)-1] {
		name, list := strings.CutSuffix(part, "[]")
		table := strings.ReplaceAll(strings.Join(append(slices.Clone(parts[:i]), name), "."), "[]", "")
		if list {
			document += "[[" + table + "]]\n"
		} else {
			document += "[" + table + "]\n"
		}
	}
	return document + strings.TrimSuffix(parts[len(parts)-1], "[]") + " = \"x\"\n"
}

// names reports whether a message is about a key, or about a table above it.
func names(message, key string) bool {
	for ; key != ""; key = parent(key) {
		if strings.HasPrefix(message, strings.ReplaceAll(key, "[]", "[0]")+" ") {
			return true
		}
	}
	return false
}

// TestB088PackageNames holds that the whole name counts, that one without an
// organisation is read, and that none can leave a directory.
func TestB088PackageNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a/b": "a/b", "A.b-c/d_e": "A.b-c/d_e", "noslash": "local/noslash", "a.b": "local/a.b",
		"a/b\n": "", "\na/b": "", "noslash\n": "", "a/../b": "", "a/..": "", "../b": "", "..": "", "a/b/c": "", "/b": "", "a/": "", "": "",
		"ü/b": "", "a b": "", "a/b\x00": "",
	} {
		c, problems := ParseConfig("task.toml", []byte("[task]\nname = "+quoteTOML(name)+"\n"))
		switch err := problems.Err(); {
		case want == "" && err == nil:
			t.Errorf("%q is read as %q", name, c.Package.Name)
		case want != "" && (err != nil || c.Package.Name != want):
			t.Errorf("%q: %v, %q", name, err, c.Package.Name)
		case want != name && want != "" && len(problems.Least(SeverityWarning)) != 1:
			t.Errorf("%q: no warning", name)
		}
	}
	c, problems := ParseConfig("task.toml", nil)
	if c.Package != nil || len(problems) > 0 {
		t.Error(c.Package, problems)
	}
}
