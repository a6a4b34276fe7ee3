package lint

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"harborgate/tasks"
)

// unknownCodes are the problems that are about keys without a meaning.
var unknownCodes = []string{"unknown-key", "misspelt-key"}

// fileCodes are problems of task.toml that are about the file itself.
var fileCodes = []string{"missing-file", "unreadable-file"}

func (s *subject) problem(p tasks.Problem) {
	message := p.Message
	if p.Next != "" {
		message += ": " + p.Next
	}
	s.found(p.File, p.Line, p.Column, "%s", message)
}

func (s *subject) aboutConfig(p tasks.Problem) bool {
	return p.File == filepath.Join(s.dir, tasks.ConfigFile) && !slices.Contains(fileCodes, p.Code)
}

func invalidConfig(s *subject) {
	for _, p := range s.problems {
		if s.aboutConfig(p) && p.Severity == tasks.SeverityError && !slices.Contains(unknownCodes, p.Code) {
			s.problem(p)
		}
	}
	for _, c := range s.composes {
		if c.err != nil {
			s.found(c.path, 0, 0, "cannot be read: %v", c.err)
		}
	}
}

func unknownField(s *subject) {
	for _, p := range s.problems {
		if s.aboutConfig(p) && slices.Contains(unknownCodes, p.Code) {
			s.problem(p)
		}
	}
}

func invalidFiles(s *subject) {
	for _, p := range s.problems {
		if !s.aboutConfig(p) && p.Severity == tasks.SeverityError {
			s.problem(p)
		}
	}
	for _, d := range s.images {
		if d.err != nil {
			s.found(d.path, errorLine(d.err), 0, "cannot be read: %v", d.err)
		}
	}
}

func errorLine(err error) int {
	var at *parser.LocationError
	if !errors.As(err, &at) || len(at.Locations) == 0 || len(at.Locations[0]) == 0 {
		return 0
	}
	return at.Locations[0][0].Start.Line
}

const ignoreFile = ".harborignore"

// unusedIgnore finds ignore files that do not lie below tests/ or solution/ of the task
// or of one of its steps.
func unusedIgnore(s *subject) {
	// What cannot be read is another rule's.
	_ = filepath.WalkDir(s.dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() != ignoreFile {
			return nil //nolint:nilerr // see above
		}
		rel, err := filepath.Rel(s.dir, filepath.Dir(p))
		if err == nil && !usedIgnore(filepath.ToSlash(rel)) {
			s.found(p, 0, 0, "nobody reads it: only those in tests/ and solution/ count, also of steps; move or remove it")
		}
		return nil
	})
}

func usedIgnore(dir string) bool {
	parts := strings.Split(dir, "/")
	if parts[0] == tasks.StepsDir && len(parts) > 2 {
		parts = parts[2:]
	}
	return parts[0] == tasks.TestsDir || parts[0] == tasks.SolutionDir
}

func rootAgent(s *subject) {
	if s.task == nil {
		return
	}
	own := s.task.Config.Agent.User
	if !s.task.Multistep() {
		if isRoot(own) {
			s.config("agent.user", "the agent runs as root, or as the image's user: name another user")
		}
		return
	}
	for i, step := range s.task.Config.Steps {
		user := step.Agent.User
		if user == "" {
			user = own
		}
		if isRoot(user) {
			s.config(fmt.Sprintf("steps[%d].agent.user", i), "the agent of step %q runs as root, or as the image's user: name another user", step.Name)
		}
	}
}

func isRoot(user string) bool {
	name, _, _ := strings.Cut(user, ":")
	return name == "" || name == "root" || name == "0"
}

func sharedVerifier(s *subject) {
	for _, step := range s.units() {
		if s.task.VerifierMode(step) == tasks.VerifierShared {
			s.config("verifier.environment_mode", `the tests run in the agent's sandbox: write "separate", also in steps that say otherwise`)
			return
		}
	}
}

// declared is an artifact and where task.toml has it.
type declared struct {
	tasks.Artifact
	key string
}

// artifacts are those that are collected together for a unit: the task's, then the
// step's.
func (s *subject) artifacts(step *tasks.Step) []declared {
	c := s.task.Config
	out := keyed("artifacts", c.Artifacts)
	for i := range c.Steps {
		if step == &c.Steps[i] {
			out = append(out, keyed(fmt.Sprintf("steps[%d].artifacts", i), step.Artifacts)...)
		}
	}
	return out
}

func keyed(key string, list []tasks.Artifact) []declared {
	var out []declared
	for i, a := range list {
		out = append(out, declared{a, fmt.Sprintf("%s[%d]", key, i)})
	}
	return out
}

// keptArtifacts is kept without being asked for.
const keptArtifacts = "logs/artifacts"

func overlappingArtifacts(s *subject) {
	for _, step := range s.units() {
		list := s.artifacts(step)
		for i, b := range list {
			if t := b.Target(); t != keptArtifacts && within(keptArtifacts, t) {
				s.config(b.key, "%s holds /%s, which is kept anyway: name what is wanted of it", b.Source, keptArtifacts)
			}
			for _, a := range list[:i] {
				if within(a.Target(), b.Target()) || within(b.Target(), a.Target()) {
					s.config(b.key, "%s is kept as %s and %s as %s, of which only the first is kept: give one another destination",
						a.Source, shown(a.Target()), b.Source, shown(b.Target()))
				}
			}
		}
	}
}

// within reports whether a path is another or lies below it. "" is the root of all.
func within(p, dir string) bool {
	return dir == "" || dir == "." || p == dir || strings.HasPrefix(p, dir+"/")
}

func shown(target string) string {
	if target == "" {
		return "."
	}
	return target
}

// protectedLogs of a separate verifier must not come from the agent.
var protectedLogs = []string{"/logs/agent", "/logs/verifier"}

func artifactLogs(s *subject) {
	for _, step := range s.units() {
		if s.task.VerifierMode(step) != tasks.VerifierSeparate {
			continue
		}
		for _, a := range s.artifacts(step) {
			source := path.Clean(a.Source)
			for _, logs := range protectedLogs {
				if source == "/" || within(source, logs) || within(logs, source) {
					s.config(a.key, "%s overlaps %s, and would be put over the verifier's own: keep it elsewhere", a.Source, logs)
					break
				}
			}
		}
	}
}
