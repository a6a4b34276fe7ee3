package packages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
)

// loader is the name of the dynamic loader in a portable directory.
const loader = "ld.so"

// asked are libraries that are looked for when they are needed, or that packages
// from registries count on: nothing names them beforehand.
var asked = regexp.MustCompile(`^lib(gcc_s|stdc\+\+|dl|pthread|rt|util|resolv|nss_files|nss_dns)\.so\.\d+$`)

// resolved is a line of ldd's: a library, or the loader.
var resolved = regexp.MustCompile(`(?m)^\t(?:\S+ => )?(/\S+) \(0x`)

// copyLibraries copies all shared libraries that programs and modules want.
func copyLibraries(ctx context.Context, dir string, programs []string) error {
	libraries, err := needed(ctx, programs)
	if err != nil {
		return err
	}
	for _, path := range libraries {
		name := filepath.Base(path)
		if isLoader(name) {
			name = loader
		}
		if err := copyFile(path, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, loader)); err != nil {
		return errors.New("the host's Python has no dynamic loader that could be taken along: it has to be one that is linked dynamically")
	}
	return nil
}

// needed lists the files of libraries, with those that are asked for later and are
// beside the libc.
func needed(ctx context.Context, programs []string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "ldd", programs...)
	out, err := cmd.Output()
	if err != nil && !errors.As(err, new(*exec.ExitError)) { // it fails for one that needs none
		return nil, fmt.Errorf("list the libraries of Python: %w", err)
	}
	all := librariesIn(out)
	for _, path := range all {
		if filepath.Base(path) != "libc.so.6" {
			continue
		}
		entries, err := os.ReadDir(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if asked.MatchString(e.Name()) {
				all = append(all, filepath.Join(filepath.Dir(path), e.Name()))
			}
		}
		break
	}
	return all, nil
}

// librariesIn are those that ldd found, each once.
func librariesIn(out []byte) []string {
	var all []string
	for _, m := range resolved.FindAllSubmatch(out, -1) {
		all = append(all, string(m[1]))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func isLoader(name string) bool {
	ok, _ := filepath.Match("ld-*.so*", name)
	return ok
}

// copyTree copies directories and what files say, links as what they lead to.
func copyTree(from, to string, without func(name string) bool) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != from && without(d.Name()) && d.IsDir():
			return filepath.SkipDir
		case path != from && without(d.Name()) || d.IsDir():
			return nil
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if isFile(path) { // not a link to nothing, or to a directory
			return copyFile(path, filepath.Join(to, rel))
		}
		return nil
	})
}

// copyFile copies a file for everybody to read.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	fi, err := in.Stat()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if fi.Mode()&0o111 != 0 {
		mode = 0o755
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func isFile(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular()
}

func isDir(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.IsDir()
}
