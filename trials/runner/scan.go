package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"harborgate/internal/redact"
	"harborgate/providers"
)

// scan looks for secrets in the files of a sandbox that changed since it was begun.
// What they say comes to this host: no secret goes there to be looked for.
type scan struct {
	sandbox providers.Sandbox
	mark    string
}

// newScan remembers the moment, in the sandbox's own time. An image that has nothing to
// look with is told from before anything is installed in it.
func newScan(ctx context.Context, s providers.Sandbox) (*scan, error) {
	sc := &scan{sandbox: s, mark: "/.harborgate-mark"}
	return sc, sc.run(ctx, io.Discard, `find / -maxdepth 0 >/dev/null && : >"$1"`)
}

// Changed files are those whose status changed later: packages set modification times
// as they like. Where the image's find cannot tell, it is all files.
const (
	changed = `set --; find / -maxdepth 0 -cnewer "$0" >/dev/null 2>&1 && set -- -cnewer "$0"
find / -xdev -type f "$@" `
	contents = changed + `-exec cat {} +`
	named    = changed + `-exec sh -c 'for f; do printf "%s\n" "$f"; wc -c <"$f"; cat "$f"; done' sh {} +`
)

// check removes the mark and looks at all that is new. The first look does not know
// where a file ends; only when it finds something a second, slow one tells in which.
func (sc *scan) check(ctx context.Context, d *redact.Detector, log io.Writer) error {
	begun, seen := time.Now(), &counted{Probe: d.Probe()}
	if err := sc.run(ctx, seen, contents); err != nil {
		return err
	}
	fmt.Fprintf(log, "harbor: looked for secrets in %d MiB, %d ms\n", seen.n>>20, time.Since(begun).Milliseconds())
	if seen.Found != "" {
		if err := sc.locate(ctx, d); err != nil {
			return err
		}
	}
	return sc.run(ctx, io.Discard, `rm -f "$1"`)
}

type counted struct {
	*redact.Probe
	n int64
}

func (c *counted) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return c.Probe.Write(b)
}

// locate names the file with a secret. None is one that the first look made of the end
// of a file and the beginning of the next.
func (sc *scan) locate(ctx context.Context, d *redact.Detector) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(sc.run(ctx, w, named)) }()
	name, what, err := firstSecret(bufio.NewReader(r), d)
	_, drained := io.Copy(io.Discard, r)
	if err := errors.Join(err, drained); err != nil {
		return err
	}
	if name == "" {
		return nil
	}
	return providers.Errorf(providers.KindInvalid, "scan", "%s was left with %s by the installation, so it is not kept: do registries' addresses on this host hold a password?", name, what)
}

// firstSecret reads names, sizes and contents of files.
func firstSecret(in *bufio.Reader, d *redact.Detector) (name, what string, err error) {
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) && line == "" {
			return "", "", nil
		}
		if err != nil {
			return "", "", err
		}
		var size int64
		if _, err := fmt.Fscanf(in, "%d\n", &size); err != nil {
			return "", "", fmt.Errorf("look for secrets in %s: its size: %w", strings.TrimSpace(line), err)
		}
		p := d.Probe()
		if _, err := io.CopyN(p, in, size); err != nil {
			return "", "", fmt.Errorf("look for secrets in %s: %w", strings.TrimSpace(line), err)
		}
		if p.Found != "" {
			return strings.TrimSuffix(line, "\n"), p.Found, nil
		}
	}
}

// run runs a script as root; $0 and $1 are the mark.
func (sc *scan) run(ctx context.Context, out io.Writer, script string) error {
	var said tail
	status, err := sc.sandbox.Exec(ctx, providers.Command{
		Args: []string{"sh", "-c", script, sc.mark, sc.mark}, User: "root", Dir: "/", Stdout: out, Stderr: &said,
	})
	if err == nil && !status.OK() {
		err = providers.Errorf(providers.KindUnsupported, "scan", "the image's own programs cannot look for secrets: sh ended with %s: %s", status, said)
	}
	return err
}
