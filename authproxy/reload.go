package authproxy

import (
	"context"
	"time"
)

// ReloadFailure is a configuration that was refused. The one before it is in force.
type ReloadFailure struct {
	Time  time.Time `json:"time"`
	Error string    `json:"error"`
}

// Reload loads the configuration and resolves all keys. On error the one before
// stays in force, whole, and Status says so until a reload succeeds.
func (p *Proxy) Reload(ctx context.Context) error {
	p.reload.Lock()
	defer p.reload.Unlock()
	err := p.configure(ctx)
	if err != nil {
		p.refused.Store(&ReloadFailure{Time: time.Now(), Error: err.Error()})
	} else {
		p.refused.Store(nil)
	}
	return err
}

func (p *Proxy) configure(ctx context.Context) error {
	c, err := p.opts.Load()
	if err != nil {
		return err
	}
	old := p.table.Load()
	t, err := build(ctx, c, p.opts.Sources, p.opts.Roots, old)
	if err != nil {
		return err
	}
	p.table.Store(t)
	if old != nil {
		old.close()
	}
	p.opts.Log.Info("auth proxy configured", "upstreams", len(t.upstreams))
	if p.opts.Restart != nil {
		keys := p.opts.Restart()
		p.restart.Store(&keys)
		for _, key := range keys {
			p.opts.Log.Warn("a setting has changed that needs a restart", "key", key)
		}
	}
	return nil
}
