package configs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"harborgate/trials"
)

func compiled(t *testing.T, schema map[string]any) *jsonschema.Schema {
	t.Helper()
	b, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plainDocument is a configuration file as a validator wants it.
func plainDocument(t *testing.T, file string) any {
	t.Helper()
	d := readFile(file)
	if err := d.problems.Err(); err != nil {
		t.Fatal(err)
	}
	root, _ := d.root.(map[string]any)
	retry, _ := root["retry"].(map[string]any)
	if _, shortened := retry["exclude_exceptions"].(string); shortened {
		delete(retry, "exclude_exceptions") // the golden says only that it is the usual list
	}
	return instance(t, d.root)
}

func instance(t *testing.T, v any) any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSchemasTakeRealConfigurations holds the schemas against what Harbor and we
// wrote, and against our examples.
func TestSchemasTakeRealConfigurations(t *testing.T) {
	t.Parallel()
	job, trial := compiled(t, JobSchema()), compiled(t, TrialSchema())
	of := map[*jsonschema.Schema][]string{}
	for schema, globs := range map[*jsonschema.Schema][]string{
		job:   {"testdata/job-config.json", "../trials/testdata/golden/job-config*.json", "../e2e/testdata/harbor-0.26/*/config.json", "../examples/configs/*.yaml"},
		trial: {"../trials/testdata/golden/trial-config*.json", "../e2e/testdata/harbor-0.26/*/*/config.json"},
	} {
		for _, g := range globs {
			files, err := filepath.Glob(g)
			if err != nil || len(files) == 0 {
				t.Fatalf("%s: nothing there: %v", g, err)
			}
			of[schema] = append(of[schema], files...)
		}
	}
	for schema, files := range of {
		for _, f := range files {
			if strings.Contains(f, "old-form") {
				continue // which the schema leaves out
			}
			into := schema
			if strings.Contains(f, "trial-start/") {
				into = trial
			}
			if err := into.Validate(plainDocument(t, f)); err != nil {
				t.Errorf("%s: %v", f, err)
			}
		}
	}
}

// TestSchemasRefuseWhatValidateRefuses walks over every key of both schemas: a typo,
// a wrong type and a value out of bounds are refused by schema and program alike.
func TestSchemasRefuseWhatValidateRefuses(t *testing.T) {
	t.Parallel()
	schema := compiled(t, JobSchema())
	for doc, key := range map[string]string{
		`{"n_atempts": 2}`:                                 "n_atempts",
		`{"n_attempts": 0}`:                                "n_attempts",
		`{"n_attempts": 1.5}`:                              "n_attempts",
		`{"job_name": 3}`:                                  "job_name",
		`{"timeout_multiplier": 0}`:                        "timeout_multiplier",
		`{"agent_timeout_multiplier": -1}`:                 "agent_timeout_multiplier",
		`{"retry": {"max_retries": -1}}`:                   "max_retries",
		`{"retry": {"max_retrys": 1}}`:                     "max_retrys",
		`{"environment": {"cpu_enforcement_policy": "x"}}`: "cpu_enforcement_policy",
		`{"environment": {"override_memory_mb": 0}}`:       "override_memory_mb",
		`{"environment": {"mounts": [{"type": "disk", "source": "/a", "target": "/a"}]}}`: "type",
		`{"environment": {"env": ["novalue"]}}`:                                           "env",
		`{"agents": [{"nmae": "pi"}]}`:                                                    "nmae",
		`{"agents": [{"model_api_format": "telepathy"}]}`:                                 "model_api_format",
		`{"agents": [{"n_concurrent": 0}]}`:                                               "n_concurrent",
		`{"agents": [{"mcp_servers": [{"name": "a", "transport": "pigeon"}]}]}`:           "transport",
		`{"metrics": [{"type": "median"}]}`:                                               "type",
		`{"datasets": [{"path": "x", "n_tasks": 0}]}`:                                     "n_tasks",
		`{"artifacts": [{"sorce": "/a"}]}`:                                                "sorce",
		`{"source_jobs": [{"action": "x", "type": "local"}]}`:                             "action",
	} {
		var v any
		if err := json.Unmarshal([]byte(doc), &v); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: the schema says %v", doc, err)
		}
		file := filepath.Join(t.TempDir(), "c.json")
		if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, problems := loadOrDecode(file); problems == nil {
			t.Errorf("%s: the program takes it", doc)
		}
	}
}

