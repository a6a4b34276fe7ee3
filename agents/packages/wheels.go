package packages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Wheels are packages of PyPI for an interpreter, in one directory to be searched
// for modules.
type Wheels struct {
	For Interpreter
	// Lock is a requirements file that has all packages, with digests. Without one,
	// Spec is what pip is asked for, with what it needs by the registry's word.
	Lock, Spec string
}

// Pin implements Source: other interpreters want other files.
func (w Wheels) Pin(ctx context.Context) (string, error) {
	p, err := w.For.find(ctx)
	if err != nil {
		return "", err
	}
	pin := fmt.Sprintf("py3.%d", p.Minor)
	if w.Lock != "" {
		pin += "-" + pinOf([]byte(w.Lock))
	}
	return pin, nil
}

// Ready implements Source.
func (w Wheels) Ready(ctx context.Context) error {
	p, err := w.For.find(ctx)
	if err != nil {
		return err
	}
	_, err = installer(ctx, p.Program, "")
	return err
}

// Fetch implements Source. Packages that would have to be built are refused: their
// code would run on this host.
func (w Wheels) Fetch(ctx context.Context, work, dest string) error {
	p, err := w.For.find(ctx)
	if err != nil {
		return err
	}
	what := []string{w.Spec}
	if w.Lock != "" {
		lock := filepath.Join(work, "requirements.txt")
		if err := os.WriteFile(lock, []byte(w.Lock), 0o600); err != nil {
			return err
		}
		what = []string{"--require-hashes", "--no-deps", "-r", lock}
	}
	args, err := installer(ctx, p.Program, dest)
	if err != nil {
		return err
	}
	if err := runClient(ctx, w.Spec, work, args[0], append(args[1:], what...)...); err != nil {
		return err
	}
	return compile(ctx, p.Program, dest)
}

// installer is the interpreter's pip, or uv.
func installer(ctx context.Context, python, dest string) ([]string, error) {
	has := exec.CommandContext(ctx, python, "-I", "-c", "import pip")
	if has.Env = environment(os.Environ()); has.Run() == nil {
		return []string{python, "-I", "-m", "pip", "install", "--quiet", "--no-input", "--no-compile", "--no-user", "--only-binary", ":all:", "--target", dest}, nil
	}
	if uv, err := exec.LookPath("uv"); err == nil {
		return []string{uv, "pip", "install", "--quiet", "--python", python, "--only-binary", ":all:", "--target", dest}, nil
	}
	return nil, errors.New("pip is not there: install it for this host's python3 (python3-pip), or uv; agents come from their registry")
}
