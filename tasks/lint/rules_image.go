package lint

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"harborgate/tasks"
)

// digest ends a reference that always is the same image.
var digest = regexp.MustCompile(`@sha256:[0-9a-fA-F]{64}$`)

const pinAdvice = "another day it may be another image: add its digest, @sha256:…"

// unpinnedImage looks at images that come from elsewhere. References with variables are
// known only when they are built.
func unpinnedImage(s *subject) {
	for _, d := range s.images {
		s.unpinnedFrom(d)
	}
	s.namedImages(func(key, image string) {
		if unpinned(image) {
			s.config(key, "%s: %s", image, pinAdvice)
		}
	})
	s.eachService(func(c compose, x service) {
		n := member(x.node, "image")
		if n != nil && member(x.node, "build") == nil && unpinned(n.Value) {
			s.in(c, n, "image %s of service %s: %s", n.Value, x.name, pinAdvice)
		}
	})
}

// unpinnedFrom looks at what stages start from, unless that is an earlier stage.
func (s *subject) unpinnedFrom(d dockerfile) {
	for _, base := range tasks.BaseImages(d.nodes) {
		if unpinned(base.Ref) {
			s.found(d.path, base.Line, 0, "FROM %s: %s", base.Ref, pinAdvice)
		}
	}
}

func unpinned(image string) bool {
	return image != "" && !strings.Contains(image, "$") && !digest.MatchString(image)
}

// namedImages are those that task.toml names.
func (s *subject) namedImages(f func(key, image string)) {
	if s.task == nil {
		return
	}
	c := s.task.Config
	f("environment.docker_image", c.Environment.Image)
	if e := c.Verifier.Environment; e != nil {
		f("verifier.environment.docker_image", e.Image)
	}
	for i, step := range c.Steps {
		if e := step.Verifier.Environment; e != nil {
			f(fmt.Sprintf("steps[%d].verifier.environment.docker_image", i), e.Image)
		}
	}
}

// testLeak finds tests and solutions that get into the image that the agent works in.
func testLeak(s *subject) {
	for _, d := range s.images {
		if !d.agent {
			continue
		}
		for _, n := range d.nodes {
			if !strings.EqualFold(n.Value, "copy") && !strings.EqualFold(n.Value, "add") {
				continue
			}
			for _, source := range sources(n) {
				if hidden(source) {
					s.found(d.path, n.StartLine, 0, "%s %s brings what grades or solves the task into the agent's image: keep it in tests/ and solution/, outside of it",
						strings.ToUpper(n.Value), source)
				}
			}
		}
	}
}

// sources are what COPY or ADD copies.
func sources(n *parser.Node) []string {
	var args []string
	for a := n.Next; a != nil; a = a.Next {
		args = append(args, a.Value)
	}
	if len(args) < 2 {
		return nil
	}
	return args[:len(args)-1]
}

// hiddenFiles are conventional names of what only the verifier and the oracle may see.
var hiddenFiles = []string{"tests/test.sh", "tests/test.bat", "tests/test_outputs.py", "solution/solve.sh", "solution/solve.bat"}

// hidden also knows the whole directories.
func hidden(source string) bool {
	p := strings.TrimPrefix(path.Clean("/"+source), "/")
	if p == tasks.TestsDir || p == tasks.SolutionDir {
		return true
	}
	for _, f := range hiddenFiles {
		if p == f || strings.HasSuffix(p, "/"+f) {
			return true
		}
	}
	return false
}
