package tools

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"harborgate/providers/fake/internal/kernel"
	"harborgate/providers/fake/internal/vfs"
)

func systemTools() map[string]tool {
	return map[string]tool{
		"sleep": sleep, "env": env, "printenv": printenv, "id": id, "whoami": whoami, "date": date,
		"uname": uname, "hostname": hostname, "nproc": nproc, "setsid": setsid, "nohup": nohup, "timeout": timeout,
		"stty": stty, "xargs": xargs, "nice": nohup, "stdbuf": stdbuf, "apt-get": succeed, "pip": succeed, "pip3": succeed,
	}
}

// forever sleeps until it is killed.
func (c *call) forever() int {
	for {
		c.p.Sleep(24 * time.Hour)
	}
}

func duration(s string) (time.Duration, error) {
	unit := time.Second
	for suffix, d := range map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour} {
		if rest, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = rest, d
			break
		}
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("invalid time interval %q", s)
	}
	return time.Duration(n * float64(unit)), nil
}

func sleep(c *call) int {
	var total time.Duration
	for _, a := range c.args {
		if a == "infinity" || a == "inf" {
			return c.forever()
		}
		d, err := duration(a)
		if err != nil {
			return c.failf("%v", err)
		}
		total += d
	}
	c.p.Sleep(total)
	return 0
}

// become replaces the process by another program.
func (c *call) become(args, env []string) int {
	err := c.p.Exec(args, env)
	c.failf("%s: %v", args[0], cause(err))
	return kernel.ExitCode(err)
}

func env(c *call) int {
	vars, args, end := c.p.Env(), c.args, "\n"
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "-i", "-":
			vars = nil
		case "-0":
			end = "\x00"
		case "-u":
			if len(args) > 1 {
				args = args[1:]
				vars = slices.DeleteFunc(vars, func(kv string) bool { return strings.HasPrefix(kv, args[0]+"=") })
			}
		default:
			return c.usage(fmt.Errorf("invalid option %q", args[0]))
		}
		args = args[1:]
	}
	for len(args) > 0 && strings.Contains(args[0], "=") {
		name, _, _ := strings.Cut(args[0], "=")
		vars = slices.DeleteFunc(vars, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		vars = append(vars, args[0])
		args = args[1:]
	}
	if len(args) > 0 {
		return c.become(args, vars)
	}
	for _, kv := range vars {
		_, _ = c.out.WriteString(kv + end)
	}
	return 0
}

