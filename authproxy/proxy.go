package authproxy

import (
	"cmp"
	"context"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"harborgate/authproxy/internal/ledger"
	"harborgate/authproxy/internal/wire"
)

// Options are what a proxy is made of.
type Options struct {
	// Load returns the configuration, at first and for each reload.
	Load func() (Config, error)
	// Restart names what has changed in the configuration since the start, and is read
	// only then; it is asked behind each reload. May be nil.
	Restart func() []string
	// Sources are where the keys are.
	Sources Sources
	// StateDir keeps budgets and grants over restarts; one process at a time has it.
	// Empty keeps them in memory only.
	StateDir string
	// Log is where the proxy says what it does. It never gets what came from a
	// client or an upstream.
	Log     *slog.Logger
	Audit   Audit          // may be nil
	Metrics Metrics        // may be nil
	Roots   *x509.CertPool // of the certificates of upstreams; the system's when nil
	// Transcripts gets what grants with Bodies ask and are answered. May be nil:
	// then nothing is kept.
	Transcripts Transcripts
	// Bodies is how many bytes of request bodies are held at once; 256 MiB unless
	// given.
	Bodies int64
	// Answer is how many bytes one answer may have; 1 GiB unless given.
	Answer int64
	// Connections are how many may be open at once.
	Connections Connections
	// Write is how long one piece of an answer may take to be accepted; a minute
	// unless given.
	Write time.Duration
}

// Proxy is the credential proxy. It refuses everything until Reload has succeeded.
// Its methods are safe for concurrent use.
type Proxy struct {
	opts   Options
	ctx    context.Context //nolint:containedctx // requests end with it; grants outlive it, to be kept
	cancel context.CancelFunc
	table  atomic.Pointer[table]
	grants *grants
	ended  *lru.Cache[string, *grant] // the latest that were revoked
	ledger *ledger.Ledger
	owners *lru.Cache[string, string] // which trial a response belongs to
	bodies *bodies
	guard  *guard
	pieces pieces
	steps  []step
	server *http.Server
	conns  *conns

	draining atomic.Bool
	closed   atomic.Bool
	reload   sync.Mutex                    // held while a configuration is made
	refused  atomic.Pointer[ReloadFailure] // the latest configuration, when it was
	restart  atomic.Pointer[[]string]      // what of it needs one
	saving   sync.Mutex                    // held while the grants are written

	mu      sync.Mutex
	listen  []string // where connections are taken
	live    map[*exchange]struct{}
	idle    chan struct{} // closed when live became empty while draining
	servers sync.WaitGroup
}

// remembered is how many responses have a known owner.
const remembered = 100_000

// keptEnded is of how many revoked grants is known what came of them.
const keptEnded = 1024

// New returns a proxy that is not ready: see Reload. Close it.
func New(o Options) (*Proxy, error) {
	o.Bodies = cmp.Or(o.Bodies, 256<<20)
	o.Answer = cmp.Or(o.Answer, 1<<30)
	o.Write = cmp.Or(o.Write, time.Minute)
	o.Connections = Connections{cmp.Or(o.Connections.All, 8192), cmp.Or(o.Connections.Source, 2048)}
	if o.Log == nil || o.Load == nil {
		return nil, errors.New("auth proxy: options lack Log or Load")
	}
	owners, err := lru.New[string, string](remembered)
	if err != nil {
		return nil, fmt.Errorf("auth proxy: %w", err)
	}
	guard, err := newGuard(o.Connections)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		guard: guard,
		opts:  o, grants: newGrants(), ledger: ledger.New(), owners: owners,
		bodies: newBodies(o.Bodies), live: map[*exchange]struct{}{}, steps: path(),
	}
	p.ended, _ = lru.New[string, *grant](keptEnded) // a size above zero does not fail
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if o.StateDir != "" {
		if err := p.restore(); err != nil {
			p.end()
			return nil, err
		}
	}
	p.server, p.conns = newServer(p), newConns()
	p.servers.Go(func() { _ = p.server.Serve(p.conns) }) // ends with Close
	return p, nil
}

// Mint makes a grant and returns its token, once, and its id, which may be shown. A
// proxy that drains makes none.
func (p *Proxy) Mint(s GrantSpec) (token, id string, err error) {
	if err := s.check(p.table.Load(), time.Now()); err != nil {
		return "", "", err
	}
	if p.draining.Load() {
		return "", "", refusal(wire.NotReady, "the proxy is stopping and grants nothing new: try again when it has started again")
	}
	g, token := newGrant(s)
	p.grants.put(g)
	if err := p.saveGrants(); err != nil {
		p.grants.remove(g.id)
		g.end()
		return "", "", err
	}
	p.opts.Log.Debug("grant minted", "grant", g.id, "job", s.Job, "trial", s.Trial, "phase", s.Phase)
	return token, g.id, nil
}

// Revoke ends a grant at once, its open streams too, and returns what came of it. Of
// one that somebody else has ended, it still knows for a while. It reports false for
// an id that is none.
func (p *Proxy) Revoke(id string) (Totals, bool) {
	g := p.grants.remove(id)
	if g == nil {
		ended, ok := p.ended.Get(id)
		if !ok {
			return Totals{}, false
		}
		t := ended.status().Totals
		t.Gone = true
		return t, true
	}
	p.ended.Add(id, g)
	g.cut()
	if err := p.saveGrants(); err != nil {
		p.opts.Log.Error("grants cannot be written", "error", err.Error())
	}
	p.opts.Log.Debug("grant revoked", "grant", id, "job", g.spec.Job, "trial", g.spec.Trial, "phase", g.spec.Phase)
	return g.status().Totals, true
}

