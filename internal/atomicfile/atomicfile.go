// Package atomicfile writes files so that a reader, or a crash, sees the old
// content or the new one and nothing between.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Write replaces the file at path: temporary file beside it, fsync, rename,
// fsync of the directory. On error the old file is untouched and no temporary
// file is left.
func Write(path string, content []byte, mode os.FileMode) error {
	return WriteFrom(path, mode, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// WriteFrom is Write for content that fill writes piece by piece. When fill fails,
// so does the write.
func WriteFrom(path string, mode os.FileMode, fill func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, half(path)+"*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, unnamed(err, path))
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
			err = fmt.Errorf("write %s: %w", path, unnamed(err, path))
		}
	}()
	if err = fill(f); err != nil {
		return err
	}
	if err = f.Chmod(mode); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// half is how the names of temporary files for a file begin.
func half(path string) string { return "." + filepath.Base(path) + "." }

// unnamed takes the name of a temporary file, which means nothing to anybody, out of an
// error about it.
func unnamed(err error, path string) error {
	var about *fs.PathError
	if errors.As(err, &about) && strings.HasPrefix(filepath.Base(about.Path), half(path)) {
		return about.Err
	}
	var moved *os.LinkError
	if errors.As(err, &moved) {
		return moved.Err
	}
	return err
}

// Clean removes what writers of files of a directory left that were killed. Nobody
// may be writing these files meanwhile.
func Clean(dir string, names ...string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("clean up after writers in %s: %w", dir, err)
	}
	var errs []error
	for _, e := range entries {
		written := func(name string) bool { return strings.HasPrefix(e.Name(), half(name)) }
		if e.Type().IsRegular() && slices.ContainsFunc(names, written) {
			errs = append(errs, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
