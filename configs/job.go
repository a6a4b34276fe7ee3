package configs

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"harborgate/tasks"
	"harborgate/trials"
)

// LoadJob reads the job configuration that the files make together, later ones
// on top. Without files it is the default one. It must not be used when the
// problems hold an error.
func LoadJob(files []string) (trials.JobConfig, tasks.Problems) {
	s, problems := stackFiles(files, reflect.TypeFor[trials.JobConfig]())
	return decode(s, problems, trials.DecodeJob, trials.JobConfig.Validate)
}

// LoadTrial does the same for the configuration of a single trial.
func LoadTrial(files []string) (trials.TrialConfig, tasks.Problems) {
	s, problems := stackFiles(files, reflect.TypeFor[trials.TrialConfig]())
	return decode(s, problems, trials.DecodeTrial, trials.TrialConfig.Validate)
}

func decode[T any](s *stack, problems tasks.Problems, read func(map[string]any) (T, error), validate func(T) []trials.FieldError) (T, tasks.Problems) {
	var c T
	if problems.Err() != nil {
		return c, problems
	}
	c, err := read(s.root)
	if err != nil {
		return c, append(problems, s.problem("", err.Error()))
	}
	for _, e := range validate(c) {
		problems = append(problems, s.problem(e.Path, e.Error()))
	}
	return c, problems
}

// problem says something about the merged configuration, at the place that the
// value came from.
func (s *stack) problem(path, message string) tasks.Problem {
	p := find(s.at, path)
	return tasks.Problem{
		File: p.file, Line: p.line, Column: p.column, Severity: tasks.SeverityError,
		Code: "bad-value", Message: message,
	}
}

func stackFiles(files []string, t reflect.Type) (*stack, tasks.Problems) {
	s := &stack{root: map[string]any{}, at: map[string]place{}}
	var problems tasks.Problems
	for _, file := range files {
		d := readFile(file)
		if layer := d.layer(t); layer != nil {
			s.add(layer, d.at)
		}
		problems = append(problems, d.problems...)
	}
	return s, problems
}

// layer brings a document into today's form and holds it against its type. It is
// nil when the document cannot be used at all.
func (d *document) layer(t reflect.Type) map[string]any {
	if d.problems.Err() != nil {
		return nil
	}
	m, ok := d.root.(map[string]any)
	if !ok {
		d.wrong("", "a mapping at its top", d.root)
		return nil
	}
	for _, note := range trials.MigrateJob(m) {
		path, _, _ := strings.Cut(note, ":")
		d.fail(tasks.SeverityWarning, path, "old-form", "", "%s", note)
	}
	checked, _ := d.check(m, t, "")
	return checked.(map[string]any)
}

// readFile reads a file in the format that its name says.
func readFile(file string) *document {
	d := &document{file: file, at: map[string]place{}}
	if scheme, _, ok := strings.Cut(file, "://"); ok {
		d.fail(tasks.SeverityError, "", "no-addresses", "download it and name the file",
			"configurations are not read from %s addresses", scheme)
		return d
	}
	content, err := os.ReadFile(file)
	if err != nil {
		d.fail(tasks.SeverityError, "", "unreadable-file", "correct the path", "cannot read it: %v", unwrapPath(err))
		return d
	}
	return parse(file, content)
}

// parse picks the format by the name of the file.
func parse(file string, content []byte) *document {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".json":
		return parseJSON(file, content)
	case ".yaml", ".yml":
		return parseYAML(file, content)
	}
	d := &document{file: file, at: map[string]place{}}
	d.fail(tasks.SeverityError, "", "unknown-format", "rename it to .yaml, .yml or .json",
		"the format of a file called *%s is not known", filepath.Ext(file))
	return d
}

// unwrapPath drops the path, which the problem names already.
func unwrapPath(err error) error {
	var e *os.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
