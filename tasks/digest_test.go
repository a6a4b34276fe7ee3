package tasks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDigestsAreHarbors(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/golden-hashes.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]struct {
		Checksum    string `json:"task_checksum"`
		Content     string `json:"package_content_hash"`
		Environment string `json:"environment_content_hash"`
	}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	if len(want) != 10 {
		t.Fatalf("%d golden tasks, want 10", len(want))
	}
	for name, w := range want {
		dir := filepath.Join("testdata", "golden", name)
		if got, err := Checksum(dir); err != nil || got != w.Checksum {
			t.Errorf("checksum of %s: %s, %v; want %s", name, got, err, w.Checksum)
		}
		if got, err := ContentHash(dir); err != nil || got != w.Content {
			t.Errorf("content hash of %s: %s, %v; want %s", name, got, err, w.Content)
		}
		got, err := EnvironmentHash(filepath.Join(dir, EnvironmentDir), "", name)
		if err != nil || got != w.Environment {
			t.Errorf("environment hash of %s: %s, %v; want %s", name, got, err, w.Environment)
		}
	}
}

func TestDigestVectors(t *testing.T) {
	t.Parallel()
	dir := write(t, "-- a.txt --\nhello\n-- sub/b.txt --\nx\n")
	if err := os.WriteFile(filepath.Join(dir, "sub", "b.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub", "empty"), 0o750); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]string{
		filepath.Join(dir, "sub"): "ac0978ef84110c7d4f37ee5638c2966609c8fb5c6044a0910d4ce0f2395bacd9",
		dir:                       "25f4f42544e36cff0fee551bb66b043ee7d3fd59a6e01c52842787835a9c40fc",
	} {
		if got, err := Checksum(p); err != nil || got != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
	pkg := t.TempDir()
	for _, name := range []string{"instruction.md", "task.toml", "ignored.txt"} {
		if err := os.WriteFile(filepath.Join(pkg, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const want = "49cfb585665a37380f2c2acbdf6e8ea44ff702945a1ba9ba76308f4f26382303"
	if got, err := ContentHash(pkg); err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	// The recorded task without a Dockerfile is known by its image.
	a, err := EnvironmentHash(filepath.Join(dir, "none"), "img", "name")
	b, err2 := EnvironmentHash(filepath.Join(dir, "none"), "", "img")
	if err != nil || err2 != nil || a != b || len(a) != 32 {
		t.Errorf("%s %v, %s %v", a, err, b, err2)
	}
}

// digests returns all three of a task.
func digests(t *testing.T, dir string) (checksum, content, environment string) {
	t.Helper()
	checksum, err := Checksum(dir)
	if err != nil {
		t.Fatal(err)
	}
	if content, err = ContentHash(dir); err != nil {
		t.Fatal(err)
	}
	if environment, err = EnvironmentHash(filepath.Join(dir, EnvironmentDir), "", ""); err != nil {
		t.Fatal(err)
	}
	return checksum, content, environment
}

func TestWhatDigestsIgnore(t *testing.T) {
	t.Parallel()
	const base = "-- task.toml --\n" + files + "-- tests/.harborignore --\n*.log\n/deep/\n-- steps/s/tests/.harborignore --\n*.tmp\n"
	const ignoring = base + "-- .gitignore --\nbuild/\n"
	sum0, content0, env0 := digests(t, write(t, base))
	sum1, content1, _ := digests(t, write(t, ignoring))
	for added, c := range map[string]struct {
		from                       string
		checksum, content, environ bool // whether it changes
	}{
		"tests/x.log":               {base, false, false, false},
		"tests/a/x.log":             {base, false, false, false},
		"tests/deep/x":              {base, false, false, false},
		"tests/a/deep/x":            {base, true, true, false},
		"steps/s/tests/x.tmp":       {base, false, false, false},
		"steps/s/tests/x.log":       {base, true, true, false},
		"environment/x.log":         {base, true, true, true},
		"environment/x.pyc":         {base, true, false, true},
		"environment/__pycache__/x": {base, true, false, false},
		"environment/.DS_Store":     {base, true, false, false},
		"notes.txt":                 {base, true, false, false},
		"README.md":                 {base, true, true, false},
		"trajectory.json":           {base, true, true, false},
		"tests/build/x":             {ignoring, true, false, false},
		"environment/a.pyc":         {ignoring, true, true, true},
	} {
		sum, content, env := digests(t, write(t, c.from+"-- "+added+" --\nx\n"))
		oldSum, oldContent := sum0, content0
		if c.from == ignoring {
			oldSum, oldContent = sum1, content1
		}
		if (sum != oldSum) != c.checksum || (content != oldContent) != c.content || (env != env0) != c.environ {
			t.Errorf("%s: checksum %v, content %v, environment %v", added, sum != oldSum, content != oldContent, env != env0)
		}
	}
}

func TestDigestsFollowLinksButNotForEver(t *testing.T) {
	t.Parallel()
	dir := write(t, "-- task.toml --\n"+files+"-- tests/data/x --\nx\n-- solution/y --\ny\n")
	before, _, _ := digests(t, dir)
	if err := os.Symlink("../tests/data", filepath.Join(dir, "solution", "data")); err != nil {
		t.Fatal(err)
	}
	after, _, _ := digests(t, dir)
	if before == after {
		t.Error("a link to a directory changes nothing")
	}
	if err := os.Symlink("../../solution", filepath.Join(dir, "tests", "data", "loop")); err != nil {
		t.Fatal(err)
	}
	for name, digest := range map[string]func(string) (string, error){"checksum": Checksum, "content": ContentHash} {
		if _, err := digest(dir); err == nil || !strings.Contains(err.Error(), "links back") {
			t.Errorf("%s of a loop: %v", name, err)
		}
	}
	if _, err := Checksum(t.TempDir()); err == nil {
		t.Error("an empty directory has a checksum")
	}
}

func TestIgnoreRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rules string
		yes   string
		no    string
	}{
		{"*.log", "a.log b/c.log", "a.logs log"},
		{"/a", "a a/b", "b/a ab"},
		{"a/b", "a/b a/b/c", "x/a/b a"},
		{"dir/", "dir/x a/dir/x", "dir"},
		{"**/x", "x a/x a/b/x x/y", "xx"},
		{"a/**/b", "a/b a/x/b a/x/y/b", "ab x/a/b"},
		{"a/**", "a/x a/b/c", "a"},
		{"a?c", "abc", "ac a/c"},
		{"[ab].txt", "a.txt b.txt", "c.txt"},
		{"[!ab].txt", "c.txt", "a.txt"},
		{"[]a].txt", "].txt a.txt", "b.txt"},
		{"[a", "[a", "a"},
		{"*.log\n!keep.log", "a.log", "keep.log"},
		{"dir/\n!dir/keep", "dir/keep dir/x", "keep"},
		{"# comment\n\n\\#real\n", "#real", "comment"},
		{"trail  \r\nkept\\ ", "trail", "trailx"},
		{"é*", "éa", "a"},
		{"a.b", "a.b", "axb"},
	} {
		rules := parseIgnore(c.rules)
		for _, p := range strings.Fields(c.yes) {
			if !rules.ignored(p) {
				t.Errorf("%q does not ignore %s", c.rules, p)
			}
		}
		for _, p := range strings.Fields(c.no) {
			if rules.ignored(p) {
				t.Errorf("%q ignores %s", c.rules, p)
			}
		}
	}
}

func FuzzIgnore(f *testing.F) {
	f.Add("*.log\n!a\n/b/\n[!a-]x\\", "a/b.log")
	f.Add("**\n**/\n/**/a/**\n[", "x")
	f.Fuzz(func(t *testing.T, rules, p string) {
		if parseIgnore("# only a comment\n").ignored(p) {
			t.Fatalf("a comment ignores %q", p)
		}
		parseIgnore(rules).ignored(p)
	})
}
