package runner

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"harborgate/providers"
	"harborgate/tasks"
	"harborgate/trials"
)

// upload puts the contents of a host directory into dest, without what its
// .harborignore names. executable names files that get their execute bits,
// whatever the host's file has: public task sets rarely set them.
func upload(ctx context.Context, s providers.Sandbox, dir, dest string, executable ...string) error {
	ignored, err := tasks.Ignored(dir)
	if err != nil {
		return err
	}
	return send(ctx, s, dest, func(w *tar.Writer) error { return packDir(w, dir, ignored, executable) })
}

// putBack puts the contents of a directory that came out of a sandbox into dest,
// all of them: what an agent calls .harborignore is no instruction to us. Links
// that are not on the host come last, so that nothing is written through one.
func putBack(ctx context.Context, s providers.Sandbox, dir, dest string, links ...trials.Link) error {
	return send(ctx, s, dest, func(w *tar.Writer) error {
		if err := packDir(w, dir, nil, nil); err != nil {
			return err
		}
		for _, l := range links {
			hdr := &tar.Header{Typeflag: tar.TypeSymlink, Name: l.Name, Linkname: l.Target, Mode: 0o777, Format: tar.FormatPAX}
			if err := w.WriteHeader(hdr); err != nil {
				return fmt.Errorf("pack the link %q: %w", l.Name, err)
			}
		}
		return nil
	})
}

// answers reports whether a sandbox is there and usable: an empty transfer needs
// no program of the image.
func answers(ctx context.Context, s providers.Sandbox) bool {
	return send(ctx, s, "/", func(*tar.Writer) error { return nil }) == nil
}

// openDirs makes directories that every user of the sandbox may write to. A
// transfer needs no shell, and no process.
func openDirs(ctx context.Context, s providers.Sandbox, dirs ...string) error {
	return send(ctx, s, "/", func(w *tar.Writer) error {
		for _, d := range dirs {
			hdr := &tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(d, "/") + "/", Mode: 0o777}
			if err := w.WriteHeader(hdr); err != nil {
				return err
			}
		}
		return nil
	})
}

// uploadFile puts one host file at a path in the sandbox.
func uploadFile(ctx context.Context, s providers.Sandbox, file, dest string) error {
	return send(ctx, s, path.Dir(dest), func(w *tar.Writer) error { return packFile(w, file, path.Base(dest), nil) })
}

// send streams what pack writes. The first error is the one that counts: that of
// the packing, unless the sandbox ended the stream.
func send(ctx context.Context, s providers.Sandbox, dest string, pack func(*tar.Writer) error) error {
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		t := tar.NewWriter(w)
		err := errors.Join(pack(t), t.Close())
		w.CloseWithError(err)
		packed <- err
	}()
	err := s.Upload(ctx, r, dest)
	_ = r.Close() // ends the packing when the sandbox stopped reading
	if perr := <-packed; perr != nil && !errors.Is(perr, io.ErrClosedPipe) {
		err = perr
	}
	if err != nil {
		return fmt.Errorf("upload to %s: %w", dest, err)
	}
	return nil
}

func packDir(w *tar.Writer, dir string, ignored func(string) bool, executable []string) error {
	return walk(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil || rel == "." {
			return err
		}
		rel = filepath.ToSlash(rel)
		if ignored != nil && ignored(rel) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		return packFile(w, p, rel, executable)
	})
}

// packFile writes one entry. A link stays a link; sockets, pipes and devices
// have no place in a task.
func packFile(w *tar.Writer, file, name string, executable []string) error {
	fi, err := os.Lstat(file)
	if err != nil {
		return err
	}
	link := ""
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		if link, err = os.Readlink(file); err != nil {
			return err
		}
	case !fi.Mode().IsRegular() && !fi.IsDir():
		return nil
	}
	hdr, err := tar.FileInfoHeader(fi, link)
	if err != nil {
		return err
	}
	hdr.Name, hdr.Uid, hdr.Gid, hdr.Uname, hdr.Gname = name, 0, 0, "", ""
	hdr.Format = tar.FormatPAX
	if slices.Contains(executable, name) {
		hdr.Mode |= 0o111
	}
	if err := w.WriteHeader(hdr); err != nil || !fi.Mode().IsRegular() {
		return err
	}
	return copyExactly(w, file, fi.Size())
}

// copyExactly sends the size that the header promised; a file that shrinks in
// between is an error and not a hole.
func copyExactly(w io.Writer, file string, size int64) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.CopyN(w, f, size); err != nil {
		return fmt.Errorf("%s changed while it was read: %w", file, err)
	}
	return nil
}

func dirNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

func hostOwner() string { return fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()) }
