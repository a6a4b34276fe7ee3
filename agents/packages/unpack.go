package packages

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// unpack takes the regular files below a directory of an archive. Links and
// everything else are left out: no agent needs them, and none may lead elsewhere.
func unpack(archive, below, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	n := 0
	err = eachFile(archive, func(h *tar.Header, content io.Reader) error {
		name, ok := strings.CutPrefix(path.Clean(h.Name), below+"/")
		if !ok {
			return nil
		}
		n++
		return put(root, filepath.FromSlash(name), h, content)
	})
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("there is nothing below %s", below)
	}
	return nil
}

// manifest is the package.json of an archive.
func manifest(archive string) (text []byte, err error) {
	err = eachFile(archive, func(h *tar.Header, content io.Reader) error {
		if dir, name := path.Split(path.Clean(h.Name)); name != "package.json" || strings.Count(dir, "/") != 1 {
			return nil
		}
		text, err = io.ReadAll(io.LimitReader(content, longestManifest))
		return errors.Join(err, errEnough)
	})
	if errors.Is(err, errEnough) {
		return text, nil
	}
	return nil, errors.Join(err, errors.New("there is no package.json in the archive"))
}

// longestManifest is far more than a package says of itself.
const longestManifest = 1 << 20

// errEnough ends a look at an archive.
var errEnough = errors.New("enough")

// eachFile goes through the regular files of an archive.
func eachFile(archive string, do func(h *tar.Header, content io.Reader) error) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case h.Typeflag != tar.TypeReg:
			continue
		}
		if err := do(h, t); err != nil {
			return err
		}
	}
}

// program is how programs begin. Some packages have theirs without the right to be
// run, which they mean to get from a script that nobody runs here.
const program = "\x7fELF"

func put(root *os.Root, name string, h *tar.Header, content io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	mode, r := os.FileMode(0o644), bufio.NewReader(content)
	start, err := r.Peek(len(program))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if h.FileInfo().Mode()&0o111 != 0 || string(start) == program {
		mode = 0o755
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
