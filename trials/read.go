package trials

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// ReadJobConfig reads a job's config.json as it stands on disk, of any version
// of Harbor. Unknown keys are ignored here; files that users write go through
// package configs, which is strict.
func ReadJobConfig(document []byte) (JobConfig, error) {
	var m map[string]any
	if err := decodeNumbers(document, &m); err != nil {
		return JobConfig{}, fmt.Errorf("job config: %w", err)
	}
	MigrateJob(m)
	return DecodeJob(m)
}

// DecodeJob makes a JobConfig of a document in today's form, with defaults for
// what it does not say.
func DecodeJob(m map[string]any) (JobConfig, error) {
	c := blankJobConfig()
	if err := redecode(m, &c); err != nil {
		return JobConfig{}, fmt.Errorf("job config: %w", err)
	}
	if err := checkSchema(c.SchemaVersion); err != nil {
		return JobConfig{}, fmt.Errorf("job config: %w", err)
	}
	retry, _ := m["retry"].(map[string]any)
	_, explicit := retry["exclude_exceptions"]
	c.fillDefaults(explicit)
	return c, nil
}

// ReadTrialConfig reads a trial's config.json, of any version of Harbor.
func ReadTrialConfig(document []byte) (TrialConfig, error) {
	var m map[string]any
	if err := decodeNumbers(document, &m); err != nil {
		return TrialConfig{}, fmt.Errorf("trial config: %w", err)
	}
	migrateEnvironment(m)
	return DecodeTrial(m)
}

// DecodeTrial makes a TrialConfig of a document in today's form.
func DecodeTrial(m map[string]any) (TrialConfig, error) {
	c := blankTrialConfig()
	if err := redecode(m, &c); err != nil {
		return TrialConfig{}, fmt.Errorf("trial config: %w", err)
	}
	if err := checkSchema(c.SchemaVersion); err != nil {
		return TrialConfig{}, fmt.Errorf("trial config: %w", err)
	}
	c.fillDefaults()
	return c, nil
}

func checkSchema(v int) error {
	if v != ConfigSchema {
		return fmt.Errorf("schema_version %d is not known, want %d", v, ConfigSchema)
	}
	return nil
}

// MigrateJob turns Harbor's earlier forms into today's, in place, and says in
// words what it changed.
func MigrateJob(m map[string]any) []string {
	var notes []string
	if old, ok := m["orchestrator"].(map[string]any); ok {
		delete(m, "orchestrator")
		notes = append(notes, "orchestrator: its keys now stand at the top level")
		moveOrchestrator(m, old)
	}
	notes = append(notes, migrateEnvironment(m)...)
	datasets, _ := m["datasets"].([]any)
	for i, d := range datasets {
		dataset, _ := d.(map[string]any)
		if registry, ok := dataset["registry"].(map[string]any); ok {
			delete(dataset, "registry")
			notes = append(notes, fmt.Sprintf("datasets[%d].registry: use registry_url or registry_path", i))
			setDefault(dataset, "registry_url", registry["url"])
			setDefault(dataset, "registry_path", registry["path"])
		}
	}
	if _, ok := m["plugins"]; ok {
		delete(m, "plugins")
		notes = append(notes, "plugins: they are Python code and are ignored")
	}
	return notes
}

func moveOrchestrator(m, old map[string]any) {
	n, ok := old["n_concurrent_trials"]
	if !ok {
		n = json.Number("4")
	}
	setDefault(m, "n_concurrent_trials", n)
	setDefault(m, "quiet", old["quiet"])
	setDefault(m, "retry", old["retry"])
}

// migrateEnvironment also accepts a trial's document: the block is the same.
func migrateEnvironment(m map[string]any) []string {
	env, _ := m["environment"].(map[string]any)
	var notes []string
	if mounts, ok := env["mounts_json"]; ok {
		delete(env, "mounts_json")
		setDefault(env, "mounts", mounts)
		notes = append(notes, "environment.mounts_json: use environment.mounts")
	}
	if _, ok := env["suppress_override_warnings"]; ok {
		delete(env, "suppress_override_warnings")
		notes = append(notes, "environment.suppress_override_warnings: it does nothing any more")
	}
	if _, ok := env["env"].([]any); ok {
		notes = append(notes, "environment.env: use a mapping instead of a list of KEY=VALUE")
	}
	return notes
}

// setDefault sets a key that is not there. A nil value sets nothing.
func setDefault(m map[string]any, key string, value any) {
	if _, ok := m[key]; !ok && value != nil {
		m[key] = value
	}
}

// redecode moves a generic document into a typed one.
func redecode(m map[string]any, into any) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// decodeNumbers keeps the spelling of numbers, so 1.0 stays 1.0.
func decodeNumbers(document []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(document))
	dec.UseNumber()
	return dec.Decode(into)
}
