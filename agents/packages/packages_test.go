package packages

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gofrs/flock"
)

// archive is an npm package of one program, and of what must not get out.
func archive(t *testing.T) (text, integrity string) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range []tar.Header{
		{Name: "package/package.json", Typeflag: tar.TypeReg, Mode: 0o644, Size: 2},
		{Name: "package/bin/agent", Typeflag: tar.TypeReg, Mode: 0o755, Size: 2},
		{Name: "package/bin/sub/data", Typeflag: tar.TypeReg, Mode: 0o600, Size: 2},
		{Name: "package/bin/link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		{Name: "package/bin/../../../escape", Typeflag: tar.TypeReg, Mode: 0o644, Size: 2},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			_, _ = w.Write([]byte("hi"))
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(b.Bytes())
	return b.String(), "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

// given is an archive that comes from no registry.
type given struct {
	Archive
	text    string
	fetched *atomic.Int64
}

func (g given) Fetch(ctx context.Context, work, dest string) error {
	return g.fetch(ctx, work, dest, func(_ context.Context, _, dir string) (string, error) {
		g.fetched.Add(1)
		path := filepath.Join(dir, "a.tgz")
		return path, os.WriteFile(path, []byte(g.text), 0o600)
	})
}

func TestPackageIsFetchedOnce(t *testing.T) {
	t.Parallel()
	text, integrity := archive(t)
	c, fetched := NewCache(filepath.Join(t.TempDir(), "agents")), new(atomic.Int64)
	p := Package{Name: "agent", Version: "1.0", From: given{Archive{"agent@1.0", integrity, "package/bin"}, text, fetched}}
	var said atomic.Int64 // by those who fetch: others wait, as other processes do
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			dir, err := NewCache(c.dir).Fetch(t.Context(), p, func() { said.Add(1) })
			if err != nil {
				t.Error(err)
				return
			}
			fi, err := os.Stat(filepath.Join(dir, "agent"))
			if err != nil || fi.Mode() != 0o755 {
				t.Errorf("%v %v", fi, err)
			}
		})
	}
	wg.Wait()
	if fetched.Load() != 1 || said.Load() != 1 {
		t.Errorf("fetched %d times, said %d times", fetched.Load(), said.Load())
	}
	dir, _ := c.Get(t.Context(), p)
	var names []string
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, _ error) error {
		if !d.IsDir() {
			names = append(names, strings.TrimPrefix(path, dir))
		}
		return nil
	})
	if !slices.Equal(names, []string{"/agent", "/sub/data"}) {
		t.Errorf("unpacked %v", names)
	}
	left, _ := filepath.Glob(filepath.Join(c.dir, ".new-*"))
	if len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

func TestOtherDigestIsNotUsed(t *testing.T) {
	t.Parallel()
	text, _ := archive(t)
	c := NewCache(filepath.Join(t.TempDir(), "agents"))
	_, err := c.Get(t.Context(), Package{Name: "agent", Version: "1.0", From: given{Archive{"agent@1.0", "sha512-AAAA", "package/bin"}, text, new(atomic.Int64)}})
	if err == nil || !strings.Contains(err.Error(), "pinned") {
		t.Errorf("got %v", err)
	}
	if entries, _ := filepath.Glob(filepath.Join(c.dir, "agent-*")); len(entries) != 1 || !strings.HasSuffix(entries[0], ".lock") {
		t.Errorf("left %v", entries)
	}
}

func TestRegistriesClientsLearnNoKeys(t *testing.T) {
	t.Parallel()
	got := environment([]string{"PATH=/bin", "ANTHROPIC_API_KEY=sk", "npm_config_registry=r", "HTTPS_PROXY=p", "NPM_TOKEN=t", "PIP_INDEX_URL=i", "PYTHONPATH=/x"})
	if !slices.Equal(got, []string{"PATH=/bin", "npm_config_registry=r", "HTTPS_PROXY=p", "PIP_INDEX_URL=i"}) {
		t.Errorf("got %v", got)
	}
}

// A program and its modules are one package, of which each is verified.
func TestArchivesAreOneDirectory(t *testing.T) {
	t.Parallel()
	text, integrity := archive(t)
	registry := func(_ context.Context, _, dir string) (string, error) {
		path := filepath.Join(dir, "a.tgz")
		return path, os.WriteFile(path, []byte(text), 0o600)
	}
	as := Archives{
		".":                {"agent@1.0", integrity, "package/bin"},
		"node_modules/@o/": {"@o/module@2.0", integrity, "package"},
	}
	dir := t.TempDir()
	if err := as.fetch(t.Context(), dir, filepath.Join(dir, "ready"), registry); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"agent", "sub/data", "node_modules/@o/package.json", "node_modules/@o/bin/agent"} {
		if _, err := os.Stat(filepath.Join(dir, "ready", name)); err != nil {
			t.Error(err)
		}
	}
	as["node_modules/@o/"] = Archive{"@o/module@2.0", "sha512-AAAA", "package"}
	if err := as.fetch(t.Context(), dir, filepath.Join(dir, "other"), registry); err == nil || !strings.Contains(err.Error(), "@o/module@2.0") {
		t.Errorf("got %v", err)
	}
}

