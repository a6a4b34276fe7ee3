package tools

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"harborgate/providers/fake/internal/vfs"
)

func fileTools() map[string]tool {
	return map[string]tool{
		"mkdir": mkdir, "rmdir": rmdir, "rm": rm, "cp": cp, "mv": mv, "ln": ln, "ls": ls, "touch": touch,
		"chmod": chmod, "chown": chown, "mkfifo": mkfifo, "stat": stat, "readlink": readlink, "realpath": realpath,
		"mktemp": mktemp, "find": find, "dd": dd, "basename": basename, "dirname": dirname, "sync": succeed,
	}
}

func succeed(*call) int { return 0 }

func (c *call) every(names []string, f func(name string) error) int {
	code := 0
	for _, name := range names {
		if err := f(name); err != nil {
			code = c.failf("%s: %v", name, cause(err))
		}
	}
	return code
}

func mkdir(c *call) int {
	opt, names, err := c.parse("pm:v")
	if err != nil {
		return c.usage(err)
	}
	perm := fs.FileMode(0o777 &^ c.p.Umask)
	if opt.has('m') {
		if perm, err = parseMode(opt['m'], 0); err != nil {
			return c.usage(err)
		}
	}
	return c.every(names, func(name string) error {
		if !opt.has('p') {
			return c.fs().Mkdir(c.p.Cred, c.p.Abs(name), perm)
		}
		return c.mkdirAll(c.p.Abs(name), perm)
	})
}

