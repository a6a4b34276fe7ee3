package vfs_test

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"harborgate/providers/fake/internal/vfs"
)

// sample is a small tree: /d/f, /d/sub, /d/up -> .., /link -> d, /loop -> loop,
// and /private of user 7.
func sample(t *testing.T) *vfs.FS {
	t.Helper()
	f := vfs.New(time.Now)
	root := vfs.Root()
	err := errors.Join(
		f.WriteFile("/d/f", []byte("content"), 0o644), f.MkdirAll("/d/sub", 0o755),
		f.Symlink(root, "..", "/d/up"), f.Symlink(root, "d", "/link"), f.Symlink(root, "loop", "/loop"),
		f.Symlink(root, "/nowhere", "/dangling"),
		f.WriteFile("/private", []byte("p"), 0o600), f.Chown(root, "/private", 7, 7),
		f.Mkdir(root, "/closed", 0o700), f.WriteFile("/closed/f", nil, 0o644),
	)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestLookup(t *testing.T) {
	t.Parallel()
	f := sample(t)
	user := vfs.Cred{UID: 7, GID: 7}
	for _, test := range []struct {
		who  vfs.Cred
		path string
		want error
	}{
		{user, "/d/f", nil},
		{user, "//d/./sub/../f", nil},
		{user, "/link/f", nil},
		{user, "/link/up/d/f", nil},
		{user, "/d/sub/", nil},
		{user, "/../../d", nil},
		{user, "/d/f/", syscall.ENOTDIR},
		{user, "/d/f/x", syscall.ENOTDIR},
		{user, "/d/none", syscall.ENOENT},
		{user, "/none/f", syscall.ENOENT},
		{user, "/none/..", syscall.ENOENT},
		{user, "/dangling", syscall.ENOENT},
		{user, "/loop", syscall.ELOOP},
		{user, "/closed/f", syscall.EACCES},
		{vfs.Root(), "/closed/f", nil},
		{user, "/" + strings.Repeat("x", 256), syscall.ENAMETOOLONG},
	} {
		if _, err := f.Stat(test.who, test.path, true); !errors.Is(err, test.want) {
			t.Errorf("%s: error %v, want %v", test.path, err, test.want)
		}
	}
	if info, err := f.Stat(user, "/link", false); err != nil || info.Target != "d" {
		t.Errorf("/link not followed: %+v, error %v", info, err)
	}
	if real, err := f.Real(user, "/link/up/link/sub"); err != nil || real != "/d/sub" {
		t.Errorf("real path %q, error %v", real, err)
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	user := vfs.Cred{UID: 7, GID: 7}
	for name, test := range map[string]struct {
		do   func(f *vfs.FS) error
		want error
	}{
		"mkdir where something is":   {func(f *vfs.FS) error { return f.Mkdir(vfs.Root(), "/d", 0o755) }, fs.ErrExist},
		"mkdir without permission":   {func(f *vfs.FS) error { return f.Mkdir(user, "/d/new", 0o755) }, fs.ErrPermission},
		"mkdir all over a file":      {func(f *vfs.FS) error { return f.MkdirAll("/d/f/x", 0o755) }, syscall.ENOTDIR},
		"remove a full directory":    {func(f *vfs.FS) error { return f.Remove(vfs.Root(), "/d") }, syscall.ENOTEMPTY},
		"remove the root":            {func(f *vfs.FS) error { return f.Remove(vfs.Root(), "/") }, syscall.EBUSY},
		"remove a link":              {func(f *vfs.FS) error { return f.Remove(vfs.Root(), "/dangling") }, nil},
		"rename into itself":         {func(f *vfs.FS) error { return f.Rename(vfs.Root(), "/d", "/d/sub/d") }, syscall.EINVAL},
		"rename file over directory": {func(f *vfs.FS) error { return f.Rename(vfs.Root(), "/d/f", "/closed") }, syscall.EISDIR},
		"rename directory over file": {func(f *vfs.FS) error { return f.Rename(vfs.Root(), "/d/sub", "/private") }, syscall.ENOTDIR},
		"rename over a file":         {func(f *vfs.FS) error { return f.Rename(vfs.Root(), "/d/f", "/private") }, nil},
		"chmod of another's":         {func(f *vfs.FS) error { return f.Chmod(user, "/d/f", 0o777) }, syscall.EPERM},
		"chmod of one's own":         {func(f *vfs.FS) error { return f.Chmod(user, "/private", 0o640) }, nil},
		"chown by a user":            {func(f *vfs.FS) error { return f.Chown(user, "/private", 0, 0) }, syscall.EPERM},
		"link to a directory":        {func(f *vfs.FS) error { return f.Link(vfs.Root(), "/d", "/hard") }, syscall.EPERM},
		"open exclusively": {func(f *vfs.FS) error {
			return open(f, vfs.Root(), "/d/f", syscall.O_RDWR|syscall.O_CREAT|syscall.O_EXCL)
		}, fs.ErrExist},
		"open a directory to write": {func(f *vfs.FS) error { return open(f, vfs.Root(), "/d", syscall.O_WRONLY) }, syscall.EISDIR},
		"open another's file":       {func(f *vfs.FS) error { return open(f, vfs.Cred{UID: 8}, "/private", syscall.O_RDONLY) }, fs.ErrPermission},
	} {
		if err := test.do(sample(t)); !errors.Is(err, test.want) {
			t.Errorf("%s: error %v, want %v", name, err, test.want)
		}
	}
}

func open(f *vfs.FS, c vfs.Cred, path string, flags int) error {
	_, err := f.Open(c, path, flags, 0o644)
	return err
}

func TestHardLinksShareTheirContent(t *testing.T) {
	t.Parallel()
	f := sample(t)
	if err := f.Link(vfs.Root(), "/d/f", "/hard"); err != nil {
		t.Fatal(err)
	}
	h, err := f.Open(vfs.Root(), "/hard", syscall.O_WRONLY|syscall.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Write([]byte(" more")); err != nil {
		t.Fatal(err)
	}
	if got, err := f.ReadFile(vfs.Root(), "/d/f"); err != nil || string(got) != "content more" {
		t.Errorf("content %q, error %v", got, err)
	}
	c := f.Clone()
	if err := c.WriteFile("/new", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := open(f, vfs.Root(), "/new", syscall.O_RDONLY); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a change of the clone shows in the original: %v", err)
	}
	h, err = c.Open(vfs.Root(), "/hard", syscall.O_WRONLY|syscall.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	shared, _ := c.ReadFile(vfs.Root(), "/d/f")
	kept, _ := f.ReadFile(vfs.Root(), "/d/f")
	if string(shared) != "x" || string(kept) != "content more" {
		t.Errorf("the clone's other name has %q, the original %q", shared, kept)
	}
}

// TestForkIsIndependent changes a fork in every way and looks at the original and
// at a second fork.
func TestForkIsIndependent(t *testing.T) {
	t.Parallel()
	root := vfs.Root()
	changes := map[string]func(*vfs.FS) error{
		"write": func(f *vfs.FS) error {
			h, err := f.Open(root, "/d/f", syscall.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = h.Write([]byte("CON"))
			return err
		},
		"truncate": func(f *vfs.FS) error { _, err := f.Open(root, "/d/f", syscall.O_WRONLY|syscall.O_TRUNC, 0); return err },
		"replace":  func(f *vfs.FS) error { return f.WriteFile("/d/f", []byte("other"), 0o600) },
		"chmod":    func(f *vfs.FS) error { return f.Chmod(root, "/d/f", 0o777) },
		"chown":    func(f *vfs.FS) error { return f.Chown(root, "/d/f", 5, 5) },
		"link":     func(f *vfs.FS) error { return f.Link(root, "/d/f", "/d/second") },
		"rename":   func(f *vfs.FS) error { return f.Rename(root, "/d/f", "/moved") },
		"remove":   func(f *vfs.FS) error { return f.Remove(root, "/d/f") },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			image := sample(t)
			before, err := image.Stat(root, "/d/f", false)
			if err != nil {
				t.Fatal(err)
			}
			first, second := image.Fork(), image.Fork()
			if err := change(first); err != nil {
				t.Fatal(err)
			}
			for which, f := range map[string]*vfs.FS{"image": image, "second fork": second} {
				after, err := f.Stat(root, "/d/f", false)
				content, readErr := f.ReadFile(root, "/d/f")
				if errors.Join(err, readErr) != nil || after != before || string(content) != "content" {
					t.Errorf("%s: %+v, %q, %v %v; before %+v", which, after, content, err, readErr, before)
				}
			}
			if changed, err := first.Stat(root, "/d/f", false); err == nil && changed == before && name != "link" && name != "write" {
				t.Errorf("the fork did not change: %+v", changed)
			}
		})
	}
}