func TestPinOfArchivesChangesWithEachOfThem(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, as := range []Archives{
		{".": {Spec: "a@1", Integrity: "sha512-AAAA"}},
		{".": {Spec: "a@1", Integrity: "sha512-AAAA"}, "m": {Spec: "m@1"}},
		{".": {Spec: "a@1", Integrity: "sha512-AAAA"}, "m": {Spec: "m@2"}},
		{".": {Spec: "a@1", Integrity: "sha512-AAAA"}, "m": {Spec: "m@2", Integrity: "sha512-AAAA"}},
	} {
		pin, err := as.Pin(t.Context())
		if err != nil || pin == "" || seen[pin] {
			t.Errorf("%v: %q %v", as, pin, err)
		}
		seen[pin] = true
	}
}

func TestPackageOutsideOfTheCacheIsRefused(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	if err := os.Mkdir(filepath.Join(parent, "secret"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := NewCache(filepath.Join(parent, "agents"))
	for _, p := range []Package{
		{Name: "agent", Version: "x/../../secret"}, {Name: "agent", Version: ".."}, {Name: "../secret", Version: "1"}, {Name: "agent", Version: ""},
	} {
		p.From = Archive{Spec: "agent@1.0"}
		if dir, err := c.Get(t.Context(), p); err == nil || dir != "" {
			t.Errorf("%+v gave %q, %v", p, dir, err)
		}
	}
	if _, err := os.Stat(c.dir); err == nil {
		t.Error("something was made")
	}
}

// What a killed process left of a fetch goes with the next one; what somebody works
// on stays.
func TestLeftoversOfKilledFetchesAreRemoved(t *testing.T) {
	t.Parallel()
	text, integrity := archive(t)
	c := NewCache(filepath.Join(t.TempDir(), "agents"))
	for _, name := range []string{".new-other-1.0", ".new-busy-1.0", ".new-agent-1.0-" + digest(t, integrity)} {
		if err := os.MkdirAll(filepath.Join(c.dir, name, "ready"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	busy := flock.New(filepath.Join(c.dir, "busy-1.0.lock"))
	if err := busy.Lock(); err != nil {
		t.Fatal(err)
	}
	if left, err := c.Sweep(true); err != nil || len(left) != 2 {
		t.Errorf("found %v, %v", left, err)
	}
	p := Package{Name: "agent", Version: "1.0", From: given{Archive{"agent@1.0", integrity, "package/bin"}, text, new(atomic.Int64)}}
	if _, err := c.Get(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	left := func() []string {
		names, _ := filepath.Glob(filepath.Join(c.dir, workPrefix+"*"))
		return names
	}
	if got := left(); len(got) != 1 || filepath.Base(got[0]) != ".new-busy-1.0" {
		t.Errorf("left %v", got)
	}
	if err := busy.Unlock(); err != nil {
		t.Fatal(err)
	}
	if gone, err := c.Sweep(false); err != nil || len(gone) != 1 || len(left()) != 0 {
		t.Errorf("removed %v, %v", gone, err)
	}
}

func digest(t *testing.T, integrity string) string {
	t.Helper()
	pin, err := Archive{Integrity: integrity}.Pin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return pin
}

// manifested is an npm package that says what it is, with a program that nobody
// made one.
func manifested(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.tgz")
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, content := range map[string]string{"package/package.json": text, "package/vendor/rg": program + strings.Repeat("\x00", 70<<10), "package/vendor/short": "x", "package/vendor/package.json": "{}"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte(content))
	}
	if err := errors.Join(w.Close(), z.Close(), os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOtherPackageThanAskedForIsNotUsed(t *testing.T) {
	t.Parallel()
	path := manifested(t, `{"name":"@o/agent","version":"1.1-linux"}`)
	for spec, ok := range map[string]bool{"@o/agent@1.1-linux": true, "@o/agent@1.2-linux": false, "@o/agent@latest": false, "agent@1.1-linux": false} {
		err := Archive{Spec: spec, Below: "package"}.fetch(t.Context(), "", filepath.Join(t.TempDir(), "to"), func(context.Context, string, string) (string, error) { return path, nil })
		if (err == nil) != ok || !ok && !strings.Contains(err.Error(), "@o/agent@1.1-linux") {
			t.Errorf("%s: %v", spec, err)
		}
	}
}

func TestProgramsWithoutTheRightToRunGetIt(t *testing.T) {
	t.Parallel()
	packed, to := manifested(t, "{}"), filepath.Join(t.TempDir(), "to")
	if err := unpack(packed, "package", to); err != nil {
		t.Fatal(err)
	}
	inside, err := cook(t, Archive{Spec: "agent@1.0", Below: "package"}.Inside(), map[string]string{"npm": "cp " + packed + " agent-1.0.tgz"})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{to, inside} {
		for name, want := range map[string]os.FileMode{"vendor/rg": 0o755, "vendor/short": 0o644, "package.json": 0o644} {
			if fi, err := os.Stat(filepath.Join(dir, name)); err != nil || fi.Mode() != want {
				t.Errorf("%s/%s: %v %v", dir, name, fi, err)
			}
		}
	}
}

func TestCacheThatCannotBeWrittenNamesItsVariable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := NewCache(filepath.Join(file, "agents")).Get(t.Context(), Package{Name: "agent", Version: "1.0", From: Archive{Spec: "agent@1.0"}})
	if err == nil || !strings.Contains(err.Error(), "XDG_CACHE_HOME") {
		t.Error(err)
	}
}
