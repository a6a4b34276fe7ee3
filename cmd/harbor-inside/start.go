package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"harborgate/internal/insideproto"
)

// exitCode is the status of a command whose program could not be run.
type exitCode int

const (
	notExecutable exitCode = 126
	notFound      exitCode = 127
)

func (c exitCode) Error() string {
	if c == notFound {
		return "not found"
	}
	return "cannot be executed"
}

// startCommand starts spec on our standard streams and returns its pid.
func startCommand(spec insideproto.Supervised) (int, error) {
	if len(spec.Args) == 0 {
		return 0, insideproto.Refuse(insideproto.Invalid, "a command without a program")
	}
	who, err := lookUpUser("/etc", spec.User)
	if err != nil {
		return 0, err
	}
	dir, err := commandDir(string(spec.Dir))
	if err != nil {
		return 0, err
	}
	env := commandEnv(spec, who)
	attr := &syscall.ProcAttr{
		Dir:   dir,
		Env:   env.list(),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: spec.TTY != nil, Credential: who.credential()},
	}
	if spec.TTY != nil {
		_ = unix.Fchown(0, who.uid, -1) // so that it can open its own terminal again
	}
	argv := make([]string, len(spec.Args))
	for i, a := range spec.Args {
		argv[i] = string(a)
	}
	restore := raiseOOMScore()
	defer restore()
	return execFirst(candidates(argv[0], dir, env["PATH"]), argv, attr)
}

// commandDir checks the directory, "" is ours.
func commandDir(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	st, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", insideproto.Refuse(insideproto.Invalid, "the command's directory: %v", err)
	case !st.IsDir():
		return "", insideproto.Refuse(insideproto.Invalid, "the command's directory %s is a file", dir)
	}
	return dir, nil
}

// candidates lists the files that a program's name can mean, by the rules of execvp.
func candidates(name, dir, searchPath string) []string {
	if strings.Contains(name, "/") || name == "" {
		return []string{name}
	}
	var out []string
	for _, d := range strings.Split(searchPath, ":") {
		if d == "" {
			d = "."
		}
		file := path.Join(d, name)
		if !path.IsAbs(file) {
			file = "./" + file
		}
		seen := file
		if !path.IsAbs(seen) {
			seen = path.Join(dir, file)
		}
		if st, err := os.Stat(seen); err == nil && !st.IsDir() {
			out = append(out, file)
		}
	}
	return out
}

// execFirst starts the first candidate that can be started.
func execFirst(files, argv []string, attr *syscall.ProcAttr) (int, error) {
	last := error(syscall.ENOENT)
	for _, file := range files {
		pid, err := syscall.ForkExec(file, argv, attr)
		if err == nil {
			return pid, nil
		}
		last = err
		if !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.ENOENT) {
			break
		}
	}
	return 0, execError(last, argv[0], attr)
}

// execError tells failures of the program from those of the request.
func execError(err error, name string, attr *syscall.ProcAttr) error {
	switch {
	case errors.Is(err, syscall.E2BIG):
		return insideproto.Refuse(insideproto.Invalid,
			"arguments and environment of %s are larger than the kernel passes (128 KiB each, a quarter of the stack limit in all); use a file or standard input", name)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM):
		return startError(err)
	case errors.Is(err, syscall.EACCES) && !canEnter(attr):
		return insideproto.Refuse(insideproto.Invalid, "the command's user may not enter its directory %s", attr.Dir)
	case errors.Is(err, syscall.EPERM) && attr.Sys.Credential != nil:
		return insideproto.Refuse(insideproto.Denied, "cannot run commands as user %d: %v", attr.Sys.Credential.Uid, err)
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s: %w", name, notFound)
	default:
		return fmt.Errorf("%s: %w: %w", name, notExecutable, err)
	}
}

// canEnter reports whether the command's user may change to its directory. An
// empty program never runs, but fails after that.
func canEnter(attr *syscall.ProcAttr) bool {
	_, err := syscall.ForkExec("", []string{""}, attr)
	return errors.Is(err, syscall.ENOENT)
}

const oomScoreFile = "/proc/self/oom_score_adj"

// commandOOMScore makes the kernel's memory killer choose the command, not us:
// raising a score needs no privilege, lowering ours would. The score is inherited
// at fork; restore brings ours back.
const commandOOMScore = 500

func raiseOOMScore() (restore func()) {
	nothing := func() {}
	was, err := os.ReadFile(oomScoreFile)
	if err != nil {
		return nothing
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(was))); err != nil || n >= commandOOMScore {
		return nothing
	}
	if os.WriteFile(oomScoreFile, []byte(strconv.Itoa(commandOOMScore)), 0) != nil {
		return nothing
	}
	return func() { _ = os.WriteFile(oomScoreFile, was, 0) }
}

const (
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	defaultTerm = "xterm"
)

// environment maps names to values.
type environment map[string]string

func (e environment) set(entries [][]byte) {
	for _, entry := range entries {
		name, value, _ := strings.Cut(string(entry), "=")
		if name != "" {
			e[name] = value
		}
	}
}

func (e environment) list() []string {
	out := make([]string, 0, len(e))
	for _, name := range slices.Sorted(maps.Keys(e)) {
		out = append(out, name+"="+e[name])
	}
	return out
}

// commandEnv is the sandbox's environment, then the user's home, then what the
// command asks for.
func commandEnv(spec insideproto.Supervised, who account) environment {
	e := environment{"PATH": defaultPath}
	if spec.TTY != nil {
		e["TERM"] = defaultTerm
	}
	e.set(spec.Environ)
	if _, ok := e["HOME"]; !ok || who.uid != os.Geteuid() {
		e["HOME"] = who.home
	}
	e.set(spec.Env)
	return e
}
