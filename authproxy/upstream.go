package authproxy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"harborgate/authproxy/internal/gate"
	"harborgate/authproxy/internal/ledger"
	"harborgate/authproxy/internal/wire"
)

// upstream is one entry of a configuration, ready to be used. It does not change;
// its keys and gates do, and outlive a reload.
type upstream struct {
	name      string
	conf      Upstream
	spec      wire.Spec
	base      *url.URL
	slot      wire.Slot
	pool      *pool
	gate      *gate.Gate
	forms     [][]byte // in which its keys may come back
	marks     [][]byte // by which these are found
	transport *http.Transport
}

// table is what a configuration became. Requests hold on to the one they began
// with.
type table struct {
	upstreams map[string]*upstream
	budgets   Budgets
	builtin   ledger.Prices
}

// build resolves all keys and makes a table. Of old, which may be nil, it takes
// over what a reload must not forget: which keys rest at their limits, and who is
// running. Keys that were refused are tried again: whoever reloads has seen to them.
func build(ctx context.Context, c Config, s Sources, roots *x509.CertPool, old *table) (*table, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	prices, _, err := ledger.Builtin()
	if err != nil {
		return nil, err
	}
	t := &table{upstreams: map[string]*upstream{}, budgets: c.Budgets, builtin: prices}
	var errs []error
	for name, conf := range c.Upstreams {
		var before *upstream
		if old != nil {
			before = old.upstreams[name]
		}
		u, err := newUpstream(ctx, name, conf, s, before)
		if err != nil {
			errs = append(errs, fmt.Errorf("upstreams.%s: %w", name, err))
			continue
		}
		u.transport = newTransport(conf.Local, roots)
		t.upstreams[name] = u
	}
	if err := errors.Join(errs...); err != nil {
		t.close()
		return nil, err
	}
	for name, u := range t.upstreams { // nothing can fail any more
		u.gate.Configure(c.Upstreams[name].Limits.gate())
		for _, k := range u.pool.keys {
			k.wake()
			k.gate.Configure(c.Upstreams[name].KeyLimits.gate())
		}
	}
	return t, nil
}

func newUpstream(ctx context.Context, name string, conf Upstream, s Sources, before *upstream) (*upstream, error) {
	base, err := conf.base()
	if err != nil {
		return nil, err
	}
	spec, _ := wire.SpecOf(conf.Dialect)
	u := &upstream{
		name: name, conf: withDefaults(conf), spec: spec, base: base, slot: conf.slot(),
		pool: &pool{seed: maphash.MakeSeed()}, gate: gate.New(conf.Limits.gate()),
	}
	if before != nil {
		u.gate, u.pool.seed = before.gate, before.pool.seed
	}
	if u.slot == wire.NoKey {
		u.pool.keys = []*key{{ref: "none", gate: gate.New(conf.KeyLimits.gate())}}
		return u, nil
	}
	for _, ref := range conf.Keys {
		secret, err := s.resolve(ctx, ref)
		if err != nil {
			return nil, err
		}
		u.pool.keys = append(u.pool.keys, keyFrom(before, ref, secret, conf))
		u.forms = append(u.forms, secret.forms()...)
	}
	u.marks = marksOf(u.forms)
	return u, nil
}

// keyFrom returns the key that was there before, when it is the same one.
func keyFrom(before *upstream, ref KeyRef, secret Secret, conf Upstream) *key {
	if before != nil {
		i := slices.IndexFunc(before.pool.keys, func(k *key) bool { return k.ref == ref && k.secret == secret })
		if i >= 0 {
			return before.pool.keys[i]
		}
	}
	return &key{ref: ref, secret: secret, gate: gate.New(conf.KeyLimits.gate())}
}

func withDefaults(u Upstream) Upstream {
	u.Limits.MaxWait = cmp.Or(u.Limits.MaxWait, defaultMaxWait)
	u.Timeouts.FirstByte = cmp.Or(u.Timeouts.FirstByte, defaultFirst)
	u.Timeouts.Idle = cmp.Or(u.Timeouts.Idle, defaultIdle)
	u.MaxBody = cmp.Or(u.MaxBody, int64(defaultMaxBody))
	u.Attempts = cmp.Or(u.Attempts, defaultAttempts)
	return u
}

func (t *table) close() {
	for _, u := range t.upstreams {
		u.transport.CloseIdleConnections()
	}
}

func (t *table) price(u *upstream, model string) (Price, bool) { return u.conf.price(t.builtin, model) }

// price returns what a model costs at the upstream: the configuration's word, then
// the built-in table's, then the configuration's for any model.
func (u Upstream) price(builtin ledger.Prices, model string) (Price, bool) {
	tables := []ledger.Prices{u.Prices, builtin}
	if u.Local {
		tables = tables[:1] // its models only share names with those that cost
	}
	for _, prices := range tables {
		if p, ok := prices.Of(model); ok {
			return p, true
		}
	}
	p, ok := u.Prices[ledger.Any]
	return p, ok
}

// target is the URL of a route's path at the upstream.
func (u *upstream) target(path, query string) *url.URL {
	out := *u.base
	out.Path += strings.TrimPrefix(path, u.spec.Version) // the base URL holds it
	out.RawQuery = query
	return &out
}

// echoed reports whether b holds one of the upstream's keys, in any form.
func (u *upstream) echoed(b []byte) bool {
	return slices.ContainsFunc(u.forms, func(f []byte) bool { return bytes.Contains(b, f) })
}

// listed reports whether a model is one of patterns; no patterns list all.
func listed(patterns []string, model string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		start, open := strings.CutSuffix(p, "*")
		return p == model || open && strings.HasPrefix(model, start)
	})
}

// UpstreamStatus is what an upstream is doing.
type UpstreamStatus struct {
	Name    string      `json:"name"`
	Dialect string      `json:"dialect"`
	Base    string      `json:"base_url"`
	Models  []string    `json:"models,omitempty"` // as configured; none is all
	Limits  Limits      `json:"limits"`
	Gate    gate.State  `json:"gate"`
	Keys    []KeyHealth `json:"keys"`
}

func (u *upstream) status(now time.Time) UpstreamStatus {
	s := UpstreamStatus{
		Name: u.name, Dialect: string(u.conf.Dialect), Base: u.base.String(), Models: u.conf.Models, Limits: u.conf.Limits, Gate: u.gate.State(),
	}
	for _, k := range u.pool.keys {
		s.Keys = append(s.Keys, k.health(now))
	}
	return s
}
