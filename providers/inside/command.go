package inside

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"

	"harborgate/internal/insideproto"
	"harborgate/providers"
)

// request checks a command and puts it into the protocol's form.
func (s *Session) request(cmd providers.Command) (insideproto.Command, error) {
	req := insideproto.Command{
		User:          cmd.User,
		Dir:           []byte(s.absolute(cmd.Dir)),
		Stdin:         cmd.Stdin != nil,
		Combined:      cmd.Stdout != nil && sameWriter(cmd.Stdout, cmd.Stderr),
		KillLeftovers: cmd.KillLeftovers,
	}
	if req.User == "" {
		req.User = s.o.User
	}
	if cmd.TTY != nil {
		req.TTY = &insideproto.Size{Rows: cmd.TTY.Rows, Cols: cmd.TTY.Cols}
	}
	for _, a := range cmd.Args {
		req.Args = append(req.Args, []byte(a))
	}
	for _, env := range []map[string]string{s.o.Env, cmd.Env, cmd.SecretEnv} {
		for _, name := range slices.Sorted(maps.Keys(env)) {
			req.Env = append(req.Env, []byte(name+"="+env[name]))
		}
	}
	return req, checkRequest(req)
}

// absolute resolves a directory against the sandbox's.
func (s *Session) absolute(dir string) string {
	if dir == "" || !path.IsAbs(dir) && s.o.Dir != "" {
		dir = path.Join(s.o.Dir, dir)
	}
	return dir
}

// sameWriter compares two writers, whatever they are.
func sameWriter(a, b any) bool {
	return b != nil && reflect.TypeOf(a).Comparable() && reflect.ValueOf(a).Comparable() &&
		reflect.ValueOf(b).Comparable() && a == b
}

// checkRequest finds what the kernel would refuse. Values never appear in the
// error: they may be secret.
func checkRequest(req insideproto.Command) error {
	total := 0
	if len(req.Args) == 0 || len(req.Args[0]) == 0 {
		return insideproto.Refuse(insideproto.Invalid, "a command without a program")
	}
	for i, a := range req.Args {
		if err := checkString(fmt.Sprintf("argument %d", i), a); err != nil {
			return err
		}
		total += len(a)
	}
	for _, e := range req.Env {
		name, _, _ := bytes.Cut(e, []byte("="))
		if len(name) == 0 {
			return insideproto.Refuse(insideproto.Invalid, "an environment variable without a name")
		}
		if err := checkString(fmt.Sprintf("environment variable %s", insideproto.Printable(string(name), 64)), e); err != nil {
			return err
		}
		total += len(e)
	}
	if total > insideproto.MaxArgs {
		return insideproto.Refuse(insideproto.Invalid,
			"arguments and environment are %d bytes, more than Linux ever passes to a program; use a file or standard input", total)
	}
	return nil
}

func checkString(what string, s []byte) error {
	switch {
	case bytes.IndexByte(s, 0) >= 0:
		return insideproto.Refuse(insideproto.Invalid, "%s contains a NUL byte", what)
	case len(s) > insideproto.MaxArg:
		return insideproto.Refuse(insideproto.Invalid,
			"%s is %d bytes long, Linux passes at most %d; use a file or standard input", what, len(s), insideproto.MaxArg)
	}
	return nil
}
