package tasks

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

func (t *table) step() Step {
	defer t.done()
	var s Step
	t.required("name", &s.Name)
	if t.has("name") {
		if reason := badStepName(s.Name); reason != "" {
			t.fail("name", "bad-name", "rename the step and its directory", "%q %s", s.Name, reason)
		}
	}
	s.Agent = t.sub("agent").agent()
	s.Verifier = t.sub("verifier").verifier()
	s.MinReward = t.minReward("min_reward")
	if h := t.table("healthcheck"); h != nil {
		s.Healthcheck = h.healthcheck()
	}
	s.Artifacts = t.artifacts("artifacts")
	return s
}

// badStepName says why a name cannot be a directory everywhere.
func badStepName(s string) string {
	switch {
	case s == "" || s == "." || s == "..":
		return "is not the name of a directory"
	case len(s) > 255:
		return "is longer than 255 bytes"
	case strings.ContainsFunc(s, func(r rune) bool { return strings.ContainsRune(`/\:*?"<>|`, r) || unicode.IsControl(r) }):
		return `contains one of / \ : * ? " < > | or a control character`
	case strings.TrimSpace(s) != s || strings.HasSuffix(s, "."):
		return "begins or ends with a space, or ends with a dot"
	}
	return ""
}

// uniqueSteps wants names that differ on every file system.
func (t *table) uniqueSteps(steps []Step) {
	seen := map[string]string{}
	for i, s := range steps {
		key := strings.ToLower(norm.NFC.String(s.Name))
		if first, ok := seen[key]; ok && s.Name != "" {
			t.fail(element("steps", i)+".name", "duplicate-step", "rename one of the steps",
				"%q is the same directory name as that of step %q", s.Name, first)
		}
		seen[key] = s.Name
	}
}

// minReward reads a number, which stands for the key "reward", or a table of
// numbers.
func (t *table) minReward(key string) map[string]float64 {
	if number := (map[string]any{"type": "number"}); t.shape != nil {
		t.note(key, "anyOf", anyOf(number, map[string]any{"type": "object", "additionalProperties": number}))
		return nil
	}
	if _, ok := t.keys[key].(map[string]any); !ok {
		var f float64
		if !t.float(key, &f) {
			return nil
		}
		return map[string]float64{"reward": f}
	}
	sub := t.table(key)
	out := make(map[string]float64, len(sub.keys))
	for name := range sub.keys {
		var f float64
		if sub.float(name, &f) {
			out[name] = f
		}
	}
	return out
}
