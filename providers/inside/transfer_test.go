package inside_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"harborgate/providers"
	"harborgate/providers/inside"
)

func writeFile(name, content string) error { return os.WriteFile(name, []byte(content), 0o644) }

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// entry is one entry of an archive.
type entry struct {
	tar.Header
	body string
}

func file(name, body string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(body))}, body}
}

func link(kind byte, name, target string) entry {
	return entry{tar.Header{Typeflag: kind, Name: name, Linkname: target, Mode: 0o777}, ""}
}

func other(kind byte, name string, mode int64) entry {
	return entry{tar.Header{Typeflag: kind, Name: name, Mode: mode}, ""}
}

func archive(t testing.TB, entries ...entry) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func content(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestUploadTree(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	dest := filepath.Join(t.TempDir(), "a", "b")
	long := strings.Repeat("l", 200) + "/" + strings.Repeat("m", 200)
	odd := "sp ace \"quo'te\n-\xff"
	script := file("./bin/run", "#!/bin/sh\n")
	script.Mode, script.ModTime = 0o4755, time.Unix(1_000_000_000, 0)
	private := other(tar.TypeDir, "private/", 0o700)
	private.ModTime = time.Unix(1_100_000_000, 0)
	err := s.Upload(t.Context(), archive(t,
		other(tar.TypeDir, "./", 0o700), private, file("private/key", "k"), script, file(long, "deep"), file(odd, "odd"),
		file("empty", ""), link(tar.TypeLink, "hard", "bin/run"), link(tar.TypeSymlink, "sym", "/etc/passwd"),
		other(tar.TypeFifo, "fifo", 0o600)), dest)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"bin/run": "#!/bin/sh\n", "private/key": "k", long: "deep", odd: "odd", "empty": "", "hard": "#!/bin/sh\n"} {
		if got := content(t, filepath.Join(dest, name)); got != want {
			t.Errorf("%q is %q", name, got)
		}
	}
	for name, want := range map[string]os.FileMode{
		"": os.ModeDir | 0o755, "bin/run": 0o755, "private": os.ModeDir | 0o700, "bin": os.ModeDir | 0o755, "fifo": os.ModeNamedPipe | 0o600,
	} {
		if st, err := os.Lstat(filepath.Join(dest, name)); err != nil || st.Mode() != want {
			t.Errorf("%q: %v, %v, want mode %v", name, st, err, want)
		}
	}
	for name, want := range map[string]time.Time{"bin/run": script.ModTime, "private": private.ModTime} {
		if st, err := os.Stat(filepath.Join(dest, name)); err != nil || !st.ModTime().Equal(want) {
			t.Errorf("%q: time %v, %v", name, st.ModTime(), err)
		}
	}
	if target, err := os.Readlink(filepath.Join(dest, "sym")); err != nil || target != "/etc/passwd" {
		t.Errorf("link to %q, %v", target, err)
	}
}

func TestB082UploadNeverNests(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	dir := t.TempDir()
	full, linked := filepath.Join(dir, "full"), filepath.Join(dir, "linked")
	for _, d := range []string{full, filepath.Join(dir, "target")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(writeFile(full+"/f", "old"), writeFile(full+"/kept", ""), os.Symlink("target", linked)); err != nil {
		t.Fatal(err)
	}
	for _, dest := range []string{filepath.Join(dir, "missing", "deep"), full, full + "/", linked} {
		if err := s.Upload(t.Context(), archive(t, file("f", "new")), dest); err != nil || content(t, filepath.Join(dest, "f")) != "new" {
			t.Errorf("%s: %v", dest, err)
		}
	}
	if !exists(full+"/kept") || !exists(filepath.Join(dir, "target", "f")) {
		t.Error("a file is not where it should be")
	}
	wantKind(t, s.Upload(t.Context(), archive(t, file("f", "new")), full+"/f"), providers.KindInvalid)
	if content(t, full+"/f") != "new" {
		t.Error("the file was changed")
	}
}

func TestB079UploadStaysBelowItsDestination(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	for name, entries := range map[string][]entry{
		"absolute":                 {file("/OUT/evil", "x")},
		"dots":                     {file("../evil", "x")},
		"dots within":              {file("a/../../evil", "x")},
		"through a new link":       {link(tar.TypeSymlink, "l", ".."), file("l/evil", "x")},
		"through an absolute link": {link(tar.TypeSymlink, "l", "/OUT"), file("l/evil", "x")},
		"through an old link":      {file("old/evil", "x")},
		"directory at an old link": {other(tar.TypeDir, "old/", 0o777), file("old/evil", "x")},
		"hard link from outside":   {link(tar.TypeLink, "h", "../secret")},
		"hard link through a link": {link(tar.TypeSymlink, "l", ".."), link(tar.TypeLink, "h", "l/secret")},
		"directory outside":        {other(tar.TypeDir, "../evil", 0o755)},
		"link outside":             {link(tar.TypeSymlink, "../evil", "x")},
		"character device":         {other(tar.TypeChar, "dev", 0o666)},
		"block device":             {other(tar.TypeBlock, "dev", 0o666)},
		"name too long":            {file(strings.Repeat("x", 300), "x")},
		"file over a directory":    {other(tar.TypeDir, "d/", 0o755), file("d", "x")},
		"directory over a file":    {file("d", "x"), other(tar.TypeDir, "d/", 0o755)},
		"file below a file":        {file("d", "x"), file("d/f", "x")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := t.TempDir()
			dest := filepath.Join(out, "dest")
			if err := errors.Join(os.Mkdir(dest, 0o755), os.Symlink(out, dest+"/old"), writeFile(out+"/secret", "s")); err != nil {
				t.Fatal(err)
			}
			for i := range entries {
				entries[i].Name = strings.Replace(entries[i].Name, "/OUT", out, 1)
				entries[i].Linkname = strings.Replace(entries[i].Linkname, "/OUT", out, 1)
			}
			wantKind(t, s.Upload(t.Context(), archive(t, entries...), dest), providers.KindInvalid, "upload box")
			if exists(out+"/evil") || exists(dest+"/h") || exists(dest+"/dev") {
				t.Error("something was written")
			}
		})
	}
}

