package app

import (
	"context"
	"math"

	"harborgate/internal/shares"
	"harborgate/scheduler"
)

// leases are what a job may have of its provider beside all other jobs of the host.
type leases struct{ *shares.Pool }

// one waits for a lease: of a trial without a job, or of a build's sandbox, which comes
// before the trials that wait for it.
func (l leases) one(ctx context.Context, needs scheduler.Resources) (release func(), err error) {
	if l.Pool == nil {
		return func() {}, ctx.Err()
	}
	return l.Pool.Await(ctx, needOf(needs))
}

// sweep runs a sweep of the provider, after which the dead have nothing of it.
func (l leases) sweep(sweep func() error) error {
	if l.Pool == nil {
		return sweep()
	}
	return l.Pool.Sweep(sweep)
}

// leases are those of an open provider; see hold.
func (a *App) leases(provider string) leases { return leases{a.pool(provider)} }

// pool is that of an open provider, nil of one that the App has not opened.
func (a *App) pool(provider string) *shares.Pool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pools[provider]
}

// answered tells the other processes of this host whether a provider answers, for their
// users to see. That it cannot be told changes nothing.
func (a *App) answered(provider string, err error) {
	pool := a.pool(provider)
	switch {
	case pool == nil:
	case err != nil:
		_ = pool.Away(err.Error())
	default:
		_ = pool.Back()
	}
}

// Acquire implements scheduler.Shares.
func (l leases) Acquire(ctx context.Context, _ string, needs scheduler.Resources) (release func(), ok bool, err error) {
	if l.Pool == nil {
		return func() {}, true, ctx.Err()
	}
	return l.Pool.Acquire(ctx, needOf(needs))
}

// Waiting implements scheduler.Waits. That it cannot be told changes nothing.
func (l leases) Waiting(trials int) {
	if l.Pool != nil {
		_ = l.Pool.Waiting(trials)
	}
}

// Freed implements scheduler.Shares.
func (l leases) Freed() <-chan struct{} {
	if l.Pool == nil {
		return nil
	}
	return l.Pool.Freed()
}

func needOf(r scheduler.Resources) shares.Need {
	return shares.Need{MilliCPUs: int64(math.Round(1000 * r.CPUs)), MemoryMiB: r.MemoryMiB, DiskMiB: r.DiskMiB, GPUs: r.GPUs}
}
