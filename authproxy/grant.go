package authproxy

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"harborgate/authproxy/internal/ledger"
	"harborgate/authproxy/internal/wire"
)

// GrantSpec says what a grant allows. It does not change once minted.
type GrantSpec struct {
	Job       string    `json:"job"`
	Trial     string    `json:"trial"`
	Phase     string    `json:"phase"`
	Upstreams []string  `json:"upstreams"`        // by name; at least one
	Models    []string  `json:"models,omitempty"` // as in Upstream; none is all that the upstreams allow
	Expires   time.Time `json:"expires"`          // at most 30 days ahead
	// Source is where connections must come from: what Proxy.Handle was given, the
	// address of a TCP peer, or any name, for a grant that is reached by connections of
	// its own (see Proxy.Admin). Empty is anywhere.
	Source     string `json:"source,omitempty"`
	Concurrent int    `json:"concurrent,omitempty"` // requests at once; 0 is no limit
	Bodies     bool   `json:"bodies,omitempty"`     // what is said is kept, see Options.Transcripts
	// Probe has its requests try keys that rest, too, each once and the refused ones
	// first: to find out whether they work again.
	Probe  bool `json:"probe,omitempty"`
	Budget Sum  `json:"budget"`       // of this grant
	Trials Sum  `json:"trial_budget"` // of all grants of the trial
	Jobs   Sum  `json:"job_budget"`   // of all grants of the job
	// Owner is the process for which the grant is, by a name of whoever mints; when it
	// has died, the grant may be revoked.
	Owner string `json:"owner,omitempty"`
	// JobElsewhere is what the job has spent of its money by other proxies.
	JobElsewhere NanoUSD `json:"job_spent_elsewhere,omitempty"`
}

// LongestGrant is how far ahead a grant may end.
const LongestGrant = 30 * 24 * time.Hour

// check finds what cannot be granted.
func (s GrantSpec) check(t *table, now time.Time) error {
	var errs []error
	if s.Job == "" || s.Trial == "" || s.Phase == "" {
		errs = append(errs, errors.New("grant: job, trial and phase name whom it is for, and one is empty"))
	}
	if len(s.Upstreams) == 0 {
		errs = append(errs, errors.New("grant: it names no upstream"))
	}
	for _, u := range s.Upstreams {
		if t == nil || t.upstreams[u] == nil {
			errs = append(errs, fmt.Errorf("grant: there is no upstream %q; add it to upstreams in the configuration", u))
		}
	}
	if !s.Expires.After(now) || s.Expires.After(now.Add(LongestGrant)) {
		errs = append(errs, fmt.Errorf("grant: expires must be ahead, by at most %s", LongestGrant))
	}
	for _, b := range []Sum{s.Budget, s.Trials, s.Jobs, {Money: s.JobElsewhere}} {
		if b.Money < 0 || b.Tokens < 0 || b.Requests < 0 {
			errs = append(errs, errors.New("grant: a budget, or what is spent of it, is negative"))
		}
	}
	if s.Concurrent < 0 {
		errs = append(errs, errors.New("grant: concurrent is negative"))
	}
	return errors.Join(append(errs, checkModels(s.Models))...)
}

// checkModels finds patterns that fit no model.
func checkModels(patterns []string) error {
	var errs []error
	for _, m := range patterns {
		if m == "" || strings.Contains(strings.TrimSuffix(m, "*"), "*") {
			errs = append(errs, fmt.Errorf("models: %q: write a name, or the beginning of one with a final *", m))
		}
	}
	return errors.Join(errs...)
}

// Totals are what came of a grant's requests.
type Totals struct {
	Requests int64         `json:"requests"`
	Refused  int64         `json:"refused"`  // by the proxy
	Failed   int64         `json:"failed"`   // by the upstream
	Usage    wire.Usage    `json:"usage"`    // by class
	Cost     NanoUSD       `json:"cost_usd"` // of what has a price
	Unpriced int64         `json:"unpriced"` // requests without one
	Answered int64         `json:"answered"` // by an upstream, to their end
	Guessed  int64         `json:"guessed"`  // requests whose usage is an estimate
	Waited   time.Duration `json:"waited_ns"`
	// Models are the parts of the models that answered.
	Models map[string]ModelTotals `json:"models,omitempty"`
	// Partial says that the proxy was killed meanwhile: Cost and Requests are what the
	// ledger knows, open requests in full, and the rest is of before.
	Partial bool `json:"partial,omitempty"`
	// Gone says that somebody else had ended the grant before.
	Gone bool `json:"gone,omitempty"`
	// Last is how the latest request ended that a provider would be paid for; where
	// none was, the latest whose model or upstream is not the grant's, or whose path is
	// nobody's.
	Last Ending `json:"last"`
}

