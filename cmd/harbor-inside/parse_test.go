package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"harborgate/internal/insideproto"
)

func etc(t testing.TB, passwd, group string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"passwd": passwd, "group": group} {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	somePasswd = "# comment\nroot:x:0:0::/root:/bin/sh\nbroken\nbad:x:one:1::/:\ndev:x:1000:1001:Dev:/home/dev:/bin/sh\n7:x:70:71::/seven:\nhomeless:x:5:5:::\n"
	someGroup  = "root:x:0:\ndev:x:1001:\naudio:x:29:other,dev\nvideo:x:44:dev\nnot:x:99:devil\nbad:x:y:dev\n"
)

func TestLookUpUser(t *testing.T) {
	t.Parallel()
	dir := etc(t, somePasswd, someGroup)
	none := t.TempDir()
	for _, c := range []struct {
		dir, spec string
		want      account
	}{
		{dir, "root", account{"root", 0, 0, []int{0}, "/root"}},
		{dir, "dev", account{"dev", 1000, 1001, []int{1001, 29, 44}, "/home/dev"}},
		{dir, "1000", account{"dev", 1000, 1001, []int{1001, 29, 44}, "/home/dev"}},
		{dir, "dev:video", account{"dev", 1000, 44, []int{44}, "/home/dev"}},
		{dir, "dev:12", account{"dev", 1000, 12, []int{12}, "/home/dev"}},
		{dir, "4000", account{"", 4000, 0, []int{0}, "/"}},
		{dir, "4000:5", account{"", 4000, 5, []int{5}, "/"}},
		{dir, "7", account{"7", 70, 71, []int{71}, "/seven"}},
		{dir, "homeless", account{"homeless", 5, 5, []int{5}, "/"}},
		{none, "root", account{"root", 0, 0, []int{0}, "/root"}},
		{none, "12:root", account{"", 12, 0, []int{0}, "/"}},
	} {
		got, err := lookUpUser(c.dir, c.spec)
		if err != nil {
			t.Errorf("%q: %v", c.spec, err)
		}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(account{})); diff != "" {
			t.Errorf("%q: %s", c.spec, diff)
		}
	}
	for _, spec := range []string{"ghost", "dev:ghost", "-1", "99999999999", "bad"} {
		_, err := lookUpUser(dir, spec)
		var r *insideproto.Refusal
		if !errors.As(err, &r) || r.Kind != insideproto.Invalid {
			t.Errorf("%q: %v", spec, err)
		}
	}
}

