// Package packages keeps agents' programs on this host: what a registry's own
// client fetched once, held against a pinned digest and unpacked, to be put into
// sandboxes read-only. Nothing of it runs on the host.
//
//	npm pack ─▶ digest ─▶ <cache>/agents/<name>-<version>-<platform>/
package packages

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Package is a package of a registry in one version, for one platform.
type Package struct {
	Name    string // of the agent
	Version string // of the agent
	// Spec is what npm is asked for, e.g. "@openai/codex@0.171.0-linux-x64".
	Spec string
	// Integrity is the digest of the archive as npm writes it: "sha512-…". Without one
	// what the registry says of itself has to do.
	Integrity string
	// Below is the directory of the archive that is kept, as its root.
	Below string
}

// Cache keeps packages. Safe for concurrent use, by several processes too.
type Cache struct {
	dir   string
	fetch func(ctx context.Context, spec, dir string) (archive string, err error)
}

// NewCache returns a cache below dir. Packages are fetched by the host's npm, with
// its settings: registries, proxies and certificates are what npm is told.
func NewCache(dir string) *Cache { return &Cache{dir: dir, fetch: npmPack} }

// retryLock is how often a lock that somebody else has is tried again.
const retryLock = 200 * time.Millisecond

// Get returns the directory of a package, read-only, and fetches it when it is not
// there. Others who want it meanwhile wait for it.
func (c *Cache) Get(ctx context.Context, p Package) (dir string, err error) {
	dir = filepath.Join(c.dir, strings.TrimSuffix(p.Name+"-"+p.Version+"-"+digestPart(p.Integrity), "-"))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return "", fmt.Errorf("keep agent %s: %w", p.Name, err)
	}
	lock := flock.New(dir + ".lock")
	if _, err := lock.TryLockContext(ctx, retryLock); err != nil {
		return "", fmt.Errorf("keep agent %s: wait for whoever fetches it: %w", p.Name, err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	return dir, c.make(ctx, p, dir)
}

// digestPart names a digest within a path.
func digestPart(integrity string) string {
	_, sum, _ := strings.Cut(integrity, "-")
	raw, _ := base64.StdEncoding.DecodeString(sum)
	return fmt.Sprintf("%x", raw[:min(6, len(raw))])
}

// make fetches into a directory that takes its name when it is complete.
func (c *Cache) make(ctx context.Context, p Package, dir string) (err error) {
	work, err := os.MkdirTemp(c.dir, ".new-")
	if err != nil {
		return fmt.Errorf("keep agent %s: %w", p.Name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	archive, err := c.fetch(ctx, p.Spec, work)
	if err != nil {
		return fmt.Errorf("fetch agent %s %s: %w", p.Name, p.Version, err)
	}
	if err := verify(archive, p.Integrity); p.Integrity != "" && err != nil {
		return fmt.Errorf("fetch agent %s %s: %w", p.Name, p.Version, err)
	}
	ready := filepath.Join(work, "ready")
	if err := unpack(archive, p.Below, ready); err != nil {
		return fmt.Errorf("unpack agent %s %s: %w", p.Name, p.Version, err)
	}
	return os.Rename(ready, dir)
}

// verify holds a file against its digest.
func verify(path, integrity string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha512.New()
	if _, err := io.Copy(h, f); err != nil {
		return err
	}
	if got := "sha512-" + base64.StdEncoding.EncodeToString(h.Sum(nil)); got != integrity {
		return fmt.Errorf("the registry gave something else than what is pinned: %s, not %s; nothing of it is used", got, integrity)
	}
	return nil
}

// npmPack has npm fetch an archive, and runs nothing of it.
func npmPack(ctx context.Context, spec, dir string) (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", errors.New("npm is not there: install Node.js with npm on this host, agents come from its registry")
	}
	cmd := exec.CommandContext(ctx, npm, "pack", spec, "--pack-destination", dir, "--ignore-scripts", "--loglevel=error", "--no-update-notifier")
	cmd.Dir, cmd.Env = dir, environment(os.Environ())
	if out, err := cmd.CombinedOutput(); err != nil {
		const end = 2000
		return "", fmt.Errorf("npm pack %s: %w: %s", spec, err, bytes.TrimSpace(out[max(0, len(out)-end):]))
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("npm pack %s left %d archives", spec, len(found))
	}
	return found[0], nil
}

// environment is what npm gets to know: its own settings, and how to reach the
// network. Keys are none of its business.
func environment(all []string) []string {
	var out []string
	for _, pair := range all {
		name, _, _ := strings.Cut(pair, "=")
		lower := strings.ToLower(name)
		switch {
		case strings.HasPrefix(lower, "npm_config_"), strings.HasSuffix(lower, "_proxy"),
			name == "PATH", name == "HOME", name == "TMPDIR", name == "LANG", name == "NODE_EXTRA_CA_CERTS", name == "SSL_CERT_FILE":
			out = append(out, pair)
		}
	}
	return out
}
