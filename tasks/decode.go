package tasks

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// ParseConfig reads the content of a task.toml. file is its name in problems.
// The Config must not be used when the problems hold an error.
func ParseConfig(file string, content []byte) (Config, Problems) {
	c, _, problems := parseConfig(file, content)
	return c, problems
}

// parseConfig also says whether the document is TOML of a known version, so that
// the Config is at least partly what its author meant.
func parseConfig(file string, content []byte) (c Config, known bool, problems Problems) {
	d := &document{file: file, source: content}
	root := d.parse()
	if root == nil || !root.version(&c) {
		return c, false, d.problems
	}
	root.config(&c)
	return c, true, d.problems
}

func (t *table) config(c *Config) {
	t.str("source", &c.Source)
	oneOf(t, "multi_step_reward_strategy", &c.RewardStrategy, RewardMean, RewardFinal)
	c.Artifacts = t.artifacts("artifacts")
	if p := t.table("task"); p != nil {
		c.Package = p.pack()
	}
	if m := t.table("metadata"); m != nil {
		c.Metadata = m.keys
	}
	c.Verifier = t.sub("verifier").verifier()
	c.Agent = t.sub("agent").agent()
	c.Environment = t.sub("environment").environment()
	c.Solution = t.sub("solution").solution()
	for _, s := range t.tables("steps") {
		c.Steps = append(c.Steps, s.step())
	}
	t.uniqueSteps(c.Steps)
	t.done()
	if d := t.d; d.newer {
		ignored := "no key that it does not know"
		if len(d.ignored) > 0 {
			ignored = "ignored: " + strings.Join(d.ignored, ", ")
		}
		d.add(SeverityWarning, "newer-version", "schema_version", "update harbor",
			"schema_version %s is newer than %s, the newest that this program knows; %s", c.SchemaVersion, SchemaVersion, ignored)
	}
}

// sub is table, but a missing one reads as empty, so that defaults apply.
func (t *table) sub(key string) *table {
	if s := t.table(key); s != nil {
		return s
	}
	return &table{d: t.d, path: join(t.path, key)}
}

// version reads schema_version or its old name. It is false when nothing else
// in the document can be trusted to mean what we think.
func (t *table) version(c *Config) bool {
	c.SchemaVersion = SchemaVersion
	newKey, ok := t.versionKey("schema_version")
	oldKey, old := t.versionKey("version")
	t.note("version", "deprecated", true)
	switch {
	case ok && old && newKey != oldKey:
		t.fail("version", "version-conflict", "keep only schema_version", "is %q but schema_version is %q", oldKey, newKey)
		return false
	case ok:
		c.SchemaVersion = newKey
	case old:
		c.SchemaVersion = oldKey
		t.deprecated("version", "rename it to schema_version")
	default:
		return true
	}
	major, minor, valid := parseVersion(c.SchemaVersion)
	_, knownMinor, _ := parseVersion(SchemaVersion)
	key := "schema_version"
	if !ok {
		key = "version"
	}
	switch {
	case !valid:
		t.fail(key, "bad-version", `write "`+SchemaVersion+`"`, "%q is not of the form major.minor", c.SchemaVersion)
		return false
	case major != 1:
		t.fail(key, "unknown-version", "update harbor, or write the task for "+SchemaVersion,
			"%s has a major version that this program does not know", c.SchemaVersion)
		return false
	}
	t.d.newer = minor > knownMinor
	return true
}

func (t *table) versionKey(key string) (string, bool) {
	t.note(key, "anyOf", anyOf(textSchema(), map[string]any{"type": "number"}))
	v, ok := t.take(key)
	if !ok {
		return "", false
	}
	switch v := v.(type) {
	case string:
		return strings.TrimSpace(v), true
	case float64:
		t.warn(key, "unquoted-version", "put it in quotes", "is a number")
		return strconv.FormatFloat(v, 'f', max(1, fraction(v)), 64), true
	case int64:
		t.warn(key, "unquoted-version", "put it in quotes", "is a number")
		return fmt.Sprintf("%d.0", v), true
	default:
		t.wrongType(key, "a string", v)
		return "", false
	}
}

func fraction(f float64) int {
	_, digits, _ := strings.Cut(strconv.FormatFloat(f, 'f', -1, 64), ".")
	return len(digits)
}

func parseVersion(s string) (major, minor int, ok bool) {
	a, b, found := strings.Cut(s, ".")
	if !found {
		b = "0"
	}
	major, err1 := strconv.Atoi(a)
	minor, err2 := strconv.Atoi(b)
	return major, minor, err1 == nil && err2 == nil && major >= 0 && minor >= 0
}

