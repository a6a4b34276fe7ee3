package fake

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"
	"time"

	"harborgate/providers/fake/internal/vfs"
)

// tree lists everything below dir but what is below except.
func tree(t *testing.T, f *vfs.FS, dir, except string) string {
	t.Helper()
	if dir == except {
		return ""
	}
	kids, err := f.ReadDir(vfs.Root(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, k := range kids {
		at := path.Join(dir, k.Base)
		fmt.Fprintf(&out, "%s %s %d %q\n", at, k.Bits, k.Bytes, k.Target)
		if k.Bits&fs.ModeSymlink == 0 && k.IsDir() {
			out.WriteString(tree(t, f, at, except))
		}
	}
	return out.String()
}

// FuzzUploadStaysInside feeds tar streams made of fuzzed names: whatever they
// say, nothing outside the destination changes.
func FuzzUploadStaysInside(f *testing.F) {
	f.Add("a", "b", "c", byte(0))
	f.Add("way", "/etc", "way/passwd", byte(1))
	f.Add("../x", "", "a/../../y", byte(2))
	f.Add("l", "..", "l/l/l/etc/x", byte(1))
	f.Add("h", "../../etc/passwd", "h", byte(2))
	f.Add("a/b", "../..", "a/b/etc/z", byte(1))
	f.Add("in", "/inside", "in/../../q", byte(1))
	f.Fuzz(func(t *testing.T, first, target, second string, kind byte) {
		files := vfs.New(time.Now)
		for name, content := range map[string]string{"/etc/passwd": "root", "/up/old": "old", "/home/x": "x"} {
			if err := files.WriteFile(name, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := files.Symlink(vfs.Root(), "/etc", "/up/there"); err != nil {
			t.Fatal(err)
		}
		before := tree(t, files, "/", "/up")
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		types := []byte{tar.TypeReg, tar.TypeSymlink, tar.TypeLink, tar.TypeDir}
		for _, h := range []*tar.Header{
			{Name: first, Linkname: target, Typeflag: types[int(kind)%len(types)], Mode: 0o777},
			{Name: second, Typeflag: tar.TypeReg, Size: 4, Mode: 0o644},
			{Name: "there/" + second, Typeflag: tar.TypeReg, Size: 4, Mode: 0o644},
		} {
			if w.WriteHeader(h) == nil && h.Size > 0 {
				_, _ = io.WriteString(w, "evil")
			}
		}
		_ = w.Close()
		_ = unpack(context.Background(), files, &b, "/up")
		if after := tree(t, files, "/", "/up"); after != before {
			t.Errorf("outside was\n%sand is\n%s", before, after)
		}
		if got, err := files.ReadFile(vfs.Root(), "/etc/passwd"); err != nil || string(got) != "root" {
			t.Errorf("/etc/passwd is %q, error %v", got, err)
		}
	})
}

func FuzzUploadOfAnything(f *testing.F) {
	f.Add([]byte("no tar at all"))
	f.Add(make([]byte, 1024))
	f.Fuzz(func(_ *testing.T, in []byte) {
		_ = unpack(context.Background(), vfs.New(time.Now), bytes.NewReader(in), "/up")
	})
}
