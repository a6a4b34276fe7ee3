package lint

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"gopkg.in/yaml.v3"

	"harborgate/tasks"
)

// subject is one task as rules see it, and what they found so far.
type subject struct {
	dir      string
	task     *tasks.Task // nil without a readable task.toml
	document []byte      // task.toml
	problems tasks.Problems

	images   []dockerfile
	composes []compose

	rule     string // that looks now
	findings []Finding
}

// dockerfile is one Dockerfile that is built for the task.
type dockerfile struct {
	path  string
	agent bool // the image that the agent works in
	nodes []*parser.Node
	err   error
}

// compose is one compose file.
type compose struct {
	path     string
	services []service
	err      error
}

// service is a service of a compose file, as written.
type service struct {
	name string
	node *yaml.Node // a mapping
}

// maxRead is the largest file that is looked into.
const maxRead = 4 << 20

func look(dir string) (*subject, error) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s is no directory: name the directory of a task", dir)
	}
	s := &subject{dir: dir}
	s.task, s.problems = tasks.Inspect(dir)
	s.document, _ = read(filepath.Join(dir, tasks.ConfigFile)) // that it is missing is among the problems
	for _, at := range s.contexts() {
		agent := at == filepath.Join(dir, tasks.EnvironmentDir)
		if b, err := read(filepath.Join(at, "Dockerfile")); err == nil {
			s.images = append(s.images, parseDockerfile(filepath.Join(at, "Dockerfile"), agent, b))
		}
		for _, name := range []string{"docker-compose.yaml", "docker-compose.yml"} {
			if b, err := read(filepath.Join(at, name)); err == nil {
				s.composes = append(s.composes, parseCompose(filepath.Join(at, name), b))
			}
		}
	}
	return s, nil
}

// contexts are the directories that images are built from.
func (s *subject) contexts() []string {
	out := []string{filepath.Join(s.dir, tasks.EnvironmentDir), filepath.Join(s.dir, tasks.TestsDir)}
	for _, step := range s.steps() {
		out = append(out, filepath.Join(s.dir, tasks.StepsDir, step.Name, tasks.TestsDir))
	}
	return out
}

// steps are those whose names are names of directories.
func (s *subject) steps() []*tasks.Step {
	if s.task == nil {
		return nil
	}
	var out []*tasks.Step
	for i := range s.task.Config.Steps {
		if step := &s.task.Config.Steps[i]; filepath.IsLocal(step.Name) && !strings.ContainsRune(step.Name, filepath.Separator) {
			out = append(out, step)
		}
	}
	return out
}

// units are the parts with a verifier of their own: the task, or its steps.
func (s *subject) units() []*tasks.Step {
	switch {
	case s.task == nil:
		return nil
	case s.task.Multistep():
		return s.steps()
	}
	return []*tasks.Step{nil}
}

// read reads a regular file that is not too large to be one of a task's own.
func read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxRead:
		return nil, fmt.Errorf("%s: %w", path, fs.ErrInvalid)
	}
	return os.ReadFile(path)
}

func parseDockerfile(path string, agent bool, content []byte) dockerfile {
	d := dockerfile{path: path, agent: agent}
	result, err := parser.Parse(strings.NewReader(string(content)))
	if err != nil {
		d.err = err
		return d
	}
	d.nodes = result.AST.Children
	return d
}

func parseCompose(path string, content []byte) compose {
	c := compose{path: path}
	var doc yaml.Node
	if c.err = yaml.Unmarshal(content, &doc); c.err != nil || len(doc.Content) == 0 {
		return c
	}
	services := member(doc.Content[0], "services")
	if services == nil || services.Kind != yaml.MappingNode {
		return c
	}
	for i := 0; i+1 < len(services.Content); i += 2 {
		c.services = append(c.services, service{services.Content[i].Value, resolved(services.Content[i+1])})
	}
	return c
}

// member is the value of a key of a mapping, merged ones included, or nil.
func member(n *yaml.Node, key string) *yaml.Node {
	n = resolved(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var inherited *yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch k := n.Content[i]; {
		case k.Value == key:
			return resolved(n.Content[i+1])
		case k.ShortTag() == "!!merge" && resolved(n.Content[i+1]) != n:
			inherited = member(n.Content[i+1], key)
		}
	}
	return inherited
}

func resolved(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// found adds a finding; line 0 is the file as a whole.
func (s *subject) found(path string, line, column int, format string, args ...any) {
	f := Finding{Rule: s.rule, Path: path, Message: fmt.Sprintf(format, args...)}
	if line > 0 {
		f.Line = &line
	}
	if line > 0 && column > 0 {
		f.Column = &column
	}
	s.findings = append(s.findings, f)
}

// config adds a finding about a key of task.toml.
func (s *subject) config(key, format string, args ...any) {
	line, column := tasks.Place(s.document, key)
	s.found(filepath.Join(s.dir, tasks.ConfigFile), line, column, "%s: %s", key, fmt.Sprintf(format, args...))
}
