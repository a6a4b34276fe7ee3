// Package shares holds what several harbor processes of a host must agree on:
// who is alive, and who may use how much of a provider.
//
// An owner is a harbor process. It is alive as long as it holds the lock of its
// file in <state>/owners; the kernel gives that lock up with the process, however
// it dies. What an owner made carries its id in a label, so that what dead ones
// left can be found and removed.
package shares

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"
)

// Owner is this process, as long as it lives.
type Owner struct {
	ID   string // of the process
	Host string // of the machine, kept in the state directory
	dir  string // of the owners' files
	// temps holds a directory of each owner that asked for one.
	temps string
	lock  *flock.Flock
}

// unborn starts the names of files that are not locked yet.
const unborn = "."

// Register makes this process an owner. state is the state directory.
func Register(state string) (*Owner, error) {
	return registerOn(state, thisMachine())
}

func registerOn(state, machine string) (*Owner, error) {
	host, err := hostID(state, machine)
	if err != nil {
		return nil, fmt.Errorf("register this process: %w", err)
	}
	dir := filepath.Join(state, "owners")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("register this process: %w", err)
	}
	o := &Owner{ID: newID(), Host: host, dir: dir, temps: filepath.Join(state, "tmp")}
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

// Alive reports whether an owner of this host still runs: it holds its file's
// lock, or the process that its id names is there. The second counts where somebody
// deleted the file, or copied the state directory; the first, where the process is
// out of sight in a container of its own. A process that is stopped is alive.
func (o *Owner) Alive(id string) bool {
	return id == o.ID || o.locked(id) || identityOf(id).alive()
}

func (o *Owner) locked(id string) bool {
	// Opened without making it: an owner that ends at this moment takes its file away.
	l := flock.New(filepath.Join(o.dir, filepath.Base(id)), flock.SetFlag(os.O_RDONLY))
	free, err := l.TryRLock()
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	_ = l.Close()
	return !free
}

// Temp is a directory for this process's temporary files. What a process leaves
// there goes when it is buried.
func (o *Owner) Temp() (string, error) {
	dir := filepath.Join(o.temps, o.ID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a directory for temporary files: %w", err)
	}
	return dir, nil
}

// Unburied reports whether an owner died that nobody has buried.
func (o *Owner) Unburied() bool {
	entries, err := os.ReadDir(o.dir)
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return !strings.HasPrefix(e.Name(), unborn) && !o.Alive(e.Name())
	})
}

// Bury forgets owners that are dead, with their temporary files. Call it after
// their leftovers are gone.
func (o *Owner) Bury() error {
	var errs []error
	for _, dir := range []string{o.dir, o.temps} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), unborn) && !o.Alive(e.Name()) {
				errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
			}
		}
	}
	return errors.Join(errs...)
}

// Close ends the ownership. The file goes first, so that nobody finds a dead
// owner in it.
func (o *Owner) Close() error {
	err := os.Remove(o.path())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // somebody cleaned up by hand
	}
	return errors.Join(err, os.RemoveAll(filepath.Join(o.temps, o.ID)), o.lock.Close())
}
