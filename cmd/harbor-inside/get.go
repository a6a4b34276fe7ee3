package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/sys/unix"

	"harborgate/internal/insideproto"
)

// Limits of a tree that is packed.
const (
	maxDepth = 200 // open directories
	dirBatch = 256 // names read at a time, so that huge directories need no memory
)

// serveGet packs a file or a directory's contents as a tar stream.
func (d *daemon) serveGet(s *yamux.Stream, h insideproto.Header) {
	d.transfers <- struct{}{}
	defer func() { <-d.transfers }()
	go func() { // the host sends nothing more: when it closes, packing ends
		awaitClose(s)
		s.Close()
	}()
	src, err := openSource(string(h.Path))
	if err != nil {
		refuse(s, err)
		return
	}
	defer src.Close()
	if insideproto.WriteRecord(s, insideproto.FrameAccepted, insideproto.Accepted{}) != nil {
		return
	}
	out := insideproto.NewBodyWriter(s, insideproto.MaxChunk, true)
	p := &packer{tar: tar.NewWriter(out), buf: make([]byte, insideproto.MaxChunk)}
	if err = p.pack(src); err == nil {
		err = p.tar.Close()
	}
	if err != nil {
		refuse(s, insideproto.Refuse(insideproto.Internal, "pack %q: %v", h.Path, err))
		return
	}
	_ = out.Close()
}

// source is where packing starts: an entry of an open directory, or all of them.
type source struct {
	dir  *os.File
	name string // "" is all of dir
}

func (s source) Close() error { return s.dir.Close() }

// openSource finds path without following it if it is a link; a trailing slash
// follows it, as everywhere.
func openSource(name string) (source, error) {
	st, err := os.Lstat(name)
	if err != nil {
		return source{}, sourceError(err)
	}
	open, entry := name, ""
	if !st.IsDir() {
		open, entry = filepath.Split(name)
	}
	if open == "" {
		open = "."
	}
	dir, err := os.Open(open)
	if err != nil {
		return source{}, sourceError(err)
	}
	return source{dir, entry}, nil
}

func sourceError(err error) error {
	kind := insideproto.Invalid
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		kind = insideproto.NotFound
	case errors.Is(err, fs.ErrPermission):
		kind = insideproto.Denied
	}
	return insideproto.Refuse(kind, "%v", err)
}

type packer struct {
	tar *tar.Writer
	buf []byte
}

func (p *packer) pack(src source) error {
	if src.name != "" {
		return p.entry(src.dir, src.name, src.name, 0)
	}
	return p.contents(src.dir, "", 0)
}

// contents packs the entries of dir, in the directory's own order.
func (p *packer) contents(dir *os.File, prefix string, depth int) error {
	for {
		names, err := dir.Readdirnames(dirBatch)
		for _, name := range names {
			if err := p.entry(dir, name, path.Join(prefix, name), depth); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// entry packs one name of dir. What vanished meanwhile is left out.
func (p *packer) entry(dir *os.File, name, as string, depth int) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			err = p.file(dir, name, as)
		case unix.S_IFDIR:
			err = p.directory(dir, name, as, depth)
		case unix.S_IFLNK:
			err = p.link(dir, name, as, &st)
		default:
			err = p.special(as, &st)
		}
	}
	var named packError
	switch {
	case err == nil, errors.Is(err, unix.ENOENT), errors.Is(err, errChanged):
		return nil
	case errors.As(err, &named):
		return err
	default:
		return packError{as, err}
	}
}

// packError names the entry that could not be packed.
type packError struct {
	name string
	err  error
}

func (e packError) Error() string { return fmt.Sprintf("%q: %v", e.name, e.err) }

func (e packError) Unwrap() error { return e.err }

// errChanged: between looking and opening, the entry became something else.
var errChanged = errors.New("changed while it was packed")

// openEntry opens a name that is of type want, never a link, and never waits for
// the other end of a FIFO.
func openEntry(dir *os.File, name string, want uint32) (*os.File, *unix.Stat_t, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		return nil, nil, errChanged
	}
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != want {
		err = errChanged
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, &st, nil
}

func header(kind byte, name string, st *unix.Stat_t) *tar.Header {
	return &tar.Header{
		Typeflag: kind,
		Name:     name,
		Mode:     int64(st.Mode & 0o7777),
		Uid:      int(st.Uid),
		Gid:      int(st.Gid),
		// Whole seconds: more would need an extra header for every file.
		ModTime: time.Unix(st.Mtim.Sec, 0),
	}
}

// file packs a regular file with the size that it has now: what grows is cut, what
// shrinks is filled with zeros.
func (p *packer) file(dir *os.File, name, as string) error {
	f, st, err := openEntry(dir, name, unix.S_IFREG)
	if err != nil {
		return err
	}
	defer f.Close()
	h := header(tar.TypeReg, as, st)
	if st.Size > insideproto.MaxFile {
		return p.skip(h, fmt.Sprintf("it has %d bytes, more than %d", st.Size, int64(insideproto.MaxFile)))
	}
	h.Size = st.Size
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.CopyBuffer(writerOnly{p.tar}, io.LimitReader(f, h.Size), p.buf)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(writerOnly{p.tar}, io.LimitReader(zeros{}, h.Size-n), p.buf)
	return err
}

func (p *packer) directory(dir *os.File, name, as string, depth int) error {
	f, st, err := openEntry(dir, name, unix.S_IFDIR)
	if err != nil {
		return err
	}
	defer f.Close()
	h := header(tar.TypeDir, as+"/", st)
	if depth >= maxDepth {
		return p.skip(h, fmt.Sprintf("directories are nested deeper than %d", maxDepth))
	}
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	return p.contents(f, as, depth+1)
}

// skip lists an entry without its content, and says why.
func (p *packer) skip(h *tar.Header, why string) error {
	h.PAXRecords = map[string]string{insideproto.SkippedRecord: why}
	return p.tar.WriteHeader(h)
}

func (p *packer) link(dir *os.File, name, as string, st *unix.Stat_t) error {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(dir.Fd()), name, buf)
	if err != nil {
		return err
	}
	h := header(tar.TypeSymlink, as, st)
	h.Linkname = string(buf[:n])
	return p.tar.WriteHeader(h)
}

// special packs what has no content. Sockets have no place in an archive.
func (p *packer) special(as string, st *unix.Stat_t) error {
	kinds := map[uint32]byte{unix.S_IFIFO: tar.TypeFifo, unix.S_IFCHR: tar.TypeChar, unix.S_IFBLK: tar.TypeBlock}
	kind, ok := kinds[st.Mode&unix.S_IFMT]
	if !ok {
		return nil
	}
	h := header(kind, as, st)
	if kind != tar.TypeFifo {
		h.Devmajor, h.Devminor = int64(unix.Major(st.Rdev)), int64(unix.Minor(st.Rdev))
	}
	return p.tar.WriteHeader(h)
}

// writerOnly hides ReadFrom, which would not use our buffer.
type writerOnly struct{ io.Writer }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
