package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"harborgate/authproxy"
	"harborgate/authproxy/client"
	"harborgate/providers"
)

// sweepLimit bounds the sweep before a job, sweepParallel the removals at once.
const (
	sweepLimit    = 2 * time.Minute
	sweepParallel = 16
)

// Leftover is a resource whose owner is dead, or whose time is over.
type Leftover struct {
	providers.Resource
	Why string
}

// Leftovers finds what dead owners of this host left at a provider, and what has
// expired, whoever made it. Labels and our pattern of names must both fit:
// nothing of anybody else's is ever in the list.
func (a *App) Leftovers(ctx context.Context, p providers.Provider) ([]Leftover, error) {
	all, err := p.List(ctx, providers.Selector{
		Labels: map[string]string{providers.LabelOwner: "", providers.LabelHost: ""}, NamePrefix: providers.NamePrefix,
	})
	if err != nil {
		return nil, err
	}
	var out []Leftover
	now := time.Now()
	for _, r := range all {
		l, ok := providers.ParseLabels(r.Labels)
		if !ok || !providers.IsName(r.Name) {
			continue
		}
		switch {
		case l.Host == a.owner.Host && !a.owner.Alive(l.Owner):
			out = append(out, Leftover{r, "its harbor process is dead"})
		case l.Host != a.owner.Host && now.After(l.Expires):
			out = append(out, Leftover{r, fmt.Sprintf("it expired on %s", l.Expires.Format(time.DateTime))})
		}
	}
	return out, nil
}

// order is that in which leftovers go: a network goes when nobody is on it.
var order = []providers.ResourceKind{providers.ResourceSandbox, providers.ResourceNetwork, providers.ResourceVolume}

// remove removes leftovers. One that does not go keeps no other; the error names
// each that stays.
func remove(ctx context.Context, p providers.Provider, leftovers []Leftover) error {
	var errs []error
	for _, kind := range order {
		errs = append(errs, removeKind(ctx, p, kind, leftovers)...)
	}
	return errors.Join(errs...)
}

func removeKind(ctx context.Context, p providers.Provider, kind providers.ResourceKind, leftovers []Leftover) []error {
	errs := make([]error, len(leftovers))
	var g errgroup.Group
	g.SetLimit(sweepParallel)
	for i, l := range leftovers {
		if l.Kind != kind {
			continue
		}
		g.Go(func() error {
			if err := p.Destroy(ctx, l.ID); err != nil {
				errs[i] = fmt.Errorf("%s %s stays: %w", l.Kind, l.Name, err)
			}
			return nil
		})
	}
	_ = g.Wait() // the errors are collected one by one
	return errs
}

// Sweep removes what dead owners left: at a provider, at the auth proxy that runs as a
// service, and of this program's own temporary files. What does not go is named in the
// error and left to the next sweep.
func (a *App) Sweep(ctx context.Context, p providers.Provider) error {
	ctx, cancel := context.WithTimeout(ctx, sweepLimit)
	defer cancel()
	_, err := a.RevokeLeft(ctx, false)
	_, left := a.RemoveLeft(ctx, p)
	if err = errors.Join(err, left); err != nil {
		return err
	}
	return a.Bury()
}

// RemoveLeft removes what dead owners left at a provider, and lets others have what those
// had of its shares. It returns what it found; what of that stays is named in the error.
func (a *App) RemoveLeft(ctx context.Context, p providers.Provider) (found []Leftover, err error) {
	err = a.leases(p.Info().Name).sweep(func() error {
		found, err = a.removeLeft(ctx, p)
		return err
	})
	return found, err
}

func (a *App) removeLeft(ctx context.Context, p providers.Provider) ([]Leftover, error) {
	found, err := a.Leftovers(ctx, p)
	if err != nil {
		return nil, err
	}
	for _, l := range found {
		a.log.Info("leftover found", "id", l.ID, "name", l.Name, "why", l.Why)
	}
	return found, remove(ctx, p, found)
}

// grantOwner names a process of this host to the auth proxy.
func (a *App) grantOwner(owner string) string { return a.owner.Host + "/" + owner }

// RevokeLeft revokes the grants that dead owners of this host have at the auth proxy
// that runs as a service, or only finds them. No service has none.
func (a *App) RevokeLeft(ctx context.Context, onlyFind bool) ([]authproxy.GrantStatus, error) {
	s, err := a.service(ctx, a.log)
	if s == nil || err != nil {
		return nil, err
	}
	defer s.Close()
	status, err := s.Status(ctx)
	if errors.Is(err, client.ErrNotRunning) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var left []authproxy.GrantStatus
	var errs []error
	for _, g := range status.Grants {
		owner, ours := strings.CutPrefix(g.Spec.Owner, a.grantOwner(""))
		if !ours || a.owner.Alive(owner) {
			continue
		}
		left = append(left, g)
		if !onlyFind {
			_, err := s.Revoke(ctx, g.ID)
			errs = append(errs, err)
		}
	}
	return left, errors.Join(errs...)
}

// Unburied reports whether a process died since the last sweep. A provider may still
// be making what such a process asked for last: one look is not enough then.
func (a *App) Unburied() bool { return a.owner.Unburied() }

// Bury forgets dead owners and removes what they left on this host's disk. Call it
// when nothing of theirs is left at any provider.
func (a *App) Bury() error {
	return errors.Join(a.owner.Bury(), removeStray(a.Dirs.State), removeStray(a.Dirs.Cache))
}

// strayAge is how old a file must be that was to be renamed and was not.
const strayAge = 24 * time.Hour

// removeStray removes files whose writer died before it gave them their name. In
// these directories nothing else starts with a dot.
func removeStray(dir string) error {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.HasPrefix(d.Name(), ".") {
			return err
		}
		fi, err := d.Info()
		if err == nil && time.Since(fi.ModTime()) > strayAge {
			err = os.Remove(path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) { // somebody else was quicker
		return nil
	}
	return err
}
