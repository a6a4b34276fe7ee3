package packages

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
)

// runClient runs a registry's client, which is asked for spec. It and what it starts
// end with ctx; it ends with this process, too, even when that is killed.
func runClient(ctx context.Context, spec, dir, program string, args ...string) error {
	// The kernel takes the end of the thread that started it for the parent's.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, environment(os.Environ())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%s: %s", filepath.Base(program), cmp.Or(reason(string(out), spec), err.Error()))
}

// unpublished is what clients say of a version, or a package, that the registry has not.
var unpublished = regexp.MustCompile(`\b(ETARGET|E404)\b|from versions: [^n)]`)

// Unpublished reports whether a client's output means that the registry does not have
// what it was asked for.
func Unpublished(out string) bool { return unpublished.MatchString(out) }

// reasons say what clients mean, %s being what they were asked for. The first that
// fits counts.
var reasons = []struct {
	text *regexp.Regexp
	mean string
}{
	{unpublished, "the registry has no %s: choose another --ak version"},
	{
		regexp.MustCompile(`SELF_SIGNED_CERT|UNABLE_TO_(GET_ISSUER|VERIFY_LEAF)|CERTIFICATE_VERIFY_FAILED`),
		"the registry's certificate is not trusted when asked for %s: name the file of your CA in NODE_EXTRA_CA_CERTS (npm) or PIP_CERT (pip)",
	},
	{
		regexp.MustCompile(`EAI_AGAIN|ENOTFOUND|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|NewConnectionError|ConnectTimeoutError`),
		"the registry cannot be reached for %s: a mirror is named in npm_config_registry or PIP_INDEX_URL, a proxy in HTTPS_PROXY",
	},
	{regexp.MustCompile(`\b(E401|E403)\b|401 Client Error|403 Client Error`), "the registry refuses %s: has npm_config_registry or PIP_INDEX_URL what it wants?"},
	{regexp.MustCompile(`ENOSPC|No space left`), "the disk is full: %s needs room below XDG_CACHE_HOME"},
}

// noise is what clients say after what counts.
var noise = regexp.MustCompile(`complete log of this run|\[notice\]`)

// reason is a client's output in one line.
func reason(out, spec string) string {
	if spec == "" {
		spec = "what the lock file names"
	}
	for _, r := range reasons {
		if r.text.MatchString(out) {
			return fmt.Sprintf(r.mean, spec)
		}
	}
	return LastWords(out)
}

// LastWords is the last line of a client's output that says something.
func LastWords(out string) string {
	last := ""
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line != "" && !noise.MatchString(line) {
			last = line
		}
	}
	const longest = 500
	return strings.ToValidUTF8(last[:min(len(last), longest)], "")
}
