package inside_test

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harborgate/providers"
	"harborgate/providers/inside"
)

// listing reads an archive into "type name → content or target".
func listing(t testing.TB, r io.Reader) map[string]string {
	t.Helper()
	out := map[string]string{}
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		out[string(h.Typeflag)+" "+h.Name] = string(body) + h.Linkname
	}
}

func download(t testing.TB, s *inside.Session, path string) map[string]string {
	t.Helper()
	r, err := s.Download(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return listing(t, r)
}

func TestDownloadTree(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	dir := t.TempDir()
	odd, long := "sp ace\n\xff'", strings.Repeat("n", 255)
	if err := errors.Join(os.MkdirAll(dir+"/d/e", 0o755), os.Mkdir(dir+"/none", 0o700),
		writeFile(dir+"/d/e/f", "deep"), writeFile(dir+"/"+odd, "odd"), writeFile(dir+"/"+long, ""),
		os.Link(dir+"/d/e/f", dir+"/hard"), os.Symlink("/etc/shadow", dir+"/sym"), os.Symlink("d", dir+"/dirsym"),
		syscall.Mkfifo(dir+"/fifo", 0o600)); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"5 d/": "", "5 d/e/": "", "5 none/": "", "0 d/e/f": "deep", "0 " + odd: "odd", "0 " + long: "", "0 hard": "deep",
		"2 sym": "/etc/shadow", "2 dirsym": "d", "6 fifo": "",
	}
	for _, path := range []string{dir, dir + "/"} {
		if diff := cmp.Diff(want, download(t, s, path)); diff != "" {
			t.Error(diff)
		}
	}
	for path, want := range map[string]map[string]string{
		dir + "/d/e/f":   {"0 f": "deep"},
		dir + "/dirsym":  {"2 dirsym": "d"},
		dir + "/dirsym/": {"5 e/": "", "0 e/f": "deep"},
		dir + "/fifo":    {"6 fifo": ""},
		dir + "/none":    {},
	} {
		if diff := cmp.Diff(want, download(t, s, path)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

func TestDownloadFails(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	for path, kind := range map[string]providers.Kind{
		"/no/such": providers.KindNotFound, "/etc/passwd/x": providers.KindNotFound, "": providers.KindInvalid,
	} {
		_, err := s.Download(t.Context(), path)
		wantKind(t, err, kind)
	}
}

func TestDownloadCutOffIsAnError(t *testing.T) {
	t.Parallel()
	s, l, _ := openLine(t, inside.Options{})
	dir := t.TempDir()
	if err := os.Truncate(makeFile(t, dir+"/big"), 64<<20); err != nil {
		t.Fatal(err)
	}
	r, err := s.Download(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.CopyN(io.Discard, r, 1<<20); err != nil {
		t.Fatal(err)
	}
	l.cut(nil)
	_, err = io.Copy(io.Discard, r)
	wantKind(t, err, providers.KindUnavailable, "cut off")
	if got := run(t, s, sh("echo ok")); got.out != "ok\n" {
		t.Errorf("afterwards: %+v", got)
	}
}

func makeFile(t testing.TB, name string) string {
	t.Helper()
	touch(t, name)
	return name
}

func TestDownloadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	dir := t.TempDir()
	if err := os.Truncate(makeFile(t, dir+"/big"), 64<<20); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := s.Download(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cancel()
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAbandonedDownloadsBlockNothing(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	dir := t.TempDir()
	if err := os.Truncate(makeFile(t, dir+"/big"), 64<<20); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		r, err := s.Download(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	if err := s.Upload(t.Context(), archive(t, file("f", "x")), dir); err != nil {
		t.Error(err)
	}
}

func TestDownloadOfAFileThatChanges(t *testing.T) {
	t.Parallel()
	s := open(t, inside.Options{})
	dir := t.TempDir()
	if err := writeFile(dir+"/log", strings.Repeat("x", 1<<20)); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = os.Truncate(dir+"/log", int64(i%7)<<18)
				_ = writeFile(dir+"/gone", "x")
				_ = os.Remove(dir + "/gone")
			}
		}
	}()
	for range 30 {
		names := download(t, s, dir)
		if !slices.Contains([]int{1, 2}, len(names)) {
			t.Errorf("got %d entries", len(names))
		}
	}
	close(stop)
	<-changed
}
