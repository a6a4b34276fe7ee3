package fake_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"harborgate/providers/fake"
)

// TestHostIsOutOfReach tries to see and change a directory of this host from
// inside.
func TestHostIsOutOfReach(t *testing.T) {
	t.Parallel()
	host := t.TempDir()
	canary := filepath.Join(host, "canary")
	if err := os.WriteFile(canary, []byte("echo host content\n"), 0o755); err != nil { //nolint:gosec // must be executable to matter
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sb := create(t, fake.New(fake.Options{}), spec(t))
	scripts := map[string]string{
		"read":         "cat " + canary,
		"redirect":     "read x < " + canary + "; echo $x",
		"shortcut":     "echo $(<" + canary + ")",
		"source":       ". " + canary,
		"run":          canary,
		"run a binary": self + " -test.list .",
		"in the path":  "PATH=" + host + ":$PATH canary; PATH=" + host + " command -v canary",
		"glob":         "echo " + host + "/c*y | grep -v '[*]'",
		"list":         "ls " + host,
		"enter":        "cd " + host + " && pwd",
		"test":         "[ -e " + canary + " ] && echo host content",
		"link":         "ln -s " + canary + " /tmp/l; cat /tmp/l",
		"write":        "echo changed > " + canary,
		"create":       "touch " + host + "/new; mkdir " + host + "/dir",
		"remove":       "rm -rf " + host,
		"home":         "echo ~nosuchuser/x | grep -v '~'",
		"substitute":   "cat <(cat " + canary + ")",
	}
	for name, script := range scripts {
		out, err := sh(t.Context(), sb, "{ "+script+"\n} 2>/dev/null")
		if err != nil || strings.TrimSpace(out) != "" {
			t.Errorf("%s: printed %q, error %v", name, out, err)
		}
	}
	content, err := os.ReadFile(canary)
	if err != nil || string(content) != "echo host content\n" {
		t.Errorf("the host's file is now %q, error %v", content, err)
	}
	entries, err := os.ReadDir(host)
	if err != nil || len(entries) != 1 {
		t.Errorf("the host's directory has %d entries, error %v", len(entries), err)
	}
}

// TestOnlyBuildsImportTheHost looks at the imports: nothing can run a program,
// only BuildImage can open a file, and the control plane, which has nothing of what is
// inside a sandbox, its own configuration.
func TestOnlyBuildsImportTheHost(t *testing.T) {
	t.Parallel()
	forbidden := []string{"os/exec", "syscall/js", "plugin", "os/user", "mvdan.cc/sh/v3/interp", "path/filepath"}
	mayUseOS := []string{"build.go", filepath.Join("plane", "config.go"), filepath.Join("internal", "kernel", "socket.go")}
	err := filepath.WalkDir(".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range file.Imports {
			imported, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			if slices.Contains(forbidden, imported) || imported == "os" && !slices.Contains(mayUseOS, name) {
				t.Errorf("%s imports %s", name, imported)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
