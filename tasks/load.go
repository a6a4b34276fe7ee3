package tasks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// LoadOptions change what a task must have.
type LoadOptions struct {
	// NoVerification accepts tasks without a test script.
	NoVerification bool
}

// Load reads one task directory. The Task is nil when the problems hold an error
// (see Problems.Err); otherwise it is complete and the problems are warnings and
// remarks. Errors of the file system are problems too.
func Load(dir string, opt LoadOptions) (*Task, Problems) {
	t, problems := examine(dir, opt)
	if problems.Err() != nil {
		return nil, problems
	}
	return t, problems
}

// examine also returns a task that has errors, as far as it could be read, so
// that all of them can be found at once. It is nil without a readable task.toml.
func examine(dir string, opt LoadOptions) (*Task, Problems) {
	l := loader{dir: dir, opt: opt}
	content, err := readRegular(filepath.Join(dir, ConfigFile))
	if err != nil {
		l.missing(ConfigFile, "every task has one", err)
		return nil, l.problems
	}
	config, known, problems := parseConfig(filepath.Join(dir, ConfigFile), content)
	l.problems = problems
	if !known {
		return nil, problems
	}
	t := &Task{Dir: dir, Name: taskName(dir, config), Config: config}
	l.checkFiles(t)
	l.checkLinks(dir)
	return t, l.problems
}

// Names are what the task of a directory goes by: the directory's name, and the one that
// its task.toml gives it, if that can be read.
func Names(dir string) []string {
	names := []string{filepath.Base(dir)}
	content, err := readRegular(filepath.Join(dir, ConfigFile))
	if err != nil {
		return names
	}
	if c, _, _ := parseConfig(ConfigFile, content); c.Package != nil && c.Package.Name != "" && c.Package.Name != names[0] {
		names = append(names, c.Package.Name)
	}
	return names
}

// taskName is the package's name, or that of the directory itself when dir is a
// link or a dot.
func taskName(dir string, c Config) string {
	if c.Package != nil {
		return c.Package.Name
	}
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if info, err := os.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if target, err := filepath.EvalSymlinks(dir); err == nil {
			dir = target
		}
	}
	return filepath.Base(dir)
}

type loader struct {
	dir      string
	opt      LoadOptions
	problems Problems
}

func (l *loader) fail(path, code, next, format string, args ...any) {
	l.problems = append(l.problems, Problem{
		File: filepath.Join(l.dir, path), Severity: SeverityError, Code: code,
		Message: fmt.Sprintf(format, args...), Next: next,
	})
}

// missing reports a file that is not there or cannot be read.
func (l *loader) missing(path, why string, err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		l.fail(path, "missing-file", "add "+path, "%s is missing: %s", path, why)
		return
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	l.fail(path, "unreadable-file", "make it readable", "cannot read %s: %v", path, err)
}

func (l *loader) checkFiles(t *Task) {
	l.checkEnvironment(t)
	if !t.Multistep() {
		l.checkInstruction(InstructionFile)
		l.checkTests(t, nil)
		return
	}
	for i := range t.Config.Steps {
		step := &t.Config.Steps[i]
		if badStepName(step.Name) != "" {
			continue
		}
		dir := filepath.Join(StepsDir, step.Name)
		if !isDir(filepath.Join(l.dir, dir)) {
			l.fail(dir, "missing-file", "add it, or remove the step", "step %q has no directory %s", step.Name, dir)
			continue
		}
		l.checkInstruction(filepath.Join(dir, InstructionFile))
		l.checkTests(t, step)
	}
}

func (l *loader) checkEnvironment(t *Task) {
	_, dockerfile := t.Dockerfile()
	_, compose := t.ComposeFile()
	if t.Config.Environment.Image == "" && !dockerfile && !compose {
		l.fail(EnvironmentDir, "no-environment", "add environment/Dockerfile, or write environment.docker_image in task.toml",
			"nothing says what the sandbox is made from: there is no environment/Dockerfile, no compose file and no docker_image")
	}
}

func (l *loader) checkInstruction(path string) {
	text, err := readInstruction(filepath.Join(l.dir, path))
	switch {
	case err != nil:
		l.missing(path, "it is what the agent is told", err)
	case strings.TrimSpace(text) == "":
		l.fail(path, "empty-instruction", "write what the agent shall do", "%s tells the agent nothing", path)
	}
}

func (l *loader) checkTests(t *Task, step *Step) {
	if l.opt.NoVerification {
		return
	}
	if t.VerifierMode(step) == VerifierSeparate && t.VerifierSource(step).Bundled {
		return
	}
	if _, ok := t.TestScript(step); ok {
		return
	}
	path := filepath.Join(TestsDir, "test.sh")
	if t.Config.Environment.OS == Windows {
		path = filepath.Join(TestsDir, "test.bat")
	}
	if step != nil {
		path = filepath.Join(StepsDir, step.Name, path)
	}
	l.missing(path, "it decides the reward", nil)
}

// checkLinks rejects symbolic links that lead out of the task, which would bring
// files of this host into a sandbox or a digest, and those that never end.
func (l *loader) checkLinks(dir string) {
	var root string
	walk := func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && e.Name() == ".git" {
			return fs.SkipDir
		}
		if e.Type()&fs.ModeSymlink == 0 {
			return nil
		}
		if root == "" {
			if root, err = filepath.EvalSymlinks(dir); err != nil {
				return err
			}
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		target, ok := inside(root, filepath.Join(root, rel))
		switch {
		case !ok:
			l.fail(rel, "escaping-link", "replace it by what it points to", "%s is a link out of the task, to %s", rel, target)
		case below(filepath.Join(root, rel), target):
			l.fail(rel, "looping-link", "remove it", "%s is a link to a directory that holds it", rel)
		}
		return nil
	}
	// The separator makes a task that is itself a link be walked.
	if err := filepath.WalkDir(dir+string(filepath.Separator), walk); err != nil {
		l.fail("", "unreadable-file", "make the task readable", "cannot read the task: %v", err)
	}
}

// inside returns where a link leads, and whether that is below root. A link to
// nothing counts by its text.
func inside(root, link string) (string, bool) {
	target, err := filepath.EvalSymlinks(link)
	if err != nil {
		text, err := os.Readlink(link)
		if err != nil {
			return link, false
		}
		target = text
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(link), target)
		}
	}
	return target, below(target, root)
}

// below reports whether p is dir or lies in it.
func below(p, dir string) bool {
	rel, err := filepath.Rel(dir, p)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// Inspect reads a task as far as that is possible, for those who look for faults: it
// also returns one that has errors. It is nil without a readable task.toml.
func Inspect(dir string) (*Task, Problems) { return examine(dir, LoadOptions{}) }
