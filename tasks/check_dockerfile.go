package tasks

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// dockerfiles checks every Dockerfile that is built for the task.
func (c *checker) dockerfiles() {
	contexts := []string{c.task.EnvironmentDir(), filepath.Join(c.task.Dir, TestsDir)}
	for i := range c.task.Config.Steps {
		contexts = append(contexts, filepath.Join(c.task.stepDir(&c.task.Config.Steps[i]), TestsDir))
	}
	for _, dir := range contexts {
		if p, ok := existing(dir, "Dockerfile"); ok {
			c.dockerfile(dir, p)
		}
	}
}

func (c *checker) dockerfile(dir, p string) {
	f, err := openRegular(p)
	if err != nil {
		c.add(SeverityError, p, 0, "unreadable-file", "make it readable", "cannot be read: %v", err)
		return
	}
	defer f.Close()
	result, err := parser.Parse(f)
	if err != nil {
		c.add(SeverityError, p, errorLine(err), "bad-dockerfile", "correct it", "not a valid Dockerfile: %v", err)
		return
	}
	from := false
	for _, n := range result.AST.Children {
		switch strings.ToLower(n.Value) {
		case "from":
			from = true
		case "copy", "add":
			c.copied(dir, p, n)
		}
	}
	if !from {
		c.add(SeverityError, p, 0, "no-from", "begin it with FROM", "the Dockerfile has no FROM")
	}
}

func errorLine(err error) int {
	var at *parser.LocationError
	if !errors.As(err, &at) || len(at.Locations) == 0 || len(at.Locations[0]) == 0 {
		return 0
	}
	return at.Locations[0][0].Start.Line
}

// copied looks for the sources of one COPY or ADD in the build context.
func (c *checker) copied(dir, p string, n *parser.Node) {
	for _, flag := range n.Flags {
		if strings.HasPrefix(flag, "--from=") {
			return
		}
	}
	var args []string
	for a := n.Next; a != nil; a = a.Next {
		args = append(args, a.Value)
	}
	if len(args) < 2 {
		return // the builder says it better
	}
	severity := SeverityError
	if dir == c.task.EnvironmentDir() && c.task.Config.Environment.Image != "" {
		severity = SeverityWarning // docker_image is used instead, unless a build is forced
	}
	for _, source := range args[:len(args)-1] {
		if missingFromContext(dir, source) {
			c.add(severity, p, n.StartLine, "missing-copy-source", "add it to "+filepath.Base(dir)+"/, the build context",
				"%s copies %s, which is not there", strings.ToUpper(n.Value), source)
		}
	}
}

// missingFromContext is false for what cannot be known without building: build
// arguments, addresses and inline documents.
func missingFromContext(dir, source string) bool {
	if strings.ContainsAny(source, "$\\") || strings.HasPrefix(source, "<<") ||
		strings.Contains(source, "://") || strings.HasPrefix(source, "git@") {
		return false
	}
	// A context is its own root: neither "/x" nor "../x" leads out of it.
	rel := strings.TrimPrefix(path.Clean("/"+source), "/")
	if strings.ContainsAny(rel, "*?[") {
		matches, err := filepath.Glob(filepath.Join(escapeGlob(dir), rel))
		return err == nil && len(matches) == 0
	}
	_, err := os.Lstat(filepath.Join(dir, rel))
	return errors.Is(err, os.ErrNotExist)
}
