// Package lint looks into task directories for what makes a task unsafe, unfair or
// hard to repeat. Nothing is run and nothing is fetched: it reads files. Its rules are
// those of Harbor 0.26, by the same names.
//
// tasks.Check says whether a task will run; this package says whether it is a good one.
package lint

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
)

// Finding is one thing that a rule found. Line and Column are from 1 and nil for a
// file as a whole.
type Finding struct {
	Rule    string `json:"rule"`
	Path    string `json:"path"` // absolute
	Message string `json:"message"`
	Line    *int   `json:"line"`
	Column  *int   `json:"column"`
}

// Rule is one thing to look for.
type Rule struct {
	Name    string
	Doc     string
	Default bool // it is on unless settings say otherwise
	find    func(*subject)
}

// Rules lists all rules.
func Rules() []Rule {
	return []Rule{
		{"invalid-task-config", "task.toml or a compose file that cannot be read, or has wrong values", true, invalidConfig},
		{"unknown-config-field", "keys of task.toml that mean nothing", true, unknownField},
		{"invalid-task-files", "files that are missing, empty, or lead out of the task", true, invalidFiles},
		{"unused-harborignore", ".harborignore files that nobody reads", true, unusedIgnore},
		{"root-agent", "agents that run as root", false, rootAgent},
		{"shared-verifier", "tests that run in the agent's sandbox", true, sharedVerifier},
		{"overlapping-artifacts", "artifacts that would be kept at one place", true, overlappingArtifacts},
		{"artifact-log-overlap", "artifacts that would be put over the logs of a separate verifier", true, artifactLogs},
		{"compose-privileged", "privileged services", true, composePrivileged},
		{"compose-additional-capabilities", "services with more kernel capabilities", true, composeCapabilities},
		{"compose-writable-bind-mount", "directories of the host that services can write to", true, composeWritable},
		{"compose-external-bind-mount", "directories of the host from outside the task", true, composeExternal},
		{"compose-symlink-bind-mount", "mounted paths that are links", true, composeLinks},
		{"unpinned-image", "images without a digest", false, unpinnedImage},
		{"unpinned-python-dependency", "Python packages without an exact version", true, unpinnedPython},
		{"verifier-runtime-install", "separate verifiers that install packages during the trial", true, verifierInstall},
		{"verifier-network-download", "separate verifiers that download during the trial", true, verifierDownload},
		{"agent-image-test-leak", "tests or solutions that are copied into the agent's image", true, testLeak},
	}
}

// Run lints one task directory. Settings of the directory itself are not read here, see
// Settings. Findings are sorted by path, line, column and rule. The error is of a
// directory that cannot be looked at.
func Run(dir string, on Settings) ([]Finding, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("lint %s: %w", dir, err)
	}
	s, err := look(abs)
	if err != nil {
		return nil, err
	}
	for _, r := range Rules() {
		if on.selects(r) {
			s.rule = r.Name
			r.find(s)
		}
	}
	slices.SortFunc(s.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(number(a.Line), number(b.Line)),
			cmp.Compare(number(a.Column), number(b.Column)), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(s.findings, func(a, b Finding) bool {
		return a.Rule == b.Rule && a.Path == b.Path && a.Message == b.Message && number(a.Line) == number(b.Line) && number(a.Column) == number(b.Column)
	}), nil
}

func number(p *int) int {
	if p == nil {
		return 0
	}
	return *p
}
