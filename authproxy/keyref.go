package authproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"harborgate/authproxy/internal/wire"
)

// KeyRef says where a key is. The key itself is never in a configuration.
//
//	env:NAME         a variable of the proxy's environment
//	file:/path       a file that only its owner can read
//	credential:NAME  a systemd credential (LoadCredential=)
//	command:PROG …   what a program prints; no shell
type KeyRef string

// String names the reference without the arguments of a command.
func (k KeyRef) String() string {
	if scheme, rest, ok := strings.Cut(string(k), ":"); ok && scheme == "command" {
		prog, _, _ := strings.Cut(rest, " ")
		return scheme + ":" + prog
	}
	return string(k)
}

// source reads what a reference names.
type source func(ctx context.Context, s Sources, name string) (string, error)

func sourceOf(scheme string) source {
	switch scheme {
	case "env":
		return fromEnv
	case "file":
		return fromFile
	case "credential":
		return fromCredential
	case "command":
		return fromCommand
	}
	return nil
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// check finds references that cannot be meant. It does not repeat them: what is no
// reference is most likely a key.
func (k KeyRef) check() error {
	scheme, name, _ := strings.Cut(string(k), ":")
	switch {
	case sourceOf(scheme) == nil:
		return errors.New("a key is written as a reference: env:NAME, file:/path, credential:NAME or command:PROG")
	case strings.TrimSpace(name) == "":
		return fmt.Errorf("nothing follows the colon of %s", scheme)
	case scheme == "env" && !variableName.MatchString(name):
		return errors.New("what follows env: is no name of a variable: write env:NAME, and the key itself into that variable")
	case scheme == "file" && !filepath.IsAbs(name):
		return errors.New("the path of a key file begins with /")
	case scheme == "credential" && (name != filepath.Base(name) || name == ".."):
		return errors.New("the name of a credential is no path")
	}
	return nil
}

// Sources are where references lead.
type Sources struct {
	LookupEnv func(string) (string, bool) // os.LookupEnv when nil
	// CredentialsDir is $CREDENTIALS_DIRECTORY unless given.
	CredentialsDir string
	// Timeout of a command; ten seconds unless given.
	Timeout time.Duration
}

func (s Sources) lookup(name string) (string, bool) {
	if s.LookupEnv != nil {
		return s.LookupEnv(name)
	}
	return os.LookupEnv(name)
}

// resolve reads the key. Errors name the reference and never what was read.
func (s Sources) resolve(ctx context.Context, k KeyRef) (Secret, error) {
	if err := k.check(); err != nil {
		return Secret{}, err
	}
	scheme, name, _ := strings.Cut(string(k), ":")
	text, err := sourceOf(scheme)(ctx, s, name)
	if err != nil {
		return Secret{}, fmt.Errorf("key %s: %w", k, err)
	}
	text = strings.TrimSpace(text)
	if err := plausible(text); err != nil {
		return Secret{}, fmt.Errorf("key %s: %w", k, err)
	}
	return Secret{text}, nil
}

// CheckKeys says which key of an upstream a proxy could not start with. Programs that
// give out keys are not run.
func (c Config) CheckKeys(ctx context.Context, s Sources) error {
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		u := c.Upstreams[name]
		if u.slot() == wire.NoKey {
			continue
		}
		for _, ref := range u.Keys {
			if strings.HasPrefix(string(ref), "command:") {
				continue
			}
			if _, err := s.resolve(ctx, ref); err != nil {
				return fmt.Errorf("upstream %s: %w", name, err)
			}
		}
	}
	return nil
}

// plausible refuses what providers never give out: a placeholder, several lines, a
// whole file of something else.
func plausible(key string) error {
	const shortest, most = 8, 16 << 10
	lower := strings.ToLower(key)
	placeholders := []string{"proxy-managed", "changeme", "change-me", "placeholder", "replace-me", "your", "sk-your", "sk-ant-your", "sk-xxx", "sk-ant-xxx", "<", "${", "$(", "xxxxxxxx"}
	switch {
	case key == "":
		return errors.New("it is empty")
	case len(key) < shortest || len(key) > most:
		return errors.New("it has the length of no key")
	case strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return errors.New("it holds spaces, line ends or other characters that no key has")
	case slices.ContainsFunc(placeholders, func(p string) bool { return strings.HasPrefix(lower, p) }):
		return errors.New("it is a placeholder; put the real key there")
	}
	return nil
}

func fromEnv(_ context.Context, s Sources, name string) (string, error) {
	v, ok := s.lookup(name)
	if !ok {
		return "", errors.New("the variable is not set")
	}
	return v, nil
}

func fromFile(_ context.Context, _ Sources, path string) (string, error) {
	const others = 0o077
	return readPrivate(path, others)
}

func fromCredential(_ context.Context, s Sources, name string) (string, error) {
	dir := s.CredentialsDir
	if dir == "" {
		dir, _ = s.lookup("CREDENTIALS_DIRECTORY")
	}
	if dir == "" {
		return "", errors.New("there are no systemd credentials; start it as a unit with LoadCredential=")
	}
	const others = 0o037 // an access list of systemd shows as bits of the group
	return readPrivate(filepath.Join(dir, name), others)
}

// readPrivate reads a file that nobody else can read or replace.
func readPrivate(path string, others os.FileMode) (string, error) {
	const largest = 64 << 10
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return "", errors.New("the file is a link; name the file itself")
	}
	if err != nil {
		return "", errors.Unwrap(err) // without the path, which the reference names
	}
	defer f.Close()
	fi, err := f.Stat()
	switch {
	case err != nil:
		return "", errors.Unwrap(err)
	case !fi.Mode().IsRegular():
		return "", errors.New("it is no regular file")
	case fi.Mode().Perm()&others != 0:
		return "", fmt.Errorf("others can read the file (mode %04o); run chmod 600 on it", fi.Mode().Perm())
	case !trusted(fi):
		return "", errors.New("the file belongs to another user")
	}
	if err := checkDir(filepath.Dir(path)); err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(f, largest))
	return string(b), err
}

// trusted reports whether a file belongs to us or to root.
func trusted(fi os.FileInfo) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid())
}

func checkDir(dir string) error {
	fi, err := os.Stat(dir)
	const writable = 0o022
	switch {
	case err != nil:
		return errors.Unwrap(err)
	case fi.Mode().Perm()&writable != 0 && fi.Mode()&os.ModeSticky == 0:
		return fmt.Errorf("others can replace the file (its directory has mode %04o); run chmod 700 on it", fi.Mode().Perm())
	case !trusted(fi):
		return errors.New("the directory of the file belongs to another user")
	}
	return nil
}

// childEnv are the variables that a command sees.
func childEnv() []string {
	return []string{"PATH", "HOME", "USER", "LANG", "XDG_RUNTIME_DIR", "GNUPGHOME"}
}

func fromCommand(ctx context.Context, s Sources, line string) (string, error) {
	timeout := s.Timeout
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	args := strings.Fields(line)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.WaitDelay = time.Second
	cmd.Env = []string{}
	for _, name := range childEnv() {
		if v, ok := s.lookup(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("the command did not end within %s", timeout)
	case errors.As(err, &exit):
		return "", fmt.Errorf("the command ended with %d; run it by hand to see why", exit.ExitCode())
	case err != nil:
		return "", errors.New("the command cannot be started")
	}
	return string(out), nil
}