// ModelTotals are what came of the requests that a model answered.
type ModelTotals struct {
	Requests int64      `json:"requests"`
	Usage    wire.Usage `json:"usage"`
	Cost     NanoUSD    `json:"cost_usd"`
	Unpriced int64      `json:"unpriced"`
}

// Ending is how a request ended.
type Ending struct {
	Status  int         `json:"status"`
	Refused wire.Reason `json:"refused,omitempty"`
	Why     string      `json:"why,omitempty"`
	Budget  string      `json:"budget,omitempty"`
	End     End         `json:"end,omitempty"`
	Model   string      `json:"model,omitempty"` // that was asked for
	DurMS   int64       `json:"dur_ms,omitempty"`
}

// grant is one minted grant.
type grant struct {
	id       string
	hash     [sha256.Size]byte
	spec     GrantSpec
	ctx      context.Context                  //nolint:containedctx // the life of the grant: all its requests end with it
	accounts struct{ trial, job, own string } // at the ledger
	end      context.CancelFunc

	mu      sync.Mutex
	running int
	failing bool          // the latest request ended with its upstream's failure
	idle    chan struct{} // closed when nothing runs any more; nil unless somebody waits
	totals  Totals
}

// errRevoked is why a request ended whose grant was revoked, or had expired;
// errStopped, why one ended that was open for longer than the proxy waited.
var (
	errRevoked = errors.New("the grant has ended")
	errStopped = errors.New("the proxy has stopped")
)

// newGrant returns a grant and its token, which nothing keeps.
func newGrant(spec GrantSpec) (*grant, string) {
	var id [6]byte
	var secret [32]byte
	_, _ = rand.Read(id[:]) // never fails
	_, _ = rand.Read(secret[:])
	name := hex.EncodeToString(id[:])
	token := "hgt_" + name + "_" + base64.RawURLEncoding.EncodeToString(secret[:])
	return restored(name, sha256.Sum256([]byte(token)), spec), token
}

func restored(id string, hash [sha256.Size]byte, spec GrantSpec) *grant {
	g := &grant{id: id, hash: hash, spec: spec}
	g.accounts.trial, g.accounts.job, g.accounts.own = "trial/"+spec.Job+"/"+spec.Trial, "job/"+spec.Job, "grant/"+id
	g.ctx, g.end = context.WithDeadline(context.Background(), spec.Expires)
	return g
}

// enter counts a request in, unless there are as many as there may be.
func (g *grant) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.spec.Concurrent > 0 && g.running >= g.spec.Concurrent {
		return false
	}
	g.running++
	return true
}

