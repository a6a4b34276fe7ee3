package kernel

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"harborgate/providers/fake/internal/vfs"
)

// Linux's limits on what a program can be started with, in bytes.
const (
	MaxArgBytes  = 128 << 10
	MaxArgsBytes = 2 << 20
)

// DefaultPath is searched when PATH is not set.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// start runs s as a child of parent.
func (m *Machine) start(parent *Proc, job *Job, s Spawn) (*Proc, error) {
	closeAll := func() {
		for _, d := range s.Stdio {
			d.Close()
		}
	}
	image, err := m.load(s.Cred, s.Dir, s.Args, s.Env)
	if err != nil {
		closeAll()
		return nil, err
	}
	p, err := m.fork(parent, job, func(p *Proc) {
		p.Cred, p.Dir, p.args, p.env = s.Cred, s.Dir, image.args, s.Env
		for fd, d := range s.Stdio {
			p.fds[fd] = d
		}
	}, image.run)
	if err != nil {
		closeAll()
	}
	return p, err
}

// image is a program that is ready to run.
type image struct {
	run  Program
	args []string
}

// load finds the program of a command: E2BIG, ENOENT, EACCES and ENOEXEC are as
// in execve(2).
func (m *Machine) load(c vfs.Cred, dir string, args, env []string) (image, error) {
	if len(args) == 0 {
		return image{}, syscall.EINVAL
	}
	total := 0
	for _, s := range slices.Concat(args, env) {
		total += len(s) + 1
		if len(s) >= MaxArgBytes {
			return image{}, &fs.PathError{Op: "exec", Path: args[0], Err: syscall.E2BIG}
		}
	}
	if total > MaxArgsBytes {
		return image{}, &fs.PathError{Op: "exec", Path: args[0], Err: syscall.E2BIG}
	}
	file, err := m.LookPath(c, dir, args[0], env)
	if err != nil {
		return image{}, err
	}
	return m.loadFile(c, file, args, 0)
}

const maxInterpreters = 4

func (m *Machine) loadFile(c vfs.Cred, file string, args []string, depth int) (image, error) {
	fail := func(err error) (image, error) { return image{}, &fs.PathError{Op: "exec", Path: file, Err: err} }
	if depth > maxInterpreters {
		return fail(syscall.ELOOP)
	}
	content, err := m.FS.ReadFile(c, file)
	if err != nil {
		return image{}, err
	}
	first, _, _ := bytes.Cut(content[:min(len(content), 256)], []byte("\n"))
	line := string(first)
	if name, ok := strings.CutPrefix(line, binaryMagic); ok {
		run, ok := m.programs[name]
		if !ok {
			return fail(syscall.ENOEXEC)
		}
		return image{run, args}, nil
	}
	interpreter, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return fail(syscall.ENOEXEC)
	}
	words := strings.SplitN(strings.TrimSpace(interpreter), " ", 2)
	if _, err := m.executable(c, words[0]); err != nil {
		return fail(syscall.ENOENT)
	}
	return m.loadFile(c, words[0], slices.Concat(words, []string{file}, args[1:]), depth+1)
}

// LookPath finds the file of a program as a shell does.
func (m *Machine) LookPath(c vfs.Cred, dir, name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if !strings.HasPrefix(name, "/") {
			name = dir + "/" + name
		}
		return m.executable(c, name)
	}
	search := DefaultPath
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			search = v
		}
	}
	found := error(&fs.PathError{Op: "exec", Path: name, Err: syscall.ENOENT})
	for d := range strings.SplitSeq(search, ":") {
		if !strings.HasPrefix(d, "/") {
			d = path.Join(dir, d)
		}
		file, err := m.executable(c, d+"/"+name)
		if err == nil {
			return file, nil
		}
		if errors.Is(err, syscall.EACCES) {
			found = err
		}
	}
	return "", found
}

func (m *Machine) executable(c vfs.Cred, file string) (string, error) {
	info, err := m.FS.Stat(c, file, true)
	switch {
	case err != nil:
		return "", err
	case !info.Bits.IsRegular(), !c.Allows(info.Bits, info.UID, info.GID, 1):
		return "", &fs.PathError{Op: "exec", Path: file, Err: syscall.EACCES}
	}
	return file, nil
}

// Exec replaces the program of the process. It returns only on error.
func (p *Proc) Exec(args, env []string) error {
	p.Check()
	image, err := p.m.load(p.Cred, p.Dir, args, env)
	if err != nil {
		return err
	}
	p.m.mu.Lock()
	p.args, p.env = image.args, env
	clear(p.caught)
	p.m.mu.Unlock()
	p.ClosePrivate()
	p.Exit(image.run(p))
	return nil
}

// Spawn starts a program in a child and returns its number.
func (p *Proc) Spawn(args, env []string) (int, error) {
	p.Check()
	image, err := p.m.load(p.Cred, p.Dir, args, env)
	if err != nil {
		return 0, err
	}
	child, err := p.m.fork(p, p.job, func(c *Proc) {
		c.inherit(p)
		c.ClosePrivate()
		c.args, c.env = image.args, env
	}, image.run)
	if err != nil {
		return 0, err
	}
	return child.PID, nil
}

// LookPath finds a program in the process's directory and the given environment.
func (p *Proc) LookPath(name string, env []string) (string, error) {
	return p.m.LookPath(p.Cred, p.Dir, name, env)
}

// ExitCode is the exit code of a shell for a program that could not be started.
func ExitCode(err error) int {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return 127
	}
	return 126
}
