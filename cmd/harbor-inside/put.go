package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/sys/unix"

	"harborgate/internal/insideproto"
)

// servePut unpacks a tar stream into a directory.
func (d *daemon) servePut(s *yamux.Stream, h insideproto.Header) {
	d.transfers <- struct{}{}
	defer func() { <-d.transfers }()
	data := insideproto.NewBodyReader(s)
	if err := unpack(data, string(h.Path)); err != nil {
		refuse(s, err)
		awaitClose(s)
		return
	}
	_ = insideproto.WriteFrame(s, insideproto.FrameEnd, insideproto.Count(0))
	awaitClose(s)
}

// awaitClose reads until the host is done with the stream, so that what we wrote
// last reaches it even while it sends.
func awaitClose(s io.Reader) { _, _ = io.Copy(io.Discard, s) }

// unpack reads r to its end. Nothing is ever written outside dest: os.Root keeps
// every step below it, links included.
func unpack(r io.Reader, dest string) error {
	if err := os.MkdirAll(dest, 0o755); err != nil {
		return unpackError(dest, err)
	}
	root, err := os.OpenRoot(dest)
	if err != nil {
		return unpackError(dest, err)
	}
	defer root.Close()
	u := &unpacker{root: root, buf: make([]byte, insideproto.MaxChunk), zeros: make([]byte, insideproto.MaxChunk)}
	if err := u.entries(tar.NewReader(r)); err != nil {
		return err
	}
	if err := u.finishDirs(); err != nil {
		return err
	}
	// Behind the archive's end mark there may be padding, and FrameEnd.
	_, err = io.Copy(io.Discard, r)
	return err
}

type unpacker struct {
	root  *os.Root
	buf   []byte
	zeros []byte        // as many as buf
	dirs  []*tar.Header // whose mode and time are set last
}

