package packages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Interpreter is this host's Python, made so that it works in any image: with its
// standard library, its shared libraries, its own libc and loader. PythonProgram
// starts it.
type Interpreter struct {
	// From and Below limit its version: at least From, less than Below, of Python 3.
	From, Below int
}

// PythonProgram starts an interpreter, below its directory.
const PythonProgram = "python"

// found is an interpreter of this host.
type found struct {
	Program  string // the real file
	Version  string
	Minor    int
	Stdlib   string
	Platform string // directory of the standard library's modules in C
	stamp    string // changes when the program does
}

// ask has Python tell where it is.
const ask = `import json, os, sys, sysconfig
print(json.dumps({"Program": os.path.realpath(sys.executable), "Version": sys.version.split()[0], "Minor": sys.version_info[1],
"Stdlib": sysconfig.get_path("stdlib"), "Platform": sysconfig.get_config_var("DESTSHARED") or ""}))`

// find looks for an interpreter among the usual names.
func (i Interpreter) find(ctx context.Context) (found, error) {
	names := []string{"python3"}
	for minor := i.Below - 1; minor >= i.From; minor-- {
		names = append(names, fmt.Sprintf("python3.%d", minor))
	}
	var seen []string
	for _, name := range names {
		p, err := inspect(ctx, name)
		switch {
		case err != nil:
			continue
		case p.Minor >= i.From && p.Minor < i.Below:
			return p, nil
		case !slices.Contains(seen, p.Version):
			seen = append(seen, p.Version)
		}
	}
	has := "has none"
	if len(seen) > 0 {
		has = "has " + strings.Join(seen, ", ")
	}
	return found{}, fmt.Errorf("this host needs a python3 from 3.%d to 3.%d, in its PATH, and %s: install one, or use --ak install=inside", i.From, i.Below-1, has)
}

func inspect(ctx context.Context, name string) (found, error) {
	var p found
	path, err := exec.LookPath(name)
	if err != nil {
		return p, err
	}
	cmd := exec.CommandContext(ctx, path, "-I", "-S", "-c", ask)
	cmd.Env = environment(os.Environ())
	out, err := cmd.Output()
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(out, &p); err != nil {
		return p, err
	}
	fi, err := os.Stat(p.Program)
	if err != nil {
		return p, err
	}
	p.stamp = pinOf(fmt.Appendf(nil, "%s %d %d", p.Program, fi.Size(), fi.ModTime().UnixNano()))
	return p, nil
}

// Pin implements Source.
func (i Interpreter) Pin(ctx context.Context) (string, error) {
	p, err := i.find(ctx)
	return p.Version + "-" + p.stamp, err
}

// Ready implements Source.
func (i Interpreter) Ready(ctx context.Context) error {
	_, err := i.find(ctx)
	return err
}

// Fetch implements Source.
func (i Interpreter) Fetch(ctx context.Context, _, dest string) error {
	p, err := i.find(ctx)
	if err != nil {
		return err
	}
	stdlib := filepath.Join(dest, "lib", filepath.Base(p.Stdlib))
	if err := copyTree(p.Stdlib, stdlib, unneeded); err != nil {
		return err
	}
	if own := filepath.Join(stdlib, "lib-dynload"); p.Platform != "" && !isDir(own) {
		if err := copyTree(p.Platform, own, unneeded); err != nil {
			return err
		}
	}
	if err := copyFile(p.Program, filepath.Join(dest, "bin", "python3")); err != nil {
		return err
	}
	modules, err := filepath.Glob(filepath.Join(stdlib, "lib-dynload", "*.so"))
	if err != nil {
		return err
	}
	if err := copyLibraries(ctx, filepath.Join(dest, "lib"), append(modules, p.Program)); err != nil {
		return err
	}
	if err := compile(ctx, p.Program, stdlib); err != nil {
		return err
	}
	program := filepath.Join(dest, PythonProgram)
	if err := os.WriteFile(program, []byte(start), 0o755); err != nil {
		return err
	}
	return tryPortable(ctx, program)
}

// unneeded are parts of the standard library that no agent needs, and what others
// installed beside it.
func unneeded(name string) bool {
	return slices.Contains([]string{
		"__pycache__", "dist-packages", "ensurepip", "idlelib", "idle_test", "lib2to3", "site-packages", "sitecustomize.py", "test", "tests", "tkinter", "turtledemo",
	}, name) || slices.ContainsFunc([]string{"_test", "_tkinter.", "_xxtestfuzz", "config-3"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

// compile makes byte code, which no sandbox can keep. It runs nothing of what it
// compiles. What is no program of this version is left as it is.
func compile(ctx context.Context, python, dir string) error {
	cmd := exec.CommandContext(ctx, python, "-I", "-S", "-m", "compileall", "-qq", "--invalidation-mode", "unchecked-hash", dir)
	cmd.Env = environment(os.Environ())
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return fmt.Errorf("compile %s: %w", dir, err)
	}
	return nil
}

// start is a script beside the interpreter. What it starts hears of no variables, and
// of no packages but those it is told of; what that starts hears of nothing.
const start = `#!/bin/sh
d=${0%/*}
exec "$d/lib/` + loader + `" --library-path "$d/lib" "$d/bin/python3" -I -S -X utf8 "$@"
`

// tryPortable has the copy show that it works.
func tryPortable(ctx context.Context, program string) error {
	cmd := exec.CommandContext(ctx, program, "-c", "import asyncio, ctypes, hashlib, json, sqlite3, ssl, zlib")
	cmd.Env = []string{}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the host's Python does not work on its own: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}
