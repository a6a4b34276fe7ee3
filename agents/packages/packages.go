// Package packages keeps agents' programs and runtimes on this host: what a
// registry's own client fetched once, held against a pinned digest, to be put into
// sandboxes read-only. Nothing of it runs on the host.
//
//	source ─▶ digest ─▶ <cache>/agents/<name>-<version>-<pin>/
package packages

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// Package is a program or a runtime in one version, for one platform.
type Package struct {
	Name    string // with the platform
	Version string
	From    Source
}

// Source gets a package's files. It is a value: what two that print the same would
// fetch is the same.
type Source interface {
	// Pin tells this content from any other under the same name and version, in a
	// few characters; "" where nothing is pinned.
	Pin(ctx context.Context) (string, error)
	// Fetch fills the directory dest, which it makes. What is on its way goes into
	// the directory work. It runs nothing of what it fetches.
	Fetch(ctx context.Context, work, dest string) error
	// Ready says what this host lacks for Fetch.
	Ready(ctx context.Context) error
	// Inside is how the same comes into a sandbox without this host.
	Inside() Recipe
}

// Shifting is a source that can become another between Pin and Fetch.
type Shifting interface {
	Source
	// Holds is the pin of what Fetch has put into a directory.
	Holds(dir string) (string, error)
}

// component is a part of a directory's name.
var component = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_-]*$`)

// check keeps names and versions, which users choose, within the cache.
func (p Package) check() error {
	if !component.MatchString(p.Name) || !component.MatchString(p.Version) {
		return fmt.Errorf("agent package %q in version %q: that cannot be the name of a directory", p.Name, p.Version)
	}
	return nil
}

// Cache keeps packages. Safe for concurrent use, by several processes too.
type Cache struct {
	dir  string
	mu   sync.Mutex
	pins map[string]string // by package; asked once: a trial does not wait for a look at the host
}

// NewCache returns a cache below dir.
func NewCache(dir string) *Cache { return &Cache{dir: dir, pins: map[string]string{}} }

// retryLock is how often a lock that somebody else has is tried again.
const retryLock = 200 * time.Millisecond

// Get returns the directory of a package, read-only, and fetches it when it is not
// there. Others who want it meanwhile wait for it.
func (c *Cache) Get(ctx context.Context, p Package) (dir string, err error) {
	return c.Fetch(ctx, p, func() {})
}

// Fetch is Get, and says before it fetches itself: not when it waits for somebody else
// who does.
func (c *Cache) Fetch(ctx context.Context, p Package, fetching func()) (dir string, err error) {
	dir, err = c.place(ctx, p)
	if err != nil {
		return "", err
	}
	if isDir(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return "", notKept(p, err)
	}
	lock := flock.New(dir + lockSuffix)
	if _, err := lock.TryLockContext(ctx, retryLock); err != nil {
		return "", notKept(p, err)
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if isDir(dir) {
		return dir, nil
	}
	if _, err := c.Sweep(false); err != nil {
		return "", notKept(p, err)
	}
	fetching()
	return dir, c.make(ctx, p, dir)
}

// Lacks reports whether a package would have to be fetched; the error says why it
// could not be. It makes nothing.
func (c *Cache) Lacks(ctx context.Context, p Package) (bool, error) {
	dir, err := c.place(ctx, p)
	if err != nil || isDir(dir) {
		return err != nil, err
	}
	if err := p.From.Ready(ctx); err != nil {
		return true, fmt.Errorf("agent package %s %s: %w", p.Name, p.Version, err)
	}
	return true, nil
}

// place is where a package is, or will be.
func (c *Cache) place(ctx context.Context, p Package) (string, error) {
	if err := p.check(); err != nil {
		return "", err
	}
	pin, err := c.pin(ctx, p)
	if err != nil {
		return "", fmt.Errorf("agent package %s %s: %w", p.Name, p.Version, err)
	}
	return filepath.Join(c.dir, strings.TrimSuffix(p.Name+"-"+p.Version+"-"+pin, "-")), nil
}

func notKept(p Package, err error) error {
	return fmt.Errorf("keep agent package %s %s: %w; name a directory that this user may write to in XDG_CACHE_HOME", p.Name, p.Version, err)
}

func (c *Cache) pin(ctx context.Context, p Package) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprintf("%T %v", p.From, p)
	if pin, ok := c.pins[key]; ok {
		return pin, nil
	}
	pin, err := p.From.Pin(ctx)
	if err == nil {
		c.pins[key] = pin
	}
	return pin, err
}

// A package is fetched into a directory of another name, by whoever has its lock.
const (
	workPrefix = ".new-"
	lockSuffix = ".lock"
)

// make fetches into a directory that takes its name when it is complete.
func (c *Cache) make(ctx context.Context, p Package, dir string) (err error) {
	work := filepath.Join(c.dir, workPrefix+filepath.Base(dir))
	if err := errors.Join(os.RemoveAll(work), os.Mkdir(work, 0o700)); err != nil {
		return notKept(p, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	ready := filepath.Join(work, "ready")
	if err := p.From.Fetch(ctx, work, ready); err != nil {
		return fmt.Errorf("fetch agent package %s %s: %w", p.Name, p.Version, err)
	}
	if err := c.same(ctx, p, ready); err != nil {
		return fmt.Errorf("fetch agent package %s %s: %w", p.Name, p.Version, err)
	}
	return os.Rename(ready, dir)
}

// same holds what was fetched against what was to be fetched, where that can change.
func (c *Cache) same(ctx context.Context, p Package, dir string) error {
	from, ok := p.From.(Shifting)
	if !ok {
		return nil
	}
	want, err := c.pin(ctx, p)
	if err != nil {
		return err
	}
	got, err := from.Holds(dir)
	if err == nil && got != want {
		err = errors.New("it was replaced before it was copied: start again")
	}
	return err
}

// Sweep removes what fetches left that were killed, or only finds it.
func (c *Cache) Sweep(onlyFind bool) (left []string, err error) {
	all, err := filepath.Glob(filepath.Join(c.dir, workPrefix+"*"))
	if err != nil {
		return nil, err
	}
	for _, work := range all {
		name := strings.TrimPrefix(filepath.Base(work), workPrefix)
		lock := flock.New(filepath.Join(c.dir, name+lockSuffix))
		if free, lerr := lock.TryLock(); lerr != nil || !free {
			err = errors.Join(err, lerr)
			continue
		}
		left = append(left, work)
		if !onlyFind {
			err = errors.Join(err, os.RemoveAll(work))
		}
		err = errors.Join(err, lock.Unlock())
	}
	return left, err
}

// short is a digest in as many characters as tell contents apart.
func short(sum []byte) string { return fmt.Sprintf("%x", sum[:min(6, len(sum))]) }

// pinOf is the pin of a text that pins everything itself, like a lock file.
func pinOf(text []byte) string {
	sum := sha256.Sum256(text)
	return short(sum[:])
}
