package lint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"harborgate/tasks"
)

// All selects every rule.
const All = "ALL"

// datasetFile describes a data set, and may hold settings for its tasks.
const datasetFile = "dataset.toml"

// Settings say which rules are on.
type Settings struct {
	Select       []string `toml:"select"`        // instead of the defaults; names or ALL
	ExtendSelect []string `toml:"extend-select"` // beside them
	Ignore       []string `toml:"ignore"`        // wins over both
}

func (s Settings) selects(r Rule) bool {
	if slices.Contains(s.Ignore, r.Name) {
		return false
	}
	on := r.Default
	if len(s.Select) > 0 {
		on = has(s.Select, r.Name)
	}
	return on || has(s.ExtendSelect, r.Name)
}

func has(names []string, rule string) bool {
	return slices.Contains(names, rule) || slices.Contains(names, All)
}

// Check reports names that are no rules. where says who wrote them.
func (s Settings) Check(where string) error {
	var names []string
	for _, r := range Rules() {
		names = append(names, r.Name)
	}
	for _, list := range []struct {
		key    string
		values []string
		all    bool
	}{{"select", s.Select, true}, {"extend-select", s.ExtendSelect, true}, {"ignore", s.Ignore, false}} {
		for _, v := range list.values {
			if slices.Contains(names, v) || list.all && v == All {
				continue
			}
			if near := tasks.Closest(v, names); near != "" {
				return fmt.Errorf("%s: %s: there is no rule %q: did you mean %s?", where, list.key, v, near)
			}
			return fmt.Errorf("%s: %s: there is no rule %q: choose among %s", where, list.key, v, strings.Join(names, ", "))
		}
	}
	return nil
}

// With adds the settings of somebody closer to the task. A closer selection replaces.
func (s Settings) With(closer Settings) Settings {
	if len(closer.Select) > 0 {
		s.Select = closer.Select
	}
	s.ExtendSelect = slices.Concat(s.ExtendSelect, closer.ExtendSelect)
	s.Ignore = slices.Concat(s.Ignore, closer.Ignore)
	return s
}

// SettingsOf reads [metadata.harbor.lint] of a task's task.toml and of the nearest
// dataset.toml above it. Files that are no TOML have no settings: a rule says that.
func SettingsOf(dir string) (Settings, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Settings{}, fmt.Errorf("lint settings of %s: %w", dir, err)
	}
	var out Settings
	for up := filepath.Dir(abs); ; up = filepath.Dir(up) {
		s, found, err := readSettings(filepath.Join(up, datasetFile))
		if err != nil {
			return out, err
		}
		if out = s; found || up == filepath.Dir(up) {
			break
		}
	}
	own, _, err := readSettings(filepath.Join(abs, tasks.ConfigFile))
	return out.With(own), err
}

func readSettings(file string) (s Settings, found bool, err error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err != nil {
		return s, false, fmt.Errorf("lint settings: %w", err)
	}
	var doc struct {
		Metadata struct {
			Harbor struct {
				Lint map[string]any `toml:"lint"`
			} `toml:"harbor"`
		} `toml:"metadata"`
	}
	if err := toml.Unmarshal(b, &doc); err != nil {
		return s, true, nil //nolint:nilerr // a rule says that
	}
	known := map[string]*[]string{"select": &s.Select, "extend-select": &s.ExtendSelect, "ignore": &s.Ignore}
	for key, value := range doc.Metadata.Harbor.Lint {
		into, ok := known[key]
		if !ok {
			return s, true, fmt.Errorf("%s: metadata.harbor.lint.%s is not known: there are select, extend-select and ignore", file, key)
		}
		list, ok := value.([]any)
		for _, v := range list {
			name, isText := v.(string)
			ok = ok && isText
			*into = append(*into, name)
		}
		if !ok {
			return s, true, fmt.Errorf("%s: metadata.harbor.lint.%s must be a list of rule names", file, key)
		}
	}
	return s, true, s.Check(file + ": metadata.harbor.lint")
}
