package view

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"

	"harborgate/trials"
	"harborgate/trials/results"
)

const (
	mostDocument = 32 << 20 // bytes of a JSON document that is read whole
	mostEntries  = 5000     // of one directory that are listed
)

// folder opens files below one directory and nothing else: os.Root keeps links
// from leading out, and what is no regular file is not opened, for a FIFO would
// block and a device may do anything. Nothing is ever written. Safe for concurrent
// use.
type folder struct {
	root *os.Root
	path string
}

func openFolder(dir string) (*folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &folder{root: root, path: dir}, nil
}

func (f *folder) close() { _ = f.root.Close() }

// open opens a regular file. It is looked at before, because opening can have an
// effect, and after, because it may have been replaced.
func (f *folder) open(name string) (*os.File, fs.FileInfo, error) {
	name = filepath.FromSlash(name)
	fi, err := f.root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is %s and is not opened", name, kindOf(fi.Mode()))
	}
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	now, err := file.Stat()
	if err == nil && !now.Mode().IsRegular() {
		err = fmt.Errorf("%s is %s and is not read", name, kindOf(now.Mode()))
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, now, nil
}

// read returns a whole document.
func (f *folder) read(name string) ([]byte, error) {
	file, fi, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if fi.Size() > mostDocument {
		return nil, fmt.Errorf("%s has %s, at most %s are read", name, sizeText(fi.Size()), sizeText(mostDocument))
	}
	return io.ReadAll(io.LimitReader(file, mostDocument))
}

// result reads the result of the trial in a directory.
func (f *folder) result(dir string) (*trials.Result, error) {
	name := path.Join(dir, results.ResultFile)
	b, err := f.read(name)
	if err != nil {
		return nil, err
	}
	r, err := results.ParseTrialResult(b, name)
	if err != nil {
		return nil, err
	}
	if x := r.ExceptionInfo; x != nil && r.Harborgate == nil { // Harbor blames nobody
		r.Harborgate = &trials.Extra{Failure: &trials.Failure{Exception: x.Type, Message: x.Message, Blame: trials.BlameOf(x.Type)}}
	}
	return r, nil
}

// entry is one name in a directory.
type entry struct {
	name   string // raw
	mode   fs.FileMode
	size   int64
	target string // of a link
}

// list returns the entries of a directory, directories first, and whether there
// are more than it lists.
func (f *folder) list(dir string) ([]entry, bool, error) {
	d, err := f.root.OpenFile(filepath.FromSlash(dir), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, false, err
	}
	defer d.Close()
	found, err := d.ReadDir(mostEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	more := len(found) > mostEntries
	found = found[:min(len(found), mostEntries)]
	out := make([]entry, 0, len(found))
	for _, e := range found {
		x := entry{name: e.Name(), mode: e.Type()}
		if fi, err := e.Info(); err == nil {
			x.mode, x.size = fi.Mode(), fi.Size()
		}
		if x.mode&fs.ModeSymlink != 0 {
			x.target, _ = f.root.Readlink(filepath.FromSlash(path.Join(dir, x.name)))
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b entry) int {
		if a.mode.IsDir() != b.mode.IsDir() {
			if a.mode.IsDir() {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.name, b.name)
	})
	return out, more, nil
}

// kindOf says what something is that is no regular file.
func kindOf(m fs.FileMode) string {
	for _, k := range []struct {
		bit  fs.FileMode
		name string
	}{
		{fs.ModeDir, "a directory"}, {fs.ModeSymlink, "a link"}, {fs.ModeNamedPipe, "a pipe"},
		{fs.ModeSocket, "a socket"}, {fs.ModeDevice, "a device"},
	} {
		if m&k.bit != 0 {
			return k.name
		}
	}
	return "no regular file"
}
