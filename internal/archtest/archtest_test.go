package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// root is the directory of the module, as seen from this package.
const root = "../.."

// reserved are foreign packages with few importers.
var reserved = []Reserved{
	{
		Import: "github.com/docker", By: []string{"providers/docker"},
		Why: "its module is being replaced, so that one package shall know it",
	},
	{
		Import: "github.com/moby/buildkit", By: []string{"providers/docker"},
		Except: []string{"github.com/moby/buildkit/frontend/dockerfile/parser"},
		Why:    "only the driver builds images; reading a Dockerfile is free",
	},
	{
		Import: "os/exec", By: []string{"cmd/harbor-inside", "providers/inside/insidetest", "internal/bench", "providers/docker", "authproxy", "agents/packages"},
		Why: "the host runs no programs for a trial but those that keep docker logins and model keys, and npm: the engine is spoken to, files are read",
	},
	{
		Import: "github.com/spf13/cobra", By: []string{"cmd/harbor"},
		Why: "only the command line knows flags",
	},
	{Import: "log", Except: []string{"log/slog"}, Why: "loggers are handed in, see log/slog"},
	{Import: "plugin", Why: "the programs are static"},
}

func TestImportsFollowTheArchitecture(t *testing.T) {
	t.Parallel()
	rules, err := ReadRules(page(t))
	if err != nil {
		t.Fatal(err)
	}
	packages := readPackages(t)
	for _, problem := range rules.Check(packages) {
		t.Errorf("docs/architecture.md: %s", problem)
	}
	for _, problem := range CheckReserved(reserved, packages) {
		t.Error(problem)
	}
}

func TestEveryDependencyHasAReason(t *testing.T) {
	t.Parallel()
	used, explained := requirements(t), Modules(page(t))
	for _, m := range used {
		if !slices.Contains(explained, m) {
			t.Errorf("docs/architecture.md: dependency %s has no row", m)
		}
	}
	for _, m := range explained {
		if !slices.Contains(used, m) {
			t.Errorf("docs/architecture.md: %s has a row and is no direct dependency", m)
		}
	}
}

const smallPage = "Words.\n\n" +
	"| Package | What | May import |\n|---|---|---|\n" +
	"| `a` | first | nothing |\n| `b` | second | `a` |\n| `internal/app` | all | everything |\n" +
	"| `internal/redact` | free | nothing |\n" +
	"\n| Module | Why |\n|---|---|\n| `example.com/m` | because |\n"

func TestReadRules(t *testing.T) {
	t.Parallel()
	got, err := ReadRules(smallPage)
	if err != nil {
		t.Fatal(err)
	}
	want := Rules{
		"a": {}, "b": {Packages: []string{"a"}}, "internal/app": {Everything: true}, "internal/redact": {},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"example.com/m"}, Modules(smallPage)); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{
		"no table",
		"| Package | What | May import |\n|---|---|---|\n| `a` | first | whatever |\n",
		"| Package | What | May import |\n|---|---|---|\n| a | first | nothing |\n",
		"| Package | What |\n|---|---|\n| `a` | first |\n",
	} {
		if _, err := ReadRules(bad); err == nil {
			t.Errorf("ReadRules(%q) finds nothing wrong", bad)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	rules, err := ReadRules(smallPage)
	if err != nil {
		t.Fatal(err)
	}
	good := []Package{
		{ImportPath: Module + "a", Imports: []string{"fmt", Module + "internal/redact", Module + "a/internal/x"}},
		{ImportPath: Module + "a/internal/x", Imports: []string{Module + "a/internal/y"}},
		{ImportPath: Module + "b", Imports: []string{Module + "a"}},
		{ImportPath: Module + "internal/app", Imports: []string{Module + "a", Module + "b"}},
		{ImportPath: Module + "internal/redact"},
	}
	if got := rules.Check(good); got != nil {
		t.Errorf("Check: %q, want nothing", got)
	}
	for _, c := range []struct {
		added Package
		want  string
	}{
		{Package{ImportPath: Module + "a", Imports: []string{Module + "b"}}, "package a may not import b"},
		{Package{ImportPath: Module + "b", Imports: []string{Module + "a/internal/x"}}, "package b may not import a/internal/x"},
		{Package{ImportPath: Module + "a/internal/x", Imports: []string{Module + "b"}}, "package a/internal/x may not import b"},
		{Package{ImportPath: Module + "internal/redact", Imports: []string{Module + "a"}}, "package internal/redact may not import a"},
		{Package{ImportPath: Module + "c"}, "package c is not in the table of packages"},
	} {
		got := rules.Check(append(slices.Clone(good), c.added))
		if diff := cmp.Diff([]string{c.want}, got); diff != "" {
			t.Error(diff)
		}
	}
	without := slices.Delete(slices.Clone(good), 2, 3)
	if diff := cmp.Diff([]string{"package b is in the table and does not exist"}, rules.Check(without)); diff != "" {
		t.Error(diff)
	}
}

func TestCheckReserved(t *testing.T) {
	t.Parallel()
	rules := []Reserved{{Import: "example.com/x", By: []string{"a"}, Except: []string{"example.com/x/free"}, Why: "so"}}
	got := CheckReserved(rules, []Package{
		{ImportPath: Module + "a", Imports: []string{"example.com/x"}},
		{ImportPath: Module + "a/inner", Imports: []string{"example.com/x/y"}},
		{ImportPath: Module + "ab", Imports: []string{"example.com/x/y"}},
		{ImportPath: Module + "b", Imports: []string{"example.com/x/free", "example.com/xy"}},
	})
	if diff := cmp.Diff([]string{"package ab may not import example.com/x/y: so"}, got); diff != "" {
		t.Error(diff)
	}
}

func page(t *testing.T) string { return read(t, "docs/architecture.md") }

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// readPackages reads the imports of all packages from their files. It does not
// ask the go command, whose reading would escape the cache of test results.
func readPackages(t *testing.T) []Package {
	t.Helper()
	imports := map[string][]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && foreign(name):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		dir := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(name), root+string(filepath.Separator)))
		found, err := importsOf(name)
		imports[dir] = append(imports[dir], found...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []Package
	for _, dir := range slices.Sorted(maps.Keys(imports)) {
		all := imports[dir]
		slices.Sort(all)
		out = append(out, Package{ImportPath: Module + dir, Imports: slices.Compact(all)})
	}
	return out
}

// foreign reports whether a directory holds no packages of this module.
func foreign(dir string) bool {
	name := filepath.Base(dir)
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil || name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

// importsOf returns what a file imports; a test may import anything.
func importsOf(name string) ([]string, error) {
	if strings.HasSuffix(name, "_test.go") {
		return nil, nil
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, i := range file.Imports {
		imported, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, imported)
	}
	return out, nil
}

var requirement = regexp.MustCompile(`(?m)^(?:require )?\t?(\S+\.\S+/?\S*) v\S+$`)

// requirements are the direct ones of go.mod.
func requirements(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, m := range requirement.FindAllStringSubmatch(read(t, "go.mod"), -1) {
		out = append(out, m[1])
	}
	if len(out) == 0 {
		t.Fatal("go.mod has no requirements that this test can read")
	}
	return out
}
