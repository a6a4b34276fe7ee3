package tasks

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// Ignored returns which names below dir (a tests or solution directory) its
// .harborignore keeps out of sandboxes; nil when it has none.
func Ignored(dir string) (func(name string) bool, error) {
	b, err := readRegular(filepath.Join(dir, harborIgnore))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rules := parseIgnore(string(b))
	return func(name string) bool { return name == harborIgnore || rules.ignored(name) }, nil
}
