// Package tools holds the programs of fake sandboxes: small versions of the
// coreutils, with the options that scripts commonly use, and hg-fetch (also
// installed as curl) for HTTP.
package tools

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"harborgate/providers/fake/internal/kernel"
	"harborgate/providers/fake/internal/shell"
	"harborgate/providers/fake/internal/vfs"
)

// tool is one program. Its result is the exit code; output is flushed after it.
type tool func(c *call) int

// call is one run of a tool.
type call struct {
	p    *kernel.Proc
	name string
	args []string // without the name
	out  *bufio.Writer
}

// Programs are all tools and the shell by name.
func Programs() map[string]kernel.Program {
	out := map[string]kernel.Program{"sh": shell.Main, "bash": shell.Main, "dash": shell.Main}
	for _, name := range []string{"echo", "printf", "test", "[", "kill", "true", "false", "pwd"} {
		out[name] = shell.Builtin(name)
	}
	for _, table := range []map[string]tool{fileTools(), textTools(), systemTools(), networkTools()} {
		for name, t := range table {
			out[name] = t.program(name)
		}
	}
	return out
}

// Install puts every program into the tree's /usr/bin, with /bin leading there.
func Install(f *vfs.FS) error {
	if err := f.MkdirAll("/usr/bin", 0o755); err != nil {
		return err
	}
	if err := f.Symlink(vfs.Root(), "usr/bin", "/bin"); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(Programs())) {
		if err := f.WriteFile("/usr/bin/"+name, kernel.Binary(name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (t tool) program(name string) kernel.Program {
	return func(p *kernel.Proc) int {
		c := &call{p: p, name: name, args: p.Args()[1:]}
		c.out = bufio.NewWriterSize(descriptor{p, 1}, 4096)
		code := t(c)
		if err := c.out.Flush(); err != nil {
			return c.failf("write error: %v", cause(err))
		}
		return code
	}
}

// descriptor is one of the process's descriptors as a reader and a writer.
type descriptor struct {
	p  *kernel.Proc
	fd int
}

func (d descriptor) Read(b []byte) (int, error)  { return d.p.Read(d.fd, b) }
func (d descriptor) Write(b []byte) (int, error) { return d.p.Write(d.fd, b) }
func (d descriptor) Close() error {
	d.p.Close(d.fd)
	return nil
}

// failf prints an error and returns 1.
func (c *call) failf(format string, args ...any) int {
	_, _ = fmt.Fprintf(descriptor{c.p, 2}, c.name+": "+format+"\n", args...)
	return 1
}

// usage is failf for a wrong command line, which is 2 with some tools.
func (c *call) usage(err error) int {
	c.failf("%v", err)
	return 2
}

// cause strips a path from an error: the caller names it.
func cause(err error) error {
	var perr *fs.PathError
	if errors.As(err, &perr) {
		return perr.Err
	}
	return err
}

// flags are the options of a call, by letter.
type flags map[byte]string

func (f flags) has(letter byte) bool {
	_, ok := f[letter]
	return ok
}

// number reads an option's value, with the suffixes of head and dd.
func (f flags) number(letter byte, otherwise int64) (int64, error) {
	s, ok := f[letter]
	if !ok {
		return otherwise, nil
	}
	return parseSize(s)
}

func parseSize(s string) (int64, error) {
	unit := int64(1)
	for suffix, factor := range map[string]int64{"k": 1 << 10, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30} {
		if rest, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = rest, factor
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("invalid number %q", s)
	}
	return n * unit, nil
}

// parse reads options: spec holds the letters, a colon after those with a value.
func (c *call) parse(spec string) (flags, []string, error) {
	out, args := flags{}, c.args
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		group := args[0][1:]
		args = args[1:]
		if group == "-" {
			break
		}
		for i := 0; i < len(group); i++ {
			at := strings.IndexByte(spec, group[i])
			switch {
			case at < 0 || group[i] == ':':
				return nil, nil, fmt.Errorf("invalid option -- %q", "-"+group)
			case at+1 == len(spec) || spec[at+1] != ':':
				out[group[i]] = ""
				continue
			case i+1 < len(group):
				out[group[i]] = group[i+1:]
			case len(args) == 0:
				return nil, nil, fmt.Errorf("option requires an argument -- %q", group[i:])
			default:
				out[group[i]] = args[0]
				args = args[1:]
			}
			break
		}
	}
	return out, args, nil
}

// open opens a file for reading; "-" is standard input.
func (c *call) open(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(descriptor{c.p, 0}), nil
	}
	fd, err := c.p.Open(name, syscall.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	return descriptor{c.p, fd}, nil
}

// each runs f over the named files, or standard input when there are none.
func (c *call) each(names []string, f func(name string, r io.Reader) error) int {
	if len(names) == 0 {
		names = []string{"-"}
	}
	code := 0
	for _, name := range names {
		r, err := c.open(name)
		if err == nil {
			err = f(name, r)
			_ = r.Close()
		}
		if err != nil {
			code = c.failf("%s: %v", name, cause(err))
		}
	}
	return code
}

// lines calls f for each line without its end, and charges what a long line
// holds in memory.
func (c *call) lines(r io.Reader, f func(line string) error) error {
	in := bufio.NewReader(r)
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			c.p.Charge(int64(len(part)))
			continue
		}
		atEnd := errors.Is(err, io.EOF)
		if err != nil && !atEnd {
			return err
		}
		if len(line) > 0 {
			if err := f(strings.TrimSuffix(string(line), "\n")); err != nil {
				return err
			}
		}
		if atEnd {
			return nil
		}
		line = line[:0]
	}
}

// slurp reads everything and charges it.
func (c *call) slurp(r io.Reader) ([]byte, error) {
	var out []byte
	b := make([]byte, 32<<10)
	for {
		n, err := r.Read(b)
		c.p.Charge(int64(n))
		out = append(out, b[:n]...)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
	}
}

func (c *call) fs() *vfs.FS { return c.p.FS() }

func (c *call) stat(name string, follow bool) (vfs.Info, error) {
	return c.fs().Stat(c.p.Cred, c.p.Abs(name), follow)
}

// inside returns dest, or the place of source in it when dest is a directory.
func (c *call) inside(dest, source string) string {
	if info, err := c.stat(dest, true); err == nil && info.IsDir() {
		return path.Join(dest, path.Base(source))
	}
	return dest
}