func printenv(c *call) int {
	code := 0
	for _, name := range c.args {
		i := slices.IndexFunc(c.p.Env(), func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		if i < 0 {
			code = 1
			continue
		}
		_, _ = fmt.Fprintln(c.out, strings.TrimPrefix(c.p.Env()[i], name+"="))
	}
	if len(c.args) == 0 {
		return env(c)
	}
	return code
}

// Account is a line of /etc/passwd.
type Account struct {
	Name     string
	UID, GID int
	Home     string
	Shell    string
}

// records returns the fields of each line of a colon-separated file.
func records(f *vfs.FS, file string, fields int) [][]string {
	content, err := f.ReadFile(vfs.Root(), file)
	if err != nil {
		return nil
	}
	var out [][]string
	for line := range strings.Lines(string(content)) {
		if r := strings.Split(strings.TrimSpace(line), ":"); len(r) >= fields {
			out = append(out, r)
		}
	}
	return out
}

func lookupUser(f *vfs.FS, user string) (Account, bool) {
	for _, r := range records(f, "/etc/passwd", 7) {
		if r[0] != user && r[2] != user {
			continue
		}
		uid, errU := strconv.Atoi(r[2])
		gid, errG := strconv.Atoi(r[3])
		return Account{Name: r[0], UID: uid, GID: gid, Home: r[5], Shell: r[6]}, errU == nil && errG == nil
	}
	n, err := strconv.Atoi(user)
	return Account{UID: n, GID: 0, Home: "/"}, err == nil && n >= 0
}

func lookupGroup(f *vfs.FS, group string) (int, bool) {
	for _, r := range records(f, "/etc/group", 3) {
		if r[0] == group {
			n, err := strconv.Atoi(r[2])
			return n, err == nil
		}
	}
	n, err := strconv.Atoi(group)
	return n, err == nil && n >= 0
}

// LookupUser resolves NAME, UID, NAME:GROUP or UID:GID as the tree's /etc/passwd
// and /etc/group have it. A number needs no entry; root is always known.
func LookupUser(f *vfs.FS, user string) (Account, vfs.Cred, error) {
	name, group, hasGroup := strings.Cut(user, ":")
	account, ok := lookupUser(f, name)
	if name == "root" && !ok {
		account, ok = Account{Name: "root", Home: "/root"}, true
	}
	if !ok {
		return Account{}, vfs.Cred{}, fmt.Errorf("user %q is not in /etc/passwd", name)
	}
	cred := vfs.Cred{UID: account.UID, GID: account.GID}
	if hasGroup {
		gid, ok := lookupGroup(f, group)
		if !ok {
			return Account{}, vfs.Cred{}, fmt.Errorf("group %q is not in /etc/group", group)
		}
		cred.GID = gid
		return account, cred, nil
	}
	for _, r := range records(f, "/etc/group", 4) {
		if gid, err := strconv.Atoi(r[2]); err == nil && slices.Contains(strings.Split(r[3], ","), account.Name) {
			cred.Groups = append(cred.Groups, gid)
		}
	}
	return account, cred, nil
}

func (c *call) userName(uid int) string {
	if a, ok := lookupUser(c.fs(), strconv.Itoa(uid)); ok && a.Name != "" {
		return a.Name
	}
	return strconv.Itoa(uid)
}

func id(c *call) int {
	opt, _, err := c.parse("ugnG")
	if err != nil {
		return c.usage(err)
	}
	cred := c.p.Cred
	switch {
	case opt.has('u') && opt.has('n'):
		_, _ = fmt.Fprintln(c.out, c.userName(cred.UID))
	case opt.has('u'):
		_, _ = fmt.Fprintln(c.out, cred.UID)
	case opt.has('g') && opt.has('n'):
		_, _ = fmt.Fprintln(c.out, c.groupName(cred.GID))
	case opt.has('g'):
		_, _ = fmt.Fprintln(c.out, cred.GID)
	default:
		_, _ = fmt.Fprintf(c.out, "uid=%d(%s) gid=%d(%s)\n", cred.UID, c.userName(cred.UID), cred.GID, c.groupName(cred.GID))
	}
	return 0
}

func (c *call) groupName(gid int) string {
	for _, r := range records(c.fs(), "/etc/group", 3) {
		if r[2] == strconv.Itoa(gid) {
			return r[0]
		}
	}
	return strconv.Itoa(gid)
}

func whoami(c *call) int {
	_, _ = fmt.Fprintln(c.out, c.userName(c.p.Cred.UID))
	return 0
}

func date(c *call) int {
	now := c.p.Now().UTC()
	format := "+%F %T"
	for _, a := range c.args {
		if strings.HasPrefix(a, "+") {
			format = a
		}
	}
	_, _ = fmt.Fprintln(c.out, strings.NewReplacer(
		"%s", strconv.FormatInt(now.Unix(), 10), "%N", fmt.Sprintf("%09d", now.Nanosecond()), "%F", now.Format(time.DateOnly),
		"%T", now.Format(time.TimeOnly), "%Y", now.Format("2006"), "%m", now.Format("01"), "%d", now.Format("02"),
		"%H", now.Format("15"), "%M", now.Format("04"), "%S", now.Format("05"),
	).Replace(format[1:]))
	return 0
}

func uname(c *call) int {
	out := "Linux"
	if slices.Contains(c.args, "-m") {
		out = "x86_64"
	}
	_, _ = fmt.Fprintln(c.out, out)
	return 0
}

func hostname(c *call) int {
	name, err := c.fs().ReadFile(c.p.Cred, "/etc/hostname")
	if err != nil {
		return c.failf("%v", err)
	}
	_, _ = c.out.Write(name)
	return 0
}

func nproc(c *call) int {
	_, _ = fmt.Fprintln(c.out, 1)
	return 0
}

func setsid(c *call) int {
	_, args, err := c.parse("fwc")
	if err != nil || len(args) == 0 {
		return c.usage(errors.New("missing command"))
	}
	c.p.Setsid()
	return c.become(args, c.p.Env())
}

func nohup(c *call) int {
	if len(c.args) == 0 {
		return c.usage(errors.New("missing command"))
	}
	c.p.Handle(syscall.SIGHUP, kernel.Ignore)
	return c.become(c.args, c.p.Env())
}

func stdbuf(c *call) int {
	_, args, err := c.parse("o:e:i:")
	if err != nil || len(args) == 0 {
		return c.usage(errors.New("missing command"))
	}
	return c.become(args, c.p.Env())
}

// timeout kills the command it started after a while and then returns 124.
func timeout(c *call) int {
	opt, args, err := c.parse("s:k:v")
	if err == nil && len(args) < 2 {
		err = errors.New("missing command")
	}
	if err != nil {
		return c.usage(err)
	}
	d, err := duration(args[0])
	if err != nil {
		return c.usage(err)
	}
	sig := syscall.SIGTERM
	if opt['s'] == "KILL" || opt['s'] == "9" {
		sig = syscall.SIGKILL
	}
	pid, err := c.p.Spawn(args[1:], c.p.Env())
	if err != nil {
		c.failf("%s: %v", args[1], cause(err))
		return kernel.ExitCode(err)
	}
	var over atomic.Bool // before the signal: who waits for its effect must see it
	timer, err := c.p.Fork(func(p *kernel.Proc) int {
		p.Sleep(d)
		over.Store(true)
		_ = p.Signal(pid, sig) // or it has just ended
		return 0
	})
	if err != nil {
		return c.failf("%v", err)
	}
	s, _, _ := c.p.Wait(pid, false)
	timedOut := over.Load()
	_ = c.p.Signal(timer, syscall.SIGKILL)
	_, _, _ = c.p.Wait(timer, false)
	if timedOut {
		return 124
	}
	return s.Code
}

func stty(c *call) int {
	size, ok := c.p.Terminal(0)
	if !ok {
		return c.failf("standard input: inappropriate ioctl for device")
	}
	if slices.Contains(c.args, "size") {
		_, _ = fmt.Fprintln(c.out, size.Rows, size.Cols)
	}
	return 0
}

// xargs runs a command once with all words of its input.
func xargs(c *call) int {
	opt, args, err := c.parse("r0n:I:")
	if err != nil {
		return c.usage(err)
	}
	all, err := c.slurp(descriptor{c.p, 0})
	if err != nil {
		return c.failf("%v", err)
	}
	words := strings.Fields(string(all))
	if opt.has('0') {
		words = strings.FieldsFunc(string(all), func(r rune) bool { return r == 0 })
	}
	if len(args) == 0 {
		args = []string{"echo"}
	}
	if len(words) == 0 && opt.has('r') {
		return 0
	}
	return c.become(slices.Concat(args, words), c.p.Env())
}