func (g *grant) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	if g.running == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// cut ends the grant, and waits a moment for what was cut to be counted.
func (g *grant) cut() {
	g.end()
	g.mu.Lock()
	if g.running == 0 {
		g.mu.Unlock()
		return
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	g.mu.Unlock()
	const moment = 5 * time.Second
	late := time.NewTimer(moment)
	defer late.Stop()
	select {
	case <-idle:
	case <-late.C:
	}
}

// count adds a request that has ended.
func (g *grant) count(r *Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := &g.totals
	t.Requests++
	t.Waited += r.waited
	if r.billed {
		g.failing = r.fruitless()
	}
	t.last(r)
	if r.Refused != "" {
		t.Refused++
		return
	}
	if r.UpstreamFailed() {
		t.Failed++
	}
	t.Usage = add(t.Usage, r.Usage)
	if r.Guessed {
		t.Guessed++
	}
	switch {
	case r.Cost != nil:
		t.Cost += *r.Cost
	case r.billed && !r.unpaid():
		t.Unpriced++
	}
	if r.billed && !r.unpaid() {
		t.byModel(r)
	}
	if r.billed && r.End == Complete {
		t.Answered++
	}
}

// last keeps how a request ended, if that is the one that says how the grant's did.
func (t *Totals) last(r *Record) {
	none := t.Last.End == "" || t.Last.Refused == wire.Forbidden || t.Last.Refused == wire.Unlisted
	if r.billed || none && (r.Refused == wire.Forbidden || r.astray) {
		t.Last = Ending{Status: r.Status, Refused: r.Refused, Why: r.Why, Budget: r.Budget, End: r.End, Model: r.Model, DurMS: r.DurMS}
	}
}

// attempts is how often a request may be tried: when the latest one, with all its
// tries, came to nothing, its client is already asking again by itself.
func (g *grant) attempts(most int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failing {
		return 1
	}
	return most
}

func (t *Totals) byModel(r *Record) {
	if t.Models == nil {
		t.Models = map[string]ModelTotals{}
	}
	name := cmp.Or(r.Answered, r.Model)
	m := t.Models[name]
	m.Requests++
	m.Usage = add(m.Usage, r.Usage)
	if r.Cost != nil {
		m.Cost += *r.Cost
	} else {
		m.Unpriced++
	}
	t.Models[name] = m
}

func add(a, b wire.Usage) wire.Usage {
	return wire.Usage{
		Input: a.Input + b.Input, CacheRead: a.CacheRead + b.CacheRead,
		CacheWrite: a.CacheWrite + b.CacheWrite, CacheWriteLong: a.CacheWriteLong + b.CacheWriteLong,
		Output: a.Output + b.Output, Reasoning: a.Reasoning + b.Reasoning, Searches: a.Searches + b.Searches,
	}
}

// charges are the accounts that a request of the grant is counted on.
func (g *grant) charges(b Budgets, now time.Time) []ledger.Charge {
	s := g.spec
	job, trial := s.Jobs, s.Trials
	if job.Money == 0 {
		job.Money = b.Job
	}
	if trial.Money == 0 {
		trial.Money = b.Trial
	}
	return []ledger.Charge{
		{Account: g.accounts.trial, Name: "trial", Cap: trial},
		{Account: g.accounts.job, Name: "job", Cap: job, Elsewhere: s.JobElsewhere},
		{Account: dayAccount(now), Name: "day", Cap: Sum{Money: b.Day}, Elsewhere: b.SpentElsewhere(now)},
		{Account: g.accounts.own, Name: s.Phase, Cap: s.Budget}, // without a budget too: after a kill it is what is known
	}
}

func dayAccount(t time.Time) string { return "day/" + t.UTC().Format(time.DateOnly) }

// trial names the trial over all jobs.
func (g *grant) trial() string { return g.spec.Job + "/" + g.spec.Trial }

// GrantStatus is what a grant is doing. It holds nothing of its token.
type GrantStatus struct {
	ID      string    `json:"id"`
	Spec    GrantSpec `json:"spec"`
	Running int       `json:"running"`
	Totals  Totals    `json:"totals"`
}

func (g *grant) status() GrantStatus {
	g.mu.Lock()
	defer g.mu.Unlock()
	totals := g.totals
	totals.Models = maps.Clone(totals.Models)
	return GrantStatus{ID: g.id, Spec: g.spec, Running: g.running, Totals: totals}
}

// grants are those in force.
type grants struct {
	mu     sync.RWMutex
	byHash map[[sha256.Size]byte]*grant
	byID   map[string]*grant
}

func newGrants() *grants {
	return &grants{byHash: map[[sha256.Size]byte]*grant{}, byID: map[string]*grant{}}
}

func (s *grants) put(g *grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byHash[g.hash], s.byID[g.id] = g, g
}

// find looks a token up by its hash: how long that takes says nothing about how
// much of it is right.
func (s *grants) find(token string) *grant {
	hash := sha256.Sum256([]byte(token))
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byHash[hash]
}

func (s *grants) get(id string) *grant {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byID[id]
}

func (s *grants) remove(id string) *grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.byID[id]
	if g != nil {
		delete(s.byID, id)
		delete(s.byHash, g.hash)
	}
	return g
}

// all returns the grants by id, without those that have expired.
func (s *grants) all() []*grant {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*grant
	for _, g := range s.byID {
		if g.ctx.Err() == nil {
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b *grant) int { return a.spec.Expires.Compare(b.spec.Expires) })
	return out
}
