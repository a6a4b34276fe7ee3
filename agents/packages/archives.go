package packages

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Archives are several packages of npm's registry in one directory: a program and the
// modules that it loads, each below a directory of its own ("." is the program's).
type Archives map[string]Archive

// Pin implements Source.
func (as Archives) Pin(context.Context) (string, error) {
	var b strings.Builder
	for _, dir := range slices.Sorted(maps.Keys(as)) {
		fmt.Fprintln(&b, dir, as[dir].Spec, as[dir].Integrity)
	}
	return pinOf([]byte(b.String())), nil
}

// Ready implements Source.
func (as Archives) Ready(ctx context.Context) error { return Archive{}.Ready(ctx) }

// Fetch implements Source.
func (as Archives) Fetch(ctx context.Context, work, dest string) error {
	return as.fetch(ctx, work, dest, npmPack)
}

func (as Archives) fetch(ctx context.Context, work, dest string, pack packer) error {
	for _, dir := range slices.Sorted(maps.Keys(as)) {
		to := filepath.Join(dest, filepath.FromSlash(dir))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		own, err := os.MkdirTemp(work, "archive-")
		if err != nil {
			return err
		}
		if err := as[dir].fetch(ctx, own, to, pack); err != nil {
			return fmt.Errorf("%s: %w", as[dir].Spec, err)
		}
	}
	return nil
}
