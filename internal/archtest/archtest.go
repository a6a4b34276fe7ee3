// Package archtest holds the code against docs/architecture.md. The page's table
// of packages is the rule for imports, so that page and rule cannot differ: what
// is not in the table may not exist, and what is not in a row's last column may
// not be imported.
package archtest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Module starts the import paths of our own packages.
const Module = "harborgate/"

// plumbing may be imported by any package, and imports nothing of ours.
var plumbing = []string{"internal/atomicfile", "internal/insideproto", "internal/redact"}

// Package is one package of the code.
type Package struct {
	ImportPath string
	Imports    []string // without those of its tests
}

// Rules say for each package, without the module, what it may import.
type Rules map[string]Rule

// Rule is one row of the table.
type Rule struct {
	Everything bool
	Packages   []string
}

var code = regexp.MustCompile("`([^`]+)`")

// ReadRules reads the table of packages from the page.
func ReadRules(page string) (Rules, error) {
	rules := Rules{}
	for _, cells := range rows(page, "Package") {
		if len(cells) != 3 {
			return nil, fmt.Errorf("row %q has %d cells, want 3", cells, len(cells))
		}
		name := code.FindStringSubmatch(cells[0])
		if name == nil {
			return nil, fmt.Errorf("row %q does not start with a package in backquotes", cells)
		}
		rule := Rule{Everything: cells[2] == "everything"}
		for _, m := range code.FindAllStringSubmatch(cells[2], -1) {
			rule.Packages = append(rule.Packages, m[1])
		}
		if !rule.Everything && rule.Packages == nil && cells[2] != "nothing" {
			return nil, fmt.Errorf("package %s: last cell is %q, want packages in backquotes, nothing or everything", name[1], cells[2])
		}
		rules[name[1]] = rule
	}
	if len(rules) == 0 {
		return nil, errors.New("the page has no table of packages")
	}
	return rules, nil
}

// Modules reads the table of dependencies from the page.
func Modules(page string) []string {
	var out []string
	for _, cells := range rows(page, "Module") {
		if m := code.FindStringSubmatch(cells[0]); m != nil {
			out = append(out, m[1])
		}
	}
	return out
}

// rows returns the cells of the table whose first heading is given.
func rows(page, heading string) [][]string {
	var out [][]string
	inside := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			inside = false
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case cells[0] == heading:
			inside = true
		case inside && !strings.HasPrefix(cells[0], "---"):
			out = append(out, cells)
		}
	}
	return out
}

// Check lists what breaks the rules, sorted.
func (r Rules) Check(packages []Package) []string {
	var out []string
	seen := map[string]bool{}
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, Module)
		row, ok := r.row(name)
		if !ok {
			out = append(out, fmt.Sprintf("package %s is not in the table of packages", name))
			continue
		}
		seen[row] = true
		for _, imported := range p.Imports {
			other, ours := strings.CutPrefix(imported, Module)
			if ours && !r.allows(row, other) {
				out = append(out, fmt.Sprintf("package %s may not import %s", name, other))
			}
		}
	}
	for name := range r {
		if !seen[name] {
			out = append(out, fmt.Sprintf("package %s is in the table and does not exist", name))
		}
	}
	slices.Sort(out)
	return out
}

// row names the row that speaks for a package: its own, or for an inner package
// that of the one it is internal to.
func (r Rules) row(name string) (string, bool) {
	if _, ok := r[name]; ok {
		return name, true
	}
	outer, _, _ := strings.Cut(name, "/internal/")
	_, ok := r[outer]
	return outer, ok
}

func (r Rules) allows(row, imported string) bool {
	rule := r[row]
	return rule.Everything ||
		slices.Contains(rule.Packages, imported) ||
		slices.Contains(plumbing, imported) && !slices.Contains(plumbing, row) ||
		strings.HasPrefix(imported, row+"/internal/")
}

// Reserved is a foreign package, with all below it, that few may import.
type Reserved struct {
	Import string
	By     []string // our packages, with all below them
	Except []string // packages below Import that anybody may import
	Why    string
}

// CheckReserved lists imports of reserved packages by others.
func CheckReserved(reserved []Reserved, packages []Package) []string {
	var out []string
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, Module)
		for _, imported := range p.Imports {
			for _, r := range reserved {
				if within(imported, r.Import) && !withinAny(imported, r.Except) && !withinAny(name, r.By) {
					out = append(out, fmt.Sprintf("package %s may not import %s: %s", name, imported, r.Why))
				}
			}
		}
	}
	return out
}

func within(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

func withinAny(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return within(path, root) })
}
