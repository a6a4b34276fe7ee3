package main

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// FuzzUnpack unpacks two entries of any kind, and checks that nothing but dest
// changes.
func FuzzUnpack(f *testing.F) {
	f.Add(byte(tar.TypeReg), "../evil", "", byte(tar.TypeReg), "/evil", "")
	f.Add(byte(tar.TypeSymlink), "l", "..", byte(tar.TypeReg), "l/evil", "")
	f.Add(byte(tar.TypeLink), "h", "old/secret", byte(tar.TypeReg), "h", "")
	f.Add(byte(tar.TypeDir), "old/", "", byte(tar.TypeDir), "old/evil/", "")
	f.Add(byte(tar.TypeFifo), "old/evil", "", byte(tar.TypeChar), "dev", "")
	f.Add(byte(tar.TypeDir), "d/", "", byte(tar.TypeReg), "./d//f", "")
	f.Fuzz(func(t *testing.T, kind1 byte, name1, link1 string, kind2 byte, name2, link2 string) {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		for _, h := range []tar.Header{
			{Typeflag: kind1, Name: name1, Linkname: link1, Mode: 0o7755},
			{Typeflag: kind2, Name: name2, Linkname: link2, Mode: 0o7755},
		} {
			if w.WriteHeader(&h) != nil {
				return
			}
		}
		if err := w.Close(); err != nil {
			return
		}
		out := t.TempDir()
		dest := filepath.Join(out, "dest")
		if err := os.Mkdir(dest, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(out, "secret"), []byte("s"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("..", filepath.Join(dest, "old")); err != nil {
			t.Fatal(err)
		}
		_ = unpack(&archive, dest)
		names, err := os.ReadDir(out)
		if err != nil || len(names) != 2 {
			t.Fatalf("%v, %v", names, err)
		}
		st, err := os.Stat(filepath.Join(out, "secret"))
		if err != nil || st.Mode() != 0o600 || st.Size() != 1 {
			t.Errorf("the file outside: %v, %v", st, err)
		}
		_ = filepath.WalkDir(dest, func(name string, d fs.DirEntry, err error) error {
			if i, ierr := d.Info(); ierr == nil && i.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeDevice) != 0 {
				t.Errorf("%s has mode %v", name, i.Mode())
			}
			return err
		})
	})
}