// loadOrDecode also counts values that cannot be decoded.
func loadOrDecode(file string) (trials.JobConfig, error) {
	c, problems := LoadJob([]string{file})
	return c, problems.Err()
}

// TestSchemasHaveHarborsKeys compares the keys with those of Harbor's own schemas,
// which name the same things differently.
func TestSchemasHaveHarborsKeys(t *testing.T) {
	t.Parallel()
	ours := map[string]string{
		"SourceJobConfig": "SourceJob", "SourceTrialConfig": "SourceTrial", "TpuSpec": "TPUConfig", "ServiceVolumeConfig": "VolumeConfig",
	}
	own := map[string][]string{ // free-form with us
		"ServiceVolumeBind": nil, "ServiceVolumeVolume": nil, "ServiceVolumeImage": nil,
	}
	for file, schema := range map[string]map[string]any{"job-config": JobSchema(), "trial-config": TrialSchema()} {
		var theirs struct {
			Properties map[string]any
			Defs       map[string]struct{ Properties map[string]any } `json:"$defs"`
		}
		b, err := os.ReadFile(filepath.Join("testdata", "harbor-0.26", file+".schema.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &theirs); err != nil {
			t.Fatal(err)
		}
		compareKeys(t, file, theirs.Properties, schema)
		defs := schema["$defs"].(map[string]any)
		for name, d := range theirs.Defs {
			if _, free := own[name]; free || d.Properties == nil {
				continue
			}
			if ours[name] != "" {
				name = ours[name]
			}
			def, ok := defs[name].(map[string]any)
			if !ok {
				t.Errorf("%s: there is no %s", file, name)
				continue
			}
			compareKeys(t, file+" "+name, d.Properties, def)
		}
	}
}

// deprecatedKeys are in Harbor's schemas and are old forms, which ours leave out.
var deprecatedKeys = []string{"suppress_override_warnings", "mounts_json"}

func compareKeys(t *testing.T, where string, theirs map[string]any, schema map[string]any) {
	t.Helper()
	want := slices.DeleteFunc(slices.Sorted(maps.Keys(theirs)), func(k string) bool { return slices.Contains(deprecatedKeys, k) })
	got := slices.Sorted(maps.Keys(schema["properties"].(map[string]any)))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %s", where, diff)
	}
}

// TestSchemaDefaultsAreTheProgramsOwn holds some defaults that people look up.
func TestSchemaDefaultsAreTheProgramsOwn(t *testing.T) {
	t.Parallel()
	b, err := json.Marshal(JobSchema())
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Properties map[string]struct{ Default any }
		Defs       map[string]struct {
			Properties map[string]struct{ Default any }
		} `json:"$defs"`
	}
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	env, retry := s.Defs["EnvironmentConfig"].Properties, s.Defs["RetryConfig"].Properties
	got := fmt.Sprintf("%v %v %v %v %v %v", s.Properties["n_attempts"].Default, s.Properties["jobs_dir"].Default, s.Properties["n_concurrent_trials"].Default,
		env["type"].Default, env["delete"].Default, retry["max_wait_sec"].Default)
	if got != "1 jobs 4 docker true 60" {
		t.Error(got)
	}
}

// TestEveryBoundHasItsKey keeps bounds from outliving what they bound.
func TestEveryBoundHasItsKey(t *testing.T) {
	t.Parallel()
	if _, ok := trials.BoundOf(reflect.TypeFor[trials.JobConfig](), "timeout_multiplier"); !ok {
		t.Error("bounds of embedded types are not found")
	}
	if _, ok := trials.BoundOf(reflect.TypeFor[trials.JobConfig](), "job_name"); ok {
		t.Error("a bound that nobody wrote")
	}
}