func TestLookUpUserInHostileFiles(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLine+1)
	var r *insideproto.Refusal
	if _, err := lookUpUser(etc(t, long, ""), "dev"); !errors.As(err, &r) {
		t.Errorf("an endless line: %v", err)
	}
	dir := t.TempDir()
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "passwd")); err != nil {
		t.Fatal(err)
	}
	if _, err := lookUpUser(dir, "dev"); !errors.As(err, &r) {
		t.Errorf("an endless file: %v", err)
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	rest := " 0 0 0 0 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0"
	for in, want := range map[string]process{
		"9 (sh) S 7 9 9" + rest[4:]:   {pid: 9, ppid: 7, start: 4711},
		"9 (a) Z 1 b) (c) Z 7" + rest: {pid: 9, ppid: 7, zombie: true, start: 4711},
		"9 (line\nbreak) R 7" + rest:  {pid: 9, ppid: 7, start: 4711},
		// Its first thread has ended, two others run.
		"9 (half) Z 7" + strings.Replace(rest, " 1 0 4711", " 3 0 4711", 1): {pid: 9, ppid: 7, start: 4711},
	} {
		got, ok := parseStat(9, []byte(in))
		if !ok || got != want {
			t.Errorf("%q: got %+v, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "9 (sh", "9 (sh) S", "9 (sh) S x" + rest, "9 (sh) S 7 1 2 3"} {
		if got, ok := parseStat(9, []byte(in)); ok {
			t.Errorf("%q: got %+v", in, got)
		}
	}
}

func TestDescendants(t *testing.T) {
	t.Parallel()
	all := []process{{pid: 1}, {pid: 2, ppid: 1}, {pid: 3, ppid: 2, zombie: true}, {pid: 4, ppid: 3}, {pid: 5, ppid: 1}, {pid: 6, ppid: 5}, {pid: 7, ppid: 9}, {pid: 9, ppid: 7}}
	pids := func(list []process) (out []int) {
		for _, p := range list {
			out = append(out, p.pid)
		}
		return out
	}
	if diff := cmp.Diff([]int{2, 5, 6, 4}, pids(descendants(all, 1, nil))); diff != "" {
		t.Error(diff)
	}
	spared := descendants(all, 1, func(p process) bool { return p.pid == 5 })
	if diff := cmp.Diff([]int{2, 4}, pids(spared)); diff != "" {
		t.Error(diff)
	}
}

func TestOOMCounts(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int64{
		"low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 0\n": 2,
		"oom_kill_disable 0\nunder_oom 0\noom_kill 7\n":               7,
	} {
		if got, ok := parseOOMKills(in); !ok || got != want {
			t.Errorf("%q: got %d, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "oom_kill_disable 0\n", "oom_kill x\n"} {
		if got, ok := parseOOMKills(in); ok {
			t.Errorf("%q: got %d", in, got)
		}
	}
	v2, v1 := cgroupPaths("9:name=systemd:/a\n8:memory:/docker/b\n0::/c:d\n", "memory")
	if v2 != "/c:d" || v1 != "/docker/b" {
		t.Errorf("got %q and %q", v2, v1)
	}
}

func TestCommandEnv(t *testing.T) {
	t.Parallel()
	bytesOf := func(list ...string) [][]byte { return toBytes(list) }
	for name, c := range map[string]struct {
		spec insideproto.Supervised
		who  account
		want environment
	}{
		"nothing": {insideproto.Supervised{}, account{uid: os.Geteuid(), home: "/h"}, environment{"PATH": defaultPath, "HOME": "/h"}},
		"own home is kept": {insideproto.Supervised{Environ: bytesOf("HOME=/kept", "PATH=/p", "A=1")},
			account{uid: os.Geteuid(), home: "/h"}, environment{"PATH": "/p", "HOME": "/kept", "A": "1"}},
		"another user's home": {insideproto.Supervised{Environ: bytesOf("HOME=/root")},
			account{uid: 4000, home: "/h"}, environment{"PATH": defaultPath, "HOME": "/h"}},
		"asked for": {insideproto.Supervised{Environ: bytesOf("A=1"), Command: insideproto.Command{
			Env: bytesOf("HOME=/mine", "A=2", "A=3=x"), TTY: &insideproto.Size{}}},
			account{uid: 4000, home: "/h"}, environment{"PATH": defaultPath, "HOME": "/mine", "A": "3=x", "TERM": defaultTerm}},
	} {
		if diff := cmp.Diff(c.want, commandEnv(c.spec, c.who)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, d := range []string{"one", "two/prog", "three"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"one/prog", "three/prog", "prog"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	search := strings.Join([]string{dir + "/one", dir + "/two", dir + "/none", "three", ""}, ":")
	for name, want := range map[string][]string{
		"prog":   {dir + "/one/prog", "./three/prog", "./prog"},
		"./x":    {"./x"},
		"/a/b":   {"/a/b"},
		"absent": nil,
	} {
		if diff := cmp.Diff(want, candidates(name, dir, search)); diff != "" {
			t.Errorf("%q: %s", name, diff)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("9 (sh) S 7 9 9 0 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0"))
	f.Add([]byte("9 (a) b) Z 1"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if p, ok := parseStat(1, in); ok && p.pid != 1 {
			t.Errorf("pid %d", p.pid)
		}
	})
}

func FuzzLookUpUser(f *testing.F) {
	f.Add(somePasswd, someGroup, "dev:video")
	f.Add("x:x:1:1:::", "", "x")
	f.Fuzz(func(t *testing.T, passwd, group, spec string) {
		a, err := lookUpUser(etc(t, passwd, group), spec)
		if err == nil && (a.uid < 0 || a.gid < 0 || len(a.groups) == 0 || a.home == "") {
			t.Errorf("%q is %+v", spec, a)
		}
	})
}

func TestHasRoom(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		used, limit string
		want        bool
	}{
		{"5\n", "max\n", true},
		{"5\n", "600\n", true},
		{"536\n", "600\n", true},
		{"537\n", "600\n", false},
		{"", "600\n", false},
		{"5\n", "", false},
	} {
		if got := hasRoom(c.used, c.limit); got != c.want {
			t.Errorf("%q of %q: got %v", c.used, c.limit, got)
		}
	}
}