func (c *call) mkdirAll(abs string, perm fs.FileMode) error {
	info, err := c.fs().Stat(c.p.Cred, abs, true)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return syscall.EEXIST
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := c.mkdirAll(path.Dir(strings.TrimRight(abs, "/")), perm); err != nil {
		return err
	}
	err = c.fs().Mkdir(c.p.Cred, abs, perm)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

func rmdir(c *call) int {
	return c.every(c.args, func(name string) error { return c.fs().Remove(c.p.Cred, c.p.Abs(name)) })
}

func rm(c *call) int {
	opt, names, err := c.parse("rRfv")
	if err != nil {
		return c.usage(err)
	}
	return c.every(names, func(name string) error {
		err := c.remove(name, opt.has('r') || opt.has('R'))
		if opt.has('f') && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

func (c *call) remove(name string, recursive bool) error {
	c.p.Check()
	info, err := c.stat(name, false)
	if err != nil {
		return err
	}
	if info.IsDir() && !recursive {
		return syscall.EISDIR
	}
	if info.IsDir() {
		kids, err := c.fs().ReadDir(c.p.Cred, c.p.Abs(name))
		if err != nil {
			return err
		}
		for _, kid := range kids {
			if err := c.remove(name+"/"+kid.Base, true); err != nil {
				return err
			}
		}
	}
	return c.fs().Remove(c.p.Cred, c.p.Abs(name))
}

func cp(c *call) int {
	opt, names, err := c.parse("rRapfTLdv")
	if err == nil && len(names) < 2 {
		err = errors.New("missing destination")
	}
	if err != nil {
		return c.usage(err)
	}
	recursive := opt.has('r') || opt.has('R') || opt.has('a')
	dest := names[len(names)-1]
	return c.every(names[:len(names)-1], func(name string) error {
		return c.copy(name, c.inside(dest, name), recursive)
	})
}

func (c *call) copy(from, to string, recursive bool) error {
	info, err := c.stat(from, !recursive)
	switch {
	case err != nil:
		return err
	case info.Bits&fs.ModeSymlink != 0:
		return c.fs().Symlink(c.p.Cred, info.Target, c.p.Abs(to))
	case info.IsDir() && !recursive:
		return syscall.EISDIR
	case info.IsDir():
		return c.copyDir(from, to, info.Bits.Perm())
	}
	in, err := c.open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	return c.writeTo(to, in, info.Bits.Perm(), syscall.O_TRUNC)
}

func (c *call) copyDir(from, to string, perm fs.FileMode) error {
	err := c.fs().Mkdir(c.p.Cred, c.p.Abs(to), perm)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	kids, err := c.fs().ReadDir(c.p.Cred, c.p.Abs(from))
	if err != nil {
		return err
	}
	for _, kid := range kids {
		if err := c.copy(from+"/"+kid.Base, to+"/"+kid.Base, true); err != nil {
			return err
		}
	}
	return nil
}

func (c *call) writeTo(name string, r io.Reader, perm fs.FileMode, flags int) error {
	fd, err := c.p.Open(name, syscall.O_WRONLY|syscall.O_CREAT|flags, perm)
	if err != nil {
		return err
	}
	defer c.p.Close(fd)
	_, err = io.Copy(descriptor{c.p, fd}, r)
	return err
}

func mv(c *call) int {
	_, names, err := c.parse("fTvn")
	if err == nil && len(names) < 2 {
		err = errors.New("missing destination")
	}
	if err != nil {
		return c.usage(err)
	}
	dest := names[len(names)-1]
	return c.every(names[:len(names)-1], func(name string) error {
		return c.fs().Rename(c.p.Cred, c.p.Abs(name), c.p.Abs(c.inside(dest, name)))
	})
}

func ln(c *call) int {
	opt, names, err := c.parse("sfnTv")
	if err == nil && len(names) == 0 {
		err = errors.New("missing file operand")
	}
	if err != nil {
		return c.usage(err)
	}
	dest := path.Base(names[0])
	if len(names) > 1 {
		dest = names[len(names)-1]
		if !opt.has('n') {
			dest = c.inside(dest, names[0])
		}
	}
	if opt.has('f') {
		_ = c.fs().Remove(c.p.Cred, c.p.Abs(dest))
	}
	return c.every(names[:1], func(name string) error {
		if opt.has('s') {
			return c.fs().Symlink(c.p.Cred, name, c.p.Abs(dest))
		}
		return c.fs().Link(c.p.Cred, c.p.Abs(name), c.p.Abs(dest))
	})
}

func ls(c *call) int {
	opt, names, err := c.parse("la1AdRhtr")
	if err != nil {
		return c.usage(err)
	}
	if len(names) == 0 {
		names = []string{"."}
	}
	return c.every(names, func(name string) error {
		info, err := c.stat(name, !opt.has('l') && !opt.has('d'))
		if err != nil {
			return err
		}
		if !info.IsDir() || opt.has('d') {
			c.entry(opt, info, name)
			return nil
		}
		kids, err := c.fs().ReadDir(c.p.Cred, c.p.Abs(name))
		if err != nil {
			return err
		}
		for _, kid := range kids {
			if opt.has('a') || opt.has('A') || !strings.HasPrefix(kid.Base, ".") {
				c.entry(opt, kid, kid.Base)
			}
		}
		return nil
	})
}

func (c *call) entry(opt flags, info vfs.Info, name string) {
	if !opt.has('l') {
		_, _ = fmt.Fprintln(c.out, name)
		return
	}
	arrow := ""
	if info.Target != "" {
		arrow = " -> " + info.Target
	}
	_, _ = fmt.Fprintf(c.out, "%s %d %d %d %d %s %s%s\n", modeString(info.Bits), info.Links, info.UID, info.GID,
		info.Bytes, info.Changed.UTC().Format("Jan _2 15:04"), name, arrow)
}

func modeString(m fs.FileMode) string {
	kinds := map[fs.FileMode]string{
		fs.ModeDir: "d", fs.ModeSymlink: "l", fs.ModeNamedPipe: "p", fs.ModeDevice | fs.ModeCharDevice: "c",
	}
	kind, ok := kinds[m.Type()]
	if !ok {
		kind = "-"
	}
	return kind + m.Perm().String()[1:]
}

func touch(c *call) int {
	_, names, err := c.parse("amc")
	if err != nil {
		return c.usage(err)
	}
	return c.every(names, func(name string) error {
		err := c.fs().Chtimes(c.p.Cred, c.p.Abs(name), c.p.Now())
		if errors.Is(err, fs.ErrNotExist) {
			err = c.writeTo(name, strings.NewReader(""), 0o666, 0)
		}
		return err
	})
}

func chmod(c *call) int {
	args := c.args
	recursive := len(args) > 0 && args[0] == "-R"
	if recursive {
		args = args[1:]
	}
	if len(args) < 2 {
		return c.usage(errors.New("missing operand"))
	}
	return c.every(args[1:], func(name string) error {
		return c.walk(name, recursive, func(name string, info vfs.Info) error {
			if info.Bits&fs.ModeSymlink != 0 && recursive {
				return nil
			}
			target, err := c.stat(name, true)
			if err != nil {
				return err
			}
			mode, err := parseMode(args[0], target.Bits)
			if err != nil {
				return err
			}
			return c.fs().Chmod(c.p.Cred, c.p.Abs(name), mode)
		})
	})
}

func chown(c *call) int {
	opt, args, err := c.parse("Rh")
	if err == nil && len(args) < 2 {
		err = errors.New("missing operand")
	}
	if err != nil {
		return c.usage(err)
	}
	user, group, hasGroup := strings.Cut(args[0], ":")
	account, ok := lookupUser(c.fs(), user)
	if !ok {
		return c.failf("invalid user: %q", user)
	}
	if gid, ok := lookupGroup(c.fs(), group); ok && hasGroup {
		account.GID = gid
	}
	return c.every(args[1:], func(name string) error {
		return c.walk(name, opt.has('R'), func(name string, _ vfs.Info) error {
			return c.fs().Chown(c.p.Cred, c.p.Abs(name), account.UID, account.GID)
		})
	})
}

// walk calls f for name and, when deep, for everything below it. Links are not
// followed.
func (c *call) walk(name string, deep bool, f func(string, vfs.Info) error) error {
	c.p.Check()
	info, err := c.stat(name, false)
	if err != nil {
		return err
	}
	if err := f(name, info); err != nil || !deep || !info.IsDir() {
		return err
	}
	kids, err := c.fs().ReadDir(c.p.Cred, c.p.Abs(name))
	if err != nil {
		return err
	}
	for _, kid := range kids {
		if err := c.walk(strings.TrimSuffix(name, "/")+"/"+kid.Base, true, f); err != nil {
			return err
		}
	}
	return nil
}

func mkfifo(c *call) int {
	return c.every(c.args, func(name string) error {
		return c.fs().Mkfifo(c.p.Cred, c.p.Abs(name), fs.FileMode(0o666&^c.p.Umask))
	})
}