// Holder returns the upstream of which value is a key, empty when it is none.
func (p *Proxy) Holder(value string) string {
	t := p.table.Load()
	if t == nil || value == "" {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(t.upstreams)) {
		for _, k := range t.upstreams[name].pool.keys {
			if subtle.ConstantTimeCompare([]byte(k.secret.value), []byte(value)) == 1 {
				return name
			}
		}
	}
	return ""
}

// SpentOn returns what a proxy with that state directory has spent on a day (UTC),
// open requests in full. It may be of another process.
func SpentOn(stateDir string, day time.Time) (NanoUSD, error) {
	s, err := ledger.Spent(filepath.Join(stateDir, ledgerFile), dayAccount(day))
	return s.Money, err
}

// Grant returns what a grant is doing.
func (p *Proxy) Grant(id string) (GrantStatus, bool) {
	g := p.grants.get(id)
	if g == nil {
		return GrantStatus{}, false
	}
	return g.status(), true
}

// Stream is a request that is being answered.
type Stream struct {
	ID       string    `json:"id"`
	Since    time.Time `json:"since"`
	Grant    string    `json:"grant"`
	Trial    string    `json:"trial"`
	Upstream string    `json:"upstream"`
	Model    string    `json:"model"`
}

// Status is what the proxy is doing.
type Status struct {
	Ready     bool                      `json:"ready"`
	Draining  bool                      `json:"draining"`
	Listen    []string                  `json:"listen"` // "tcp:HOST:PORT" or "unix:/path", of Serve
	Upstreams []UpstreamStatus          `json:"upstreams"`
	Grants    []GrantStatus             `json:"grants"`
	Streams   []Stream                  `json:"streams"`
	Accounts  map[string]ledger.Balance `json:"accounts"`
	Budgets   Budgets                   `json:"budgets"`
	// Refused is why the configuration in force is an older one than the latest; nil
	// when it is the latest.
	Refused *ReloadFailure `json:"reload_error,omitempty"`
	// Restart names what of the configuration holds only behind the next start.
	Restart []string `json:"restart,omitempty"`
}

// Status returns what the proxy is doing.
func (p *Proxy) Status() Status {
	now := time.Now()
	s := Status{Draining: p.draining.Load(), Listen: p.listening(), Accounts: p.ledger.Balances(), Streams: p.streams(), Refused: p.refused.Load()}
	if keys := p.restart.Load(); keys != nil {
		s.Restart = *keys
	}
	if t := p.table.Load(); t != nil {
		s.Ready, s.Budgets = !s.Draining, t.budgets
		for _, u := range t.upstreams {
			s.Upstreams = append(s.Upstreams, u.status(now))
		}
		slices.SortFunc(s.Upstreams, func(a, b UpstreamStatus) int { return cmp.Compare(a.Name, b.Name) })
	}
	for _, g := range p.grants.all() {
		s.Grants = append(s.Grants, g.status())
	}
	return s
}

func (p *Proxy) listening() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.listen)
}

func (p *Proxy) streams() []Stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := []Stream{}
	for x := range p.live {
		if s := x.shown.Load(); s != nil {
			out = append(out, *s)
		}
	}
	slices.SortFunc(out, func(a, b Stream) int { return a.Since.Compare(b.Since) })
	return out
}

// Drain refuses new requests and waits for those that are being answered, until
// ctx ends: then they are cut, as broken ones. Grants stay in force on the disk, for
// whoever opens it next. Close is still needed.
func (p *Proxy) Drain(ctx context.Context) error {
	return errors.Join(p.quiet(ctx), p.saveGrants())
}

// quiet waits, or cuts, until nothing is answered any more.
func (p *Proxy) quiet(ctx context.Context) error {
	p.draining.Store(true)
	p.mu.Lock()
	if p.idle == nil {
		p.idle = make(chan struct{})
		if len(p.live) == 0 {
			close(p.idle)
		}
	}
	idle := p.idle
	p.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		p.cancel()
		<-idle
		return fmt.Errorf("drain auth proxy: %w", ctx.Err())
	}
}

// drained reports whether all has been answered that will be.
func (p *Proxy) drained() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.idle:
		return true
	default:
		return false
	}
}

// enter and leave keep account of who is being answered.
func (p *Proxy) enter(x *exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[x] = struct{}{}
}

func (p *Proxy) leave(x *exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.live, x)
	if p.idle != nil && len(p.live) == 0 {
		select {
		case <-p.idle:
		default:
			close(p.idle)
		}
	}
}

// end cuts requests and ends grants. On the disk they stay in force.
func (p *Proxy) end() {
	p.cancel()
	for _, g := range p.grants.all() {
		g.end()
	}
}

// Close cuts what is open and lets go of everything.
func (p *Proxy) Close() error {
	p.cancel()
	if p.closed.Load() {
		return nil
	}
	err := p.server.Close()
	p.servers.Wait()
	drained, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.quiet(drained) // waits for the handlers, which end by themselves now
	err = errors.Join(err, p.saveGrants())
	p.saving.Lock()
	p.closed.Store(true)
	p.saving.Unlock()
	p.end()
	if t := p.table.Load(); t != nil {
		t.close()
	}
	return errors.Join(err, p.ledger.Close())
}
