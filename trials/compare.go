package trials

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// passing are the keys of a job that change no verdict: a job goes on with
// others. A key stands for all below it.
var passing = []string{
	"job_name", "jobs_dir", "debug", "quiet", "n_concurrent_trials", "retry", "skip_credential_checks", "metrics",
	"agents[].n_concurrent", "agents[].concurrency_group", "environment.delete", "environment.type",
}

// growing are the keys that say which trials a job has. Others may mean more
// trials, or fewer; each trial's own verdict stands.
var growing = []string{"n_attempts", "tasks", "datasets"}

// Change is one key in which two configurations of a job differ, in such a way
// that verdicts could differ too. Was and Now are JSON; "" is not there.
type Change struct{ Key, Was, Now string }

// Grows reports whether the change is about which trials the job has, and not
// about what they do.
func (c Change) Grows() bool { return covered(growing, c.Key) }

func (c Change) String() string {
	return fmt.Sprintf("%s was %s and is now %s", c.Key, orNothing(c.Was), orNothing(c.Now))
}

func orNothing(s string) string {
	if s == "" {
		return "not there"
	}
	return s
}

// Changes lists what differs between the configuration that a job had and the one
// that it would go on with, in the order of the keys. Both must be redacted, or
// neither.
func Changes(was, now JobConfig) ([]Change, error) {
	a, err := generic(was)
	if err != nil {
		return nil, err
	}
	b, err := generic(now)
	if err != nil {
		return nil, err
	}
	var out []Change
	compareValues("", a, b, &out)
	return slices.DeleteFunc(out, func(c Change) bool { return covered(passing, c.Key) }), nil
}

var indices = regexp.MustCompile(`\[\d+\]`)

func covered(keys []string, key string) bool {
	key = indices.ReplaceAllString(key, "[]")
	return slices.ContainsFunc(keys, func(k string) bool {
		rest, ok := strings.CutPrefix(key, k)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

func generic(c JobConfig) (any, error) {
	b, err := marshalPlain(c)
	if err != nil {
		return nil, fmt.Errorf("job config: %w", err)
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, fmt.Errorf("job config: %w", err)
	}
	return out, nil
}

// compareValues goes down to the values that differ. Lists of different lengths
// differ as a whole.
func compareValues(path string, was, now any, out *[]Change) {
	switch a := was.(type) {
	case map[string]any:
		if b, ok := now.(map[string]any); ok {
			compareMembers(path, a, b, out)
			return
		}
	case []any:
		if b, ok := now.([]any); ok && len(a) == len(b) {
			for i := range a {
				compareValues(fmt.Sprintf("%s[%d]", path, i), a[i], b[i], out)
			}
			return
		}
	}
	if a, b := printed(was), printed(now); a != b {
		*out = append(*out, Change{path, a, b})
	}
}

func compareMembers(path string, was, now map[string]any, out *[]Change) {
	all := maps.Clone(was)
	maps.Copy(all, now)
	for _, k := range slices.Sorted(maps.Keys(all)) {
		a, inA := was[k]
		b, inB := now[k]
		at := strings.TrimPrefix(path+"."+k, ".")
		if inA && inB {
			compareValues(at, a, b, out)
			continue
		}
		c := Change{Key: at}
		if inA {
			c.Was = printed(a)
		}
		if inB {
			c.Now = printed(b)
		}
		*out = append(*out, c)
	}
}

// mostPrinted is how much of a value a change shows.
const mostPrinted = 300

func printed(v any) string {
	b, err := marshalPlain(v)
	if err != nil {
		return err.Error()
	}
	if r := []rune(string(b)); len(r) > mostPrinted {
		return string(r[:mostPrinted]) + "…"
	}
	return string(b)
}

// Arm is equal for two configurations of agents that do the same, however many of
// them run at once. Both must be redacted, or neither.
func (a AgentConfig) Arm() (string, error) {
	a.fillDefaults()
	a.NConcurrent, a.ConcurrencyGroup = nil, nil
	b, err := marshalPlain(a)
	if err != nil {
		return "", fmt.Errorf("agent config: %w", err)
	}
	return string(b), nil
}

// Redacted returns the agent's configuration as it may be written to disk.
func (a AgentConfig) Redacted(lookup func(string) (string, bool)) AgentConfig {
	return a.redacted(lookup)
}
