package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestRefusedFlagsAreDocumented: whoever misses a flag finds it on the page.
func TestRefusedFlagsAreDocumented(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/compatibility.md")
	names := refusedFlags(t)
	if len(names) < 10 {
		t.Fatalf("cmd/harbor/refused.go has the flags %q, which cannot be all", names)
	}
	for _, name := range names {
		if !strings.Contains(page, "`--"+name+"`") {
			t.Errorf("docs/compatibility.md does not name the refused flag --%s", name)
		}
	}
}

// refusedFlags reads the first value of each row of the table.
func refusedFlags(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "cmd/harbor/refused.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		table, ok := n.(*ast.ValueSpec)
		if !ok || table.Names[0].Name != "refusedFlags" || len(table.Values) == 0 {
			return true
		}
		for _, row := range table.Values[0].(*ast.CompositeLit).Elts {
			name, err := strconv.Unquote(row.(*ast.CompositeLit).Elts[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		return false
	})
	return names
}
