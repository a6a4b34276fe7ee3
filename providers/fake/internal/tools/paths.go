package tools

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"

	"harborgate/providers/fake/internal/vfs"
)

func stat(c *call) int {
	opt, names, err := c.parse("c:L")
	if err != nil {
		return c.usage(err)
	}
	return c.every(names, func(name string) error {
		info, err := c.stat(name, opt.has('L'))
		if err != nil {
			return err
		}
		format := "%n %s %a"
		if opt.has('c') {
			format = opt['c']
		}
		_, _ = fmt.Fprintln(c.out, formatStat(format, name, info))
		return nil
	})
}

func formatStat(format, name string, info vfs.Info) string {
	kind := "regular file"
	switch {
	case info.IsDir():
		kind = "directory"
	case info.Bits&fs.ModeSymlink != 0:
		kind = "symbolic link"
	case info.Bits&fs.ModeNamedPipe != 0:
		kind = "fifo"
	case info.Bits&fs.ModeDevice != 0:
		kind = "character special file"
	case info.Bytes == 0:
		kind = "regular empty file"
	}
	return strings.NewReplacer(
		"%n", name, "%s", strconv.FormatInt(info.Bytes, 10), "%a", strconv.FormatInt(octal(info.Bits), 8),
		"%F", kind, "%u", strconv.Itoa(info.UID), "%g", strconv.Itoa(info.GID), "%i", strconv.FormatUint(info.Ino, 10),
		"%h", strconv.Itoa(info.Links), "%Y", strconv.FormatInt(info.Changed.Unix(), 10),
	).Replace(format)
}

func octal(m fs.FileMode) int64 {
	n := int64(m.Perm())
	for mode, bit := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&mode != 0 {
			n |= bit
		}
	}
	return n
}

func readlink(c *call) int {
	opt, names, err := c.parse("fen")
	if err != nil {
		return c.usage(err)
	}
	if opt.has('f') || opt.has('e') {
		c.args = names
		return realpath(c)
	}
	for _, name := range names {
		info, err := c.stat(name, false)
		if err != nil || info.Bits&fs.ModeSymlink == 0 {
			return 1
		}
		_, _ = fmt.Fprintln(c.out, info.Target)
	}
	return 0
}

func realpath(c *call) int {
	_, names, err := c.parse("emqs")
	if err != nil {
		return c.usage(err)
	}
	return c.every(names, func(name string) error {
		real, err := c.fs().Real(c.p.Cred, c.p.Abs(name))
		if errors.Is(err, fs.ErrNotExist) {
			parent, perr := c.fs().Real(c.p.Cred, path.Dir(c.p.Abs(name)))
			real, err = path.Join(parent, path.Base(name)), perr
		}
		if err == nil {
			_, _ = fmt.Fprintln(c.out, real)
		}
		return err
	})
}

func mktemp(c *call) int {
	opt, names, err := c.parse("dp:tqu")
	if err != nil {
		return c.usage(err)
	}
	template := "/tmp/tmp.XXXXXXXXXX"
	if len(names) > 0 {
		template = names[0]
	}
	stem := strings.TrimRight(template, "X")
	for i := range 1 << 16 {
		name := fmt.Sprintf("%s%0*d", stem, len(template)-len(stem), i)
		make := func() error { return c.fs().Mkdir(c.p.Cred, c.p.Abs(name), 0o700) }
		if !opt.has('d') {
			make = func() error { return c.writeTo(name, strings.NewReader(""), 0o600, syscall.O_EXCL) }
		}
		err := make()
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return c.failf("%s: %v", name, cause(err))
		}
		_, _ = fmt.Fprintln(c.out, name)
		return 0
	}
	return c.failf("no free name for %s", template)
}

// find understands -name, -type, -maxdepth and -delete.
func find(c *call) int {
	var roots []string
	args := c.args
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		roots = append(roots, args[0])
		args = args[1:]
	}
	if len(roots) == 0 {
		roots = []string{"."}
	}
	tests := map[string]string{}
	remove := false
	for len(args) > 0 {
		switch {
		case args[0] == "-delete":
			remove = true
			args = args[1:]
		case args[0] == "-print":
			args = args[1:]
		case len(args) > 1 && strings.Contains("-name -type -maxdepth", args[0]):
			tests[args[0]] = args[1]
			args = args[2:]
		default:
			return c.usage(fmt.Errorf("unknown predicate %q", args[0]))
		}
	}
	return c.every(roots, func(root string) error {
		return c.walk(root, true, func(name string, info vfs.Info) error {
			if !found(tests, root, name, info) {
				return nil
			}
			if remove {
				return c.remove(name, true)
			}
			_, err := fmt.Fprintln(c.out, name)
			return err
		})
	})
}

func found(tests map[string]string, root, name string, info vfs.Info) bool {
	if pattern, ok := tests["-name"]; ok {
		if match, err := path.Match(pattern, path.Base(name)); err != nil || !match {
			return false
		}
	}
	if limit, ok := tests["-maxdepth"]; ok {
		n, err := strconv.Atoi(limit)
		depth := strings.Count(strings.TrimPrefix(name, strings.TrimSuffix(root, "/")), "/")
		if err != nil || depth > n {
			return false
		}
	}
	kind, ok := tests["-type"]
	return !ok || kind == strings.Replace(modeString(info.Bits)[:1], "-", "f", 1)
}

// dd understands if, of, bs and count.
func dd(c *call) int {
	opt := map[string]string{"if": "-", "bs": "512", "count": "-1"}
	for _, a := range c.args {
		name, value, _ := strings.Cut(a, "=")
		opt[name] = value
	}
	bs, err := parseSize(opt["bs"])
	if err != nil || bs <= 0 {
		return c.usage(fmt.Errorf("invalid block size %q", opt["bs"]))
	}
	count, err := parseSize(opt["count"])
	if err != nil {
		return c.usage(err)
	}
	in, err := c.open(opt["if"])
	if err != nil {
		return c.failf("%s: %v", opt["if"], cause(err))
	}
	defer func() { _ = in.Close() }()
	var r io.Reader = in
	if count >= 0 {
		r = io.LimitReader(in, count*bs)
	}
	if name := opt["of"]; name != "" {
		err = c.writeTo(name, r, 0o666, syscall.O_TRUNC)
	} else {
		_, err = io.Copy(c.out, r)
	}
	if err != nil {
		return c.failf("%v", err)
	}
	return 0
}

func basename(c *call) int {
	if len(c.args) == 0 {
		return c.usage(errors.New("missing operand"))
	}
	name := path.Base(c.args[0])
	if len(c.args) > 1 {
		name = strings.TrimSuffix(name, c.args[1])
	}
	_, _ = fmt.Fprintln(c.out, name)
	return 0
}

func dirname(c *call) int {
	for _, name := range c.args {
		_, _ = fmt.Fprintln(c.out, path.Dir(name))
	}
	return 0
}
