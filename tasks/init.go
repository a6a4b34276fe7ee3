package tasks

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/template"
)

// The "all:" takes files that begin with a dot along.
//
//go:embed all:template
var templates embed.FS

// InitOptions say what a new task looks like.
type InitOptions struct {
	// Name is "org/name"; "" makes a task without a [task] table.
	Name        string
	Description string
	Authors     []Author
	// VerifierMode is separate when empty.
	VerifierMode VerifierMode
	// NoSolution leaves the oracle's script out.
	NoSolution bool
	// Image is what the Dockerfiles start from, debian:bookworm-slim when empty.
	Image string
}

const defaultInitImage = "debian:bookworm-slim"

// Init makes a new task in dir, which must not exist or be empty. The task can
// be run as it is: the oracle agent solves it and the nop agent does not. It
// returns the files that it made, relative to dir, in order.
func Init(dir string, opt InitOptions) ([]string, error) {
	if err := opt.complete(); err != nil {
		return nil, fmt.Errorf("new task %s: %w", dir, err)
	}
	if err := wantEmpty(dir); err != nil {
		return nil, fmt.Errorf("new task %s: %w", dir, err)
	}
	var made []string
	err := fs.WalkDir(templates, "template", func(p string, e fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(strings.TrimPrefix(p, "template"), "/")
		if err != nil || e.IsDir() || opt.leavesOut(rel) {
			return err
		}
		name := strings.TrimSuffix(rel, ".tmpl")
		made = append(made, name)
		return opt.render(p, filepath.Join(dir, name))
	})
	if err != nil {
		return nil, fmt.Errorf("new task %s: %w", dir, err)
	}
	return made, nil
}

func (o *InitOptions) complete() error {
	if o.Name != "" && (!packageName.MatchString(o.Name) || strings.Contains(o.Name, "..")) {
		return fmt.Errorf("name %q is not of the form org/name", o.Name)
	}
	switch o.VerifierMode {
	case "":
		o.VerifierMode = VerifierSeparate
	case VerifierShared, VerifierSeparate:
	default:
		return fmt.Errorf("verifier mode %q is neither %s nor %s", o.VerifierMode, VerifierShared, VerifierSeparate)
	}
	if o.Image == "" {
		o.Image = defaultInitImage
	}
	return nil
}

// Separate is for the templates.
func (o InitOptions) Separate() bool { return o.VerifierMode == VerifierSeparate }

func (o InitOptions) leavesOut(rel string) bool {
	return o.NoSolution && path.Dir(rel) == SolutionDir ||
		!o.Separate() && path.Dir(rel) == TestsDir && path.Base(rel) == "Dockerfile.tmpl"
}

func (o InitOptions) render(from, to string) error {
	t, err := template.New(path.Base(from)).
		Funcs(template.FuncMap{"quote": quoteTOML}).ParseFS(templates, from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if filepath.Ext(to) == ".sh" {
		mode = 0o755
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	return errors.Join(t.Execute(f, o), f.Close())
}

// wantEmpty refuses to write among somebody's files.
func wantEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return errors.New("the directory is not empty; name another")
	}
	return nil
}

// quoteTOML writes a basic string.
func quoteTOML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteRune('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