func (u *unpacker) entries(t *tar.Reader) error {
	for {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return archiveError(err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if err := u.entry(t, h); err != nil {
			return unpackError(h.Name, err)
		}
	}
}

// archiveError tells a bad archive from a connection that was cut off.
func archiveError(err error) error {
	var r *insideproto.Refusal
	switch {
	case errors.Is(err, insideproto.ErrTruncated), errors.As(err, &r):
		return err
	default:
		return insideproto.Refuse(insideproto.Invalid, "the tar stream is malformed: %v", err)
	}
}

// unpackError finds the kind of a failure at name.
func unpackError(name string, err error) error {
	var r *insideproto.Refusal
	kind := insideproto.Invalid
	switch {
	case errors.As(err, &r), errors.Is(err, insideproto.ErrTruncated):
		return err
	case errors.Is(err, tar.ErrHeader), errors.Is(err, io.ErrUnexpectedEOF):
		return archiveError(err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		kind = insideproto.Exhausted
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		kind = insideproto.Denied
	case errors.Is(err, syscall.EIO):
		kind = insideproto.Internal
	}
	return insideproto.Refuse(kind, "unpack %q: %v", name, err)
}

func (u *unpacker) entry(t *tar.Reader, h *tar.Header) error {
	name, err := localName(h.Name)
	if err != nil {
		return err
	}
	create, known := u.maker(h.Typeflag)
	if !known {
		return insideproto.Refuse(insideproto.Invalid, "%q is of a type that cannot be unpacked (%q)", h.Name, h.Typeflag)
	}
	if name == "." {
		return nil // the directory itself belongs to whoever made it
	}
	if parent := path.Dir(name); parent != "." {
		if err := u.root.MkdirAll(parent, 0o755); err != nil {
			return err
		}
	}
	return create(t, h, name)
}

func (u *unpacker) maker(kind byte) (func(*tar.Reader, *tar.Header, string) error, bool) {
	makers := map[byte]func(*tar.Reader, *tar.Header, string) error{
		tar.TypeDir:       u.makeDir,
		tar.TypeReg:       u.makeFile,
		tar.TypeCont:      u.makeFile,
		tar.TypeGNUSparse: u.makeFile,
		tar.TypeSymlink:   u.makeSymlink,
		tar.TypeLink:      u.makeLink,
		tar.TypeFifo:      u.makeFIFO,
	}
	m, ok := makers[kind]
	return m, ok
}

// localName refuses names that point out of the directory by themselves.
func localName(name string) (string, error) {
	clean := path.Clean(name)
	if path.IsAbs(name) || !filepath.IsLocal(clean) {
		return "", insideproto.Refuse(insideproto.Invalid, "%q would land outside the directory", name)
	}
	return clean, nil
}

// makeDir keeps a directory that is there, or a link to one.
func (u *unpacker) makeDir(_ *tar.Reader, h *tar.Header, name string) error {
	st, err := u.root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := u.root.Mkdir(name, 0o700); err != nil {
			return err
		}
		if err := u.own(name); err != nil {
			return err
		}
	case err != nil:
		return err
	case !st.IsDir():
		return errors.New("a file is in the way of a directory")
	}
	h.Name = name
	u.dirs = append(u.dirs, h)
	return nil
}

// makeFile writes a new file: one that is there may be a link, or running.
func (u *unpacker) makeFile(t *tar.Reader, h *tar.Header, name string) error {
	if err := u.clear(name); err != nil {
		return err
	}
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = u.fill(f, t, h.Size)
	if err == nil {
		err = f.Chmod(fileMode(h))
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := u.own(name); err != nil {
		return err
	}
	return u.root.Chtimes(name, time.Time{}, h.ModTime)
}

// fill copies size bytes of r to f and leaves holes where a whole block is zero.
func (u *unpacker) fill(f *os.File, r io.Reader, size int64) error {
	for at := int64(0); at < size; {
		block := u.buf[:min(size-at, int64(len(u.buf)))]
		if _, err := io.ReadFull(r, block); err != nil {
			return err
		}
		if !bytes.Equal(block, u.zeros[:len(block)]) {
			if _, err := f.WriteAt(block, at); err != nil {
				return err
			}
		}
		at += int64(len(block))
	}
	return f.Truncate(size)
}

func (u *unpacker) makeSymlink(_ *tar.Reader, h *tar.Header, name string) error {
	if err := u.clear(name); err != nil {
		return err
	}
	if err := u.root.Symlink(h.Linkname, name); err != nil {
		return err
	}
	return u.own(name)
}

func (u *unpacker) makeLink(_ *tar.Reader, h *tar.Header, name string) error {
	target, err := localName(h.Linkname)
	if err != nil {
		return err
	}
	if target == name {
		return nil
	}
	if err := u.clear(name); err != nil {
		return err
	}
	return u.root.Link(target, name)
}

func (u *unpacker) makeFIFO(_ *tar.Reader, h *tar.Header, name string) error {
	if err := u.clear(name); err != nil {
		return err
	}
	dir, err := u.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	return unix.Mkfifoat(int(dir.Fd()), path.Base(name), uint32(fileMode(h).Perm()))
}

// clear removes a file or link that is in the way. A directory is never removed
// for something else.
func (u *unpacker) clear(name string) error {
	st, err := u.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.IsDir():
		return errors.New("a directory is in the way")
	}
	return u.root.Remove(name)
}

// own gives name to root, whatever a set-group-id directory made of it.
func (u *unpacker) own(name string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return u.root.Lchown(name, 0, 0)
}

// finishDirs sets modes and times, the last made first, because every entry
// changes the time of its directory.
func (u *unpacker) finishDirs() error {
	for i := len(u.dirs) - 1; i >= 0; i-- {
		h := u.dirs[i]
		mode := fileMode(h)
		if h.Mode&0o1000 != 0 {
			mode |= fs.ModeSticky
		}
		if err := u.root.Chmod(h.Name, mode); err != nil {
			return unpackError(h.Name, err)
		}
		if err := u.root.Chtimes(h.Name, time.Time{}, h.ModTime); err != nil {
			return unpackError(h.Name, err)
		}
	}
	return nil
}

// fileMode drops everything but permissions: a set-user-id file of root's would be
// a gift.
func fileMode(h *tar.Header) fs.FileMode { return fs.FileMode(h.Mode) & fs.ModePerm }
