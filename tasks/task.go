package tasks

import (
	"os"
	"path/filepath"
)

// Names of files and directories of a task.
const (
	ConfigFile      = "task.toml"
	InstructionFile = "instruction.md"
	EnvironmentDir  = "environment"
	TestsDir        = "tests"
	SolutionDir     = "solution"
	StepsDir        = "steps"
	WorkdirDir      = "workdir"
	TrajectoryFile  = "trajectory.json"
)

// Task is one task directory that can be run. It does not change after Load.
type Task struct {
	Dir    string // as it was given to Load
	Name   string // [task].name, or the directory's
	Config Config
}

// Step returns a step by name, nil when there is none.
func (t *Task) Step(name string) *Step {
	for i := range t.Config.Steps {
		if t.Config.Steps[i].Name == name {
			return &t.Config.Steps[i]
		}
	}
	return nil
}

// Multistep reports whether the task has steps.
func (t *Task) Multistep() bool { return len(t.Config.Steps) > 0 }

// EnvironmentDir is the build context. It may be missing when the task names an
// image.
func (t *Task) EnvironmentDir() string { return filepath.Join(t.Dir, EnvironmentDir) }

// Dockerfile returns the path of the environment's Dockerfile, if there is one.
func (t *Task) Dockerfile() (string, bool) {
	return existing(t.EnvironmentDir(), "Dockerfile")
}

// ComposeFile returns the path of the environment's compose file, if there is
// one.
func (t *Task) ComposeFile() (string, bool) {
	return existing(t.EnvironmentDir(), "docker-compose.yaml", "docker-compose.yml")
}

// VerifierMode returns where the task, or one of its steps, is verified: what
// the step says, else the task; separate where only an environment is given.
func (t *Task) VerifierMode(step *Step) VerifierMode {
	if step != nil {
		if m := step.Verifier.mode(); m != "" {
			return m
		}
	}
	if m := t.Config.Verifier.mode(); m != "" {
		return m
	}
	return VerifierShared
}

func (v Verifier) mode() VerifierMode {
	if v.Mode == "" && v.Environment != nil {
		return VerifierSeparate
	}
	return v.Mode
}

// VerifierSource is what a separate verifier's sandbox is made from.
type VerifierSource struct {
	// Environment holds its settings; Image or ContextDir is what it starts from,
	// both empty when the environment directory cannot be found either.
	Environment Environment
	Image       string
	ContextDir  string
	// Bundled says that the image brings /tests itself: nothing is uploaded.
	Bundled bool
}

// VerifierSource returns what the separate verifier of the task, or of one of
// its steps, is made from: an image named for it, its own tests/Dockerfile, or
// the task's environment again.
func (t *Task) VerifierSource(step *Step) VerifierSource {
	type level struct {
		verifier Verifier
		dir      string
	}
	levels := []level{{t.Config.Verifier, t.Dir}}
	if step != nil {
		levels = append([]level{{step.Verifier, t.stepDir(step)}}, levels...)
	}
	out := VerifierSource{Environment: t.Config.Environment}
	for i := len(levels) - 1; i >= 0; i-- {
		if e := levels[i].verifier.Environment; e != nil {
			out.Environment = *e
		}
	}
	for _, l := range levels {
		if e := l.verifier.Environment; e != nil && e.Image != "" {
			out.Image, out.Bundled = e.Image, true
			return out
		}
		tests := filepath.Join(l.dir, TestsDir)
		if _, ok := existing(tests, "Dockerfile", "docker-compose.yaml"); ok {
			out.ContextDir, out.Bundled = tests, true
			return out
		}
	}
	if _, ok := t.Dockerfile(); !ok && t.Config.Environment.Image != "" {
		out.Image = t.Config.Environment.Image
		return out
	}
	out.ContextDir = t.EnvironmentDir()
	return out
}

// TestScript returns the test script of the task or of one of its steps, which
// falls back to that of the task.
func (t *Task) TestScript(step *Step) (string, bool) {
	return t.script(step, TestsDir, "test")
}

// SolutionScript returns the oracle's script, looked up like a test script.
func (t *Task) SolutionScript(step *Step) (string, bool) {
	return t.script(step, SolutionDir, "solve")
}

func (t *Task) script(step *Step, dir, name string) (string, bool) {
	file := name + ".sh"
	if t.Config.Environment.OS == Windows {
		file = name + ".bat"
	}
	if step != nil {
		if p, ok := existing(filepath.Join(t.stepDir(step), dir), file); ok {
			return p, true
		}
	}
	return existing(filepath.Join(t.Dir, dir), file)
}

// TestDirs returns the directories that are uploaded to /tests, in order; those
// of a step come over those of the task.
func (t *Task) TestDirs(step *Step) []string {
	return t.layered(step, TestsDir)
}

// SolutionDir returns the directory that the oracle needs: that of the step, or
// else of the task.
func (t *Task) SolutionDir(step *Step) (string, bool) {
	dirs := t.layered(step, SolutionDir)
	if len(dirs) == 0 {
		return "", false
	}
	return dirs[len(dirs)-1], true
}

// StepWorkdir returns the files that a step brings into the working directory.
func (t *Task) StepWorkdir(step *Step) (string, bool) {
	dir := filepath.Join(t.stepDir(step), WorkdirDir)
	return dir, isDir(dir)
}

func (t *Task) layered(step *Step, name string) []string {
	dirs := []string{filepath.Join(t.Dir, name)}
	if step != nil {
		dirs = append(dirs, filepath.Join(t.stepDir(step), name))
	}
	var out []string
	for _, d := range dirs {
		if isDir(d) {
			out = append(out, d)
		}
	}
	return out
}

func (t *Task) stepDir(step *Step) string { return filepath.Join(t.Dir, StepsDir, step.Name) }

func existing(dir string, names ...string) (string, bool) {
	for _, name := range names {
		p := filepath.Join(dir, name)
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
			return p, true
		}
	}
	return "", false
}

func isDir(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.IsDir()
}
