package tasks

import (
	"os"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// BaseImage is an image that a Dockerfile starts from.
type BaseImage struct {
	Ref  string // as it stands there; it may hold variables
	Line int
}

// BaseImages are those of a parsed Dockerfile that come from elsewhere, in their order:
// earlier stages and "scratch" are none.
func BaseImages(instructions []*parser.Node) []BaseImage {
	var out []BaseImage
	stages := map[string]bool{"scratch": true}
	for _, n := range instructions {
		if !strings.EqualFold(n.Value, "from") || n.Next == nil {
			continue
		}
		if ref := n.Next.Value; !stages[strings.ToLower(ref)] {
			out = append(out, BaseImage{ref, n.StartLine})
		}
		if as := n.Next.Next; as != nil && as.Next != nil {
			stages[strings.ToLower(as.Next.Value)] = true
		}
	}
	return out
}

// ReadBaseImages reads those of a Dockerfile.
func ReadBaseImages(path string) ([]BaseImage, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	parsed, err := parser.Parse(f)
	if err != nil {
		return nil, err
	}
	return BaseImages(parsed.AST.Children), nil
}
