package tasks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Found is one task directory, good or bad.
type Found struct {
	Path     string // as the user can open it
	Dataset  string // name of the directory of tasks it was found in; "" when named itself
	Task     *Task  // nil when it cannot run
	Problems Problems
}

// Name is the task's name, or that of its directory when it could not be read.
func (f Found) Name() string {
	if f.Task != nil {
		return f.Task.Name
	}
	return filepath.Base(f.Path)
}

// Find reads what the paths name: a task directory, or a directory of tasks,
// whose immediate children are taken in order of their names. Hidden children
// and those that are no tasks are passed over; broken tasks are among the found
// ones with their problems. The second result is about the paths themselves.
// Tasks are read in parallel.
func Find(paths []string, opt LoadOptions) ([]Found, Problems) {
	found, problems := List(paths)
	LoadAll(found, opt)
	return found, problems
}

// List is Find without reading the tasks: callers that want only some of them leave
// the others alone, broken or not, and give the rest to LoadAll.
func List(paths []string) ([]Found, Problems) {
	var found []Found
	var problems Problems
	for _, p := range paths {
		more, problem := list(p)
		if problem != nil {
			problems = append(problems, *problem)
		}
		found = append(found, more...)
	}
	return found, problems
}

// LoadAll reads the tasks of a list, in place and in parallel.
func LoadAll(found []Found, opt LoadOptions) {
	each(found, func(f *Found) { f.Task, f.Problems = Load(f.Path, opt) })
}

// each calls do for every one, as many at once as there are processors.
func each(found []Found, do func(*Found)) {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range found {
		group.Go(func() error {
			do(&found[i])
			return nil
		})
	}
	_ = group.Wait() // do reports its errors itself
}

// list returns the task directories that a path names, not read yet.
func list(p string) ([]Found, *Problem) {
	if isFile(filepath.Join(p, ConfigFile)) {
		return []Found{{Path: p}}, nil
	}
	entries, err := os.ReadDir(p)
	if err != nil {
		return nil, unreadablePath(p, err)
	}
	dataset := taskName(p, Config{})
	var found []Found
	for _, e := range entries {
		child := filepath.Join(p, e.Name())
		if !strings.HasPrefix(e.Name(), ".") && looksLikeTask(child) {
			found = append(found, Found{Path: child, Dataset: dataset})
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	return nil, noTasks(p, entries)
}

// looksLikeTask tells a task, perhaps a broken one, from a directory that
// happens to hold a file of the same name.
func looksLikeTask(dir string) bool {
	if !isFile(filepath.Join(dir, ConfigFile)) {
		return false
	}
	return isFile(filepath.Join(dir, InstructionFile)) ||
		isDir(filepath.Join(dir, EnvironmentDir)) || isDir(filepath.Join(dir, StepsDir))
}

func isFile(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.Mode().IsRegular()
}

func unreadablePath(p string, err error) *Problem {
	problem := &Problem{File: p, Severity: SeverityError, Code: "no-such-path", Next: "correct the path"}
	info, statErr := os.Stat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		problem.Message = "no such directory"
	case statErr == nil && !info.IsDir():
		problem.Message = "is a file"
		problem.Next = "name the directory of the task or of the tasks"
	default:
		problem.Code, problem.Message = "unreadable-file", err.Error()
		problem.Next = "make it readable"
	}
	return problem
}

// noTasks explains why a directory is neither a task nor a directory of tasks,
// and points to the tasks when they lie one level deeper.
func noTasks(p string, entries []fs.DirEntry) *Problem {
	problem := &Problem{
		File: p, Severity: SeverityError, Code: "no-tasks",
		Message: fmt.Sprintf("neither a task (it has no %s) nor a directory of tasks (none of its subdirectories has one)", ConfigFile),
		Next:    "name a directory that holds a " + ConfigFile + ", or whose subdirectories do",
	}
	for _, name := range []string{InstructionFile, EnvironmentDir} {
		if _, err := os.Stat(filepath.Join(p, name)); err == nil {
			problem.Message = fmt.Sprintf("looks like a task, but %s is missing", ConfigFile)
			problem.Next = "add " + ConfigFile
			return problem
		}
	}
	for _, e := range entries {
		deeper, _ := filepath.Glob(filepath.Join(p, escapeGlob(e.Name()), "*", ConfigFile))
		if len(deeper) > 0 && !strings.HasPrefix(e.Name(), ".") {
			problem.Next = "the tasks lie deeper: name " + filepath.Join(p, e.Name())
			return problem
		}
	}
	return problem
}

func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}
