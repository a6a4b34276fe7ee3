package fake

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"harborgate/providers"
	"harborgate/providers/fake/internal/vfs"
)

func (s *sandbox) Upload(ctx context.Context, r io.Reader, dest string) error {
	return s.perform(ctx, OpUpload, dest, func(ctx context.Context) error {
		m, err := s.box.running("upload")
		if err != nil {
			return err
		}
		return unpack(ctx, m.FS, r, dest)
	})
}

// unpack writes a tar stream into dest.
func unpack(ctx context.Context, f *vfs.FS, r io.Reader, dest string) error {
	if !path.IsAbs(dest) {
		return providers.Errorf(providers.KindInvalid, "upload", "destination %q is not an absolute path", dest)
	}
	if err := f.MkdirAll(dest, 0o755); err != nil {
		return providers.E(providers.KindInvalid, "upload", fmt.Errorf("destination %s: %w", dest, err))
	}
	root, err := f.Real(vfs.Root(), dest)
	if err != nil {
		return providers.E(providers.KindInternal, "upload", err)
	}
	u := unpacker{f: f, root: root}
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return providers.E(providers.KindInvalid, "upload", fmt.Errorf("read tar: %w", err))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := u.entry(h, tr); err != nil {
			return providers.E(providers.KindInvalid, "upload", fmt.Errorf("entry %q: %w", h.Name, err))
		}
	}
}

type unpacker struct {
	f    *vfs.FS
	root string
}

var errEscapes = errors.New("it would land outside the destination")

// place returns where a name lands, with its directories made. No link of the
// tree leads out of the destination.
func (u unpacker) place(name string) (string, error) {
	if path.IsAbs(name) {
		return "", errEscapes
	}
	clean := path.Clean(name)
	if clean == ".." || strings.HasPrefix(clean, "../") {
		return "", errEscapes
	}
	dir := u.root
	for part := range strings.SplitSeq(path.Dir(clean), "/") {
		if part == "." {
			continue
		}
		next := path.Join(dir, part)
		if err := u.f.MkdirAll(next, 0o755); err != nil {
			return "", err
		}
		real, err := u.f.Real(vfs.Root(), next)
		if err != nil {
			return "", err
		}
		if !u.contains(real) {
			return "", errEscapes
		}
		dir = real
	}
	return path.Join(dir, path.Base(clean)), nil
}

func (u unpacker) contains(real string) bool {
	return u.root == "/" || real == u.root || strings.HasPrefix(real, u.root+"/")
}

func (u unpacker) entry(h *tar.Header, content io.Reader) error {
	at, err := u.place(h.Name)
	if err != nil {
		return err
	}
	if path.Clean(h.Name) == "." {
		return nil
	}
	if h.Typeflag != tar.TypeDir {
		if err := u.clear(at); err != nil {
			return err
		}
	}
	perm := h.FileInfo().Mode().Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		return u.dir(at, perm)
	case tar.TypeReg, tar.TypeGNUSparse:
		err = u.file(at, perm, content)
	case tar.TypeSymlink:
		return u.f.Symlink(vfs.Root(), h.Linkname, at)
	case tar.TypeLink:
		return u.hardLink(h.Linkname, at)
	case tar.TypeFifo:
		err = u.f.Mkfifo(vfs.Root(), at, perm)
	default:
		return fmt.Errorf("entries of type %q are refused", string(h.Typeflag))
	}
	if err == nil && !h.ModTime.IsZero() {
		err = u.f.Chtimes(vfs.Root(), at, h.ModTime)
	}
	return err
}

// clear removes what is in the way of an entry that is no directory.
func (u unpacker) clear(at string) error {
	err := u.f.Remove(vfs.Root(), at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (u unpacker) dir(at string, perm fs.FileMode) error {
	info, err := u.f.Stat(vfs.Root(), at, false)
	if err == nil && !info.IsDir() {
		if real, err := u.f.Real(vfs.Root(), at); err != nil || !u.contains(real) {
			return errEscapes
		}
	}
	if err := u.f.MkdirAll(at, perm); err != nil {
		return err
	}
	return u.f.Chmod(vfs.Root(), at, perm)
}

func (u unpacker) file(at string, perm fs.FileMode, content io.Reader) error {
	if err := u.f.WriteFile(at, nil, perm); err != nil {
		return err
	}
	h, err := u.f.Open(vfs.Root(), at, writeOnly, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(h, content)
	return err
}

func (u unpacker) hardLink(target, at string) error {
	from, err := u.place(target)
	if err != nil {
		return fmt.Errorf("link to %q: %w", target, err)
	}
	return u.f.Link(vfs.Root(), from, at)
}

func (s *sandbox) Download(ctx context.Context, name string) (io.ReadCloser, error) {
	var out io.ReadCloser
	err := s.perform(ctx, OpDownload, name, func(ctx context.Context) error {
		m, err := s.box.running("download")
		if err != nil {
			return err
		}
		info, err := m.FS.Stat(vfs.Root(), name, false)
		if err != nil {
			return providers.E(providers.KindNotFound, "download", err)
		}
		r, w := io.Pipe()
		stop := context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
		go func() {
			defer stop()
			_ = w.CloseWithError(pack(m.FS, name, info, w))
		}()
		out = r
		return nil
	})
	return out, err
}

// pack writes a tar stream of a directory's contents or of one node.
func pack(f *vfs.FS, name string, info vfs.Info, w io.Writer) error {
	tw := tar.NewWriter(w)
	p := packer{f: f, tw: tw}
	var err error
	if info.IsDir() {
		err = p.contents(name, "")
	} else {
		err = p.node(name, path.Base(name), info)
	}
	if err != nil {
		return fmt.Errorf("download %s: %w", name, err)
	}
	return tw.Close()
}

type packer struct {
	f  *vfs.FS
	tw *tar.Writer
}

func (p packer) contents(dir, prefix string) error {
	kids, err := p.f.ReadDir(vfs.Root(), dir)
	if err != nil {
		return err
	}
	for _, kid := range kids {
		if err := p.node(path.Join(dir, kid.Base), prefix+kid.Base, kid); err != nil {
			return err
		}
	}
	return nil
}

func (p packer) node(at, name string, info vfs.Info) error {
	h, err := tar.FileInfoHeader(info, info.Target)
	if err != nil {
		return err
	}
	h.Name, h.Uid, h.Gid, h.Format = name, info.UID, info.GID, tar.FormatPAX
	var content []byte
	if info.Bits.IsRegular() {
		if content, err = p.f.ReadFile(vfs.Root(), at); err != nil {
			return err
		}
		h.Size = int64(len(content))
	}
	if info.IsDir() {
		h.Name += "/"
	}
	if err := p.tw.WriteHeader(h); err != nil {
		return err
	}
	if _, err := p.tw.Write(content); err != nil {
		return err
	}
	if info.IsDir() {
		return p.contents(at, name+"/")
	}
	return nil
}
