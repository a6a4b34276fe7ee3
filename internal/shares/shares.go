// Package shares holds what several harbor processes of a host must agree on:
// who is alive, and who may use how much of a provider.
//
// An owner is a harbor process. It is alive as long as it holds the lock of its
// file in <state>/owners; the kernel gives that lock up with the process, however
// it dies. What an owner made carries its id in a label, so that what dead ones
// left can be found and removed.
package shares

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gofrs/flock"
	"github.com/google/uuid"
)

// Owner is this process, as long as it lives.
type Owner struct {
	ID   string // of the process
	Host string // of the machine, kept in the state directory
	dir  string
	lock *flock.Flock
}

// unborn starts the names of files that are not locked yet.
const unborn = "."

// Register makes this process an owner. state is the state directory.
func Register(state string) (*Owner, error) {
	host, err := hostID(state)
	if err != nil {
		return nil, fmt.Errorf("register this process: %w", err)
	}
	dir := filepath.Join(state, "owners")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("register this process: %w", err)
	}
	o := &Owner{ID: uuid.NewString(), Host: host, dir: dir}
	// Under its name the file is locked from the start: nobody may take an owner
	// that is just born for a dead one.
	born := filepath.Join(dir, unborn+o.ID)
	o.lock = flock.New(born)
	if _, err := o.lock.TryLock(); err != nil {
		return nil, fmt.Errorf("register this process: lock its file: %w", err)
	}
	if err := os.Rename(born, o.path()); err != nil {
		return nil, errors.Join(fmt.Errorf("register this process: %w", err), o.lock.Close(), os.Remove(born))
	}
	return o, nil
}

func (o *Owner) path() string { return filepath.Join(o.dir, o.ID) }

// hostID is made once per state directory.
func hostID(state string) (string, error) {
	if err := os.MkdirAll(state, 0o700); err != nil {
		return "", err
	}
	path := filepath.Join(state, "host")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := makeHostID(path); err != nil {
			return "", err
		}
	}
	b, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(b)); id != "" || err != nil {
		return id, err
	}
	return "", fmt.Errorf("%s is empty: remove it", path)
}

// makeHostID links a complete file into its place: of several processes that
// start together the first wins, and none ever reads half of one.
func makeHostID(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".host-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(uuid.NewString())
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Alive reports whether an owner of this host still runs. Only an owner whose
// file exists and whose lock is free is surely dead; a file that is gone belongs
// to one that was cleaned up after.
func (o *Owner) Alive(id string) bool {
	if id == o.ID {
		return true
	}
	path := filepath.Join(o.dir, filepath.Base(id))
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return false
	}
	l := flock.New(path)
	free, err := l.TryRLock()
	if err != nil {
		return true
	}
	_ = l.Close()
	return !free
}

// Bury forgets owners that are dead. Call it after their leftovers are gone.
func (o *Owner) Bury() error {
	entries, err := os.ReadDir(o.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), unborn) && !o.Alive(e.Name()) {
			if err := os.Remove(filepath.Join(o.dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// Close ends the ownership. The file goes first, so that nobody finds a dead
// owner in it.
func (o *Owner) Close() error {
	return errors.Join(os.Remove(o.path()), o.lock.Close())
}

// Local is the in-process Shares: up to a number of sandboxes per provider at
// once. Safe for concurrent use.
type Local struct {
	mu    sync.Mutex // guards used and freed
	most  int
	used  int
	freed chan struct{}
}

// NewLocal allows most sandboxes at once; 0 is no limit.
func NewLocal(most int) *Local { return &Local{most: most, freed: make(chan struct{}, 1)} }

// Acquire takes a lease at once or refuses.
func (l *Local) Acquire(ctx context.Context, _ string) (release func(), ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.most > 0 && l.used >= l.most {
		return nil, false, nil
	}
	l.used++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		l.used--
		l.mu.Unlock()
		select {
		case l.freed <- struct{}{}:
		default:
		}
	}), true, nil
}

// Freed tells that a refused lease may be had now.
func (l *Local) Freed() <-chan struct{} { return l.freed }
