package trials

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// passing are the keys of a job that change no verdict: a job may be resumed
// with others.
var passing = []string{
	"job_name", "jobs_dir", "debug", "quiet", "n_concurrent_trials", "retry", "skip_credential_checks",
}

// Changes names the keys in which two job configurations differ so that verdicts
// could differ too, in order. Both must be redacted, or neither.
func Changes(a, b JobConfig) ([]string, error) {
	keysA, err := topLevel(a)
	if err != nil {
		return nil, err
	}
	keysB, err := topLevel(b)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(keysA)) {
		if !slices.Contains(passing, key) && !bytes.Equal(keysA[key], keysB[key]) {
			out = append(out, key)
		}
	}
	return out, nil
}

// Key is equal for two trials that do the same: it leaves out their names, their
// job and where their files are. Both must be redacted, or neither.
func (c TrialConfig) Key() (string, error) {
	c.TrialName, c.TrialsDir, c.JobID = "", "", nil
	b, err := marshalPlain(c)
	if err != nil {
		return "", fmt.Errorf("trial config: %w", err)
	}
	return string(b), nil
}

func topLevel(c JobConfig) (map[string]json.RawMessage, error) {
	b, err := marshalPlain(c)
	if err != nil {
		return nil, fmt.Errorf("job config: %w", err)
	}
	var out map[string]json.RawMessage
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("job config: %w", err)
	}
	return out, nil
}
