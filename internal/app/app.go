// Package app puts the parts together: the only place that knows them all.
//
// An App is one process's view of the host: state directory, owner, providers.
// Programs build one, use it and Close it.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"harborgate/agents/packages"
	"harborgate/configs"
	"harborgate/internal/atomicfile"
	"harborgate/internal/shares"
	"harborgate/providers"
	"harborgate/snapshots"
)

// Options are what an App is made from.
type Options struct {
	Lookup func(name string) (string, bool) // environment; nil is the process's
	Logger *slog.Logger
	// HelperDir holds harbor-inside; "" is beside the program.
	HelperDir string
}

// App is the host as one harbor process sees it. Safe for concurrent use.
type App struct {
	Dirs  Dirs
	Host  configs.Host
	log   *slog.Logger
	opt   Options
	owner *shares.Owner

	packages *packages.Cache // of agents

	mu    sync.Mutex // guards what follows
	open  map[string]providers.Provider
	pools map[string]*shares.Pool // of open providers
}

// Dirs are where things are kept.
type Dirs struct{ State, Cache string }

// FindDirs follows the XDG rules.
func FindDirs(lookup func(string) (string, bool)) (Dirs, error) {
	home, _ := lookup("HOME")
	state, err := xdg(lookup, "XDG_STATE_HOME", home, ".local/state")
	if err != nil {
		return Dirs{}, err
	}
	cache, err := xdg(lookup, "XDG_CACHE_HOME", home, ".cache")
	return Dirs{State: state, Cache: cache}, err
}

func xdg(lookup func(string) (string, bool), name, home, below string) (string, error) {
	if dir, ok := lookup(name); ok && filepath.IsAbs(dir) {
		return filepath.Join(dir, "harborgate"), nil
	}
	if home == "" {
		return "", fmt.Errorf("neither %s nor HOME is set: set one, harbor keeps its state there", name)
	}
	return filepath.Join(home, below, "harborgate"), nil
}

// New reads the host configuration and becomes an owner. No provider is touched.
func New(o Options) (*App, error) {
	if o.Lookup == nil {
		o.Lookup = os.LookupEnv
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	dirs, err := FindDirs(o.Lookup)
	if err != nil {
		return nil, err
	}
	if o.HelperDir == "" {
		if o.HelperDir, err = helperDir(o.Lookup); err != nil {
			return nil, err
		}
	}
	host, problems := configs.LoadHost(o.Lookup, providerTypes())
	if err := problems.Err(); err != nil {
		return nil, err
	}
	if err := checkStateVersion(dirs.State); err != nil {
		return nil, err
	}
	owner, err := shares.Register(dirs.State)
	if err != nil {
		return nil, err
	}
	return &App{
		Dirs: dirs, Host: host, log: o.Logger, opt: o, owner: owner, packages: packages.NewCache(filepath.Join(dirs.Cache, "agents")),
		open: map[string]providers.Provider{}, pools: map[string]*shares.Pool{},
	}, nil
}

func helperDir(lookup func(string) (string, bool)) (string, error) {
	if dir, ok := lookup("HARBOR_INSIDE_DIR"); ok && dir != "" {
		return dir, nil
	}
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return "", err
	}
	return filepath.Dir(exe), nil
}

// stateVersion is the form of what is kept in the state directory.
const stateVersion = "1"

// checkStateVersion refuses a state directory of a newer program.
func checkStateVersion(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	path := filepath.Join(dir, "version")
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return atomicfile.Write(path, []byte(stateVersion), 0o600) // another process may read it right now
	case err != nil:
		return err
	case string(b) != stateVersion:
		return fmt.Errorf("state directory %s has version %q, this program knows %s: use a newer harbor, or set XDG_STATE_HOME elsewhere", dir, b, stateVersion)
	}
	return nil
}

// snapshotStore is shared by all jobs on providers of one name.
func (a *App) snapshotStore(provider string) (*snapshots.Store, error) {
	return snapshots.Open(filepath.Join(a.Dirs.State, snapshotsDir, provider), a.log)
}

// snapshotsDir is below the state directory, with a directory for each provider.
const snapshotsDir = "snapshots"

// Close closes the providers and ends the ownership.
func (a *App) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, p := range a.pools { // they may be sweeping
		errs = append(errs, p.Close())
	}
	for _, p := range a.open {
		errs = append(errs, p.Close())
	}
	return errors.Join(append(errs, a.owner.Close())...)
}

// bounded is for calls whose context has no end.
func bounded(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	return f(ctx)
}