func TestUploadReplacesLinksAndKeepsInnerOnes(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	dir := t.TempDir()
	dest := filepath.Join(dir, "dest")
	if err := errors.Join(os.MkdirAll(dest+"/real", 0o755), writeFile(dir+"/victim", "safe"),
		os.Symlink(dir+"/victim", dest+"/f"), os.Symlink("real", dest+"/inner")); err != nil {
		t.Fatal(err)
	}
	err := s.Upload(t.Context(), archive(t, file("f", "new"), other(tar.TypeDir, "inner/", 0o755), file("inner/g", "in")), dest)
	if err != nil || content(t, dir+"/victim") != "safe" || content(t, dest+"/f") != "new" || content(t, dest+"/real/g") != "in" {
		t.Errorf("%v, victim %q", err, content(t, dir+"/victim"))
	}
}

func TestUploadBadStreams(t *testing.T) {
	t.Parallel()
	dest := t.TempDir() // goes after the companion, which may still write what a broken stream brought
	s := open(t, inside.Options{})
	whole := archive(t, file("f", strings.Repeat("x", 5000))).Bytes()
	wantKind(t, s.Upload(t.Context(), strings.NewReader(strings.Repeat("no tar", 200)), dest), providers.KindInvalid, "malformed")
	wantKind(t, s.Upload(t.Context(), bytes.NewReader(whole[:3000]), dest), providers.KindInvalid)
	wantKind(t, s.Upload(t.Context(), bytes.NewReader(whole), ""), providers.KindInvalid)
	err := s.Upload(t.Context(), io.MultiReader(bytes.NewReader(whole[:3000]), errReader{errors.New("disk on fire")}), dest)
	if err == nil || !strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("got %v", err)
	}
	// A refusal does not wait for a source that never ends.
	r, w := io.Pipe()
	defer w.Close()
	go func() { _, _ = w.Write(bytes.Repeat([]byte("no tar"), 100000)) }()
	wantKind(t, s.Upload(t.Context(), r, dest), providers.KindInvalid)
}

func TestUploadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	dest := t.TempDir() // goes after the companion
	s := open(t, inside.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close()
	go func() {
		_, _ = w.Write(make([]byte, 10))
		cancel()
	}()
	if err := s.Upload(ctx, r, dest); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestUploadKeepsHoles(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	dest := t.TempDir()
	e := file("sparse", strings.Repeat("\x00", 4<<20)+"end"+strings.Repeat("\x00", 1<<20))
	if err := s.Upload(t.Context(), archive(t, e), dest); err != nil {
		t.Fatal(err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(dest+"/sparse", &st); err != nil || st.Size != int64(len(e.body)) || st.Blocks*512 > 1<<20 {
		t.Errorf("%v, size %d, %d on disk", err, st.Size, st.Blocks*512)
	}
	if content(t, dest+"/sparse") != e.body {
		t.Error("the content differs")
	}
}