var packageName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*$`)

func (t *table) pack() *Package {
	defer t.done()
	p := &Package{}
	t.noteRequired("name")
	if !t.str("name", &p.Name) && !t.has("name") {
		t.fail("name", "missing-key", `add name = "org/name", or remove [task]`, "is missing")
	} else if t.has("name") {
		t.packageName(&p.Name)
	}
	if t.str("version", &p.Version) && p.Version == "" {
		t.fail("version", "bad-value", "write a version such as 1.0.0, or remove the key", "is empty")
	}
	t.str("description", &p.Description)
	t.stringList("keywords", &p.Keywords)
	for _, a := range t.tables("authors") {
		var author Author
		a.required("name", &author.Name)
		a.str("email", &author.Email)
		a.done()
		p.Authors = append(p.Authors, author)
	}
	return p
}

// localOrg is that of packages whose name has none.
const localOrg = "local"

// packageName holds the whole name against the pattern. One without an organisation,
// which real tasks have, belongs to nobody's.
func (t *table) packageName(name *string) {
	if bare := localOrg + "/" + *name; packageName.MatchString(bare) {
		t.warn("name", "bare-name", "write org/name", "has no organisation; it is read as "+bare)
		*name = bare
	}
	if !packageName.MatchString(*name) || strings.Contains(*name, "..") {
		t.fail("name", "bad-value", "write org/name of letters, digits, dots, dashes and underscores", "%q is not the name of a package", *name)
	}
}

func (t *table) required(key string, into *string) {
	t.noteRequired(key)
	if !t.str(key, into) && !t.has(key) {
		t.fail(key, "missing-key", "add it", "is missing")
	}
}

func (t *table) agent() Agent {
	defer t.done()
	var a Agent
	var seconds float64
	if t.seconds("timeout_sec", &seconds, false) {
		a.TimeoutSec = &seconds
	}
	a.User = t.user("user")
	a.Network = t.network("")
	return a
}

// user reads a name or a number.
func (t *table) user(key string) string {
	t.note(key, "anyOf", anyOf(textSchema(), map[string]any{"type": "integer", "minimum": 0}))
	v, ok := t.take(key)
	switch v := v.(type) {
	case string:
		return v
	case int64:
		if v >= 0 {
			return strconv.FormatInt(v, 10)
		}
	}
	if ok {
		t.wrongType(key, "a user name or number", v)
	}
	return ""
}

func (t *table) verifier() Verifier {
	defer t.done()
	v := Verifier{TimeoutSec: DefaultVerifierTimeoutSec}
	t.seconds("timeout_sec", &v.TimeoutSec, false)
	v.Env = t.env("env")
	v.User = t.user("user")
	v.Network = t.network("")
	oneOf(t, "environment_mode", &v.Mode, VerifierShared, VerifierSeparate)
	if e := t.table("environment"); e != nil {
		env := e.environment()
		v.Environment = &env
		if v.Mode == VerifierShared {
			t.fail("environment", "shared-verifier-environment", `remove it, or write environment_mode = "separate"`,
				"cannot be given with environment_mode = \"shared\"")
		}
	}
	for _, c := range t.tables("collect") {
		v.Collect = append(v.Collect, c.collect())
	}
	return v
}

func (t *table) collect() Collect {
	defer t.done()
	c := Collect{Service: MainService, TimeoutSec: DefaultCollectTimeoutSec}
	t.required("command", &c.Command)
	t.str("service", &c.Service)
	t.seconds("timeout_sec", &c.TimeoutSec, false)
	c.User = t.user("user")
	return c
}

func (t *table) solution() Solution {
	defer t.done()
	return Solution{Env: t.env("env")}
}

func (t *table) artifacts(key string) []Artifact {
	if t.shape != nil {
		item := t.noteTables(key)
		item.artifact()
		t.note(key, "items", map[string]any{"anyOf": anyOf(textSchema(), item.shape)})
	}
	v, ok := t.take(key)
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		t.wrongType(key, "a list of paths or tables", v)
		return nil
	}
	var out []Artifact
	for i, item := range list {
		var a Artifact
		switch item := item.(type) {
		case string:
			a.Source = item
		case map[string]any:
			a = (&table{d: t.d, path: element(join(t.path, key), i), keys: item}).artifact()
		default:
			t.wrongType(element(key, i), "a path or a table", item)
			continue
		}
		if err := a.Validate(); err != nil {
			t.fail(element(key, i), "bad-artifact", "correct the path", "%v", err)
		}
		out = append(out, a)
	}
	return out
}

func (t *table) artifact() (a Artifact) {
	defer t.done()
	t.required("source", &a.Source)
	t.str("destination", &a.Destination)
	t.stringList("exclude", &a.Exclude)
	t.str("service", &a.Service)
	return a
}
