package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"harborgate/agents"
	"harborgate/authproxy"
	"harborgate/authproxy/client"
	"harborgate/trials"
	"harborgate/trials/runner"
)

// USD is an amount of money; its text is decimal dollars.
type USD = authproxy.NanoUSD

// proxy is the auth proxy of a job: in this process, or a service of this host.
type proxy interface {
	mint(ctx context.Context, s authproxy.GrantSpec) (token, id string, err error)
	revoke(ctx context.Context, id string) (authproxy.Totals, error)
	// handle answers connections of the grant id, which was minted for source.
	handle(id, source string) func(net.Conn)
	// trouble is why the latest connection of a grant did not reach the proxy; nil
	// when it did.
	trouble(id string) error
	// spent is what an account of the ledger has come to, of this and earlier
	// processes.
	spent(ctx context.Context, account string) (USD, error)
	// holder is the upstream of which value is a key, where that can be known.
	holder(value string) string
	close() error
}

// upstream is one model API of the proxy.
type upstream struct {
	name, dialect, base string
	models              []string // that it serves, as configured; none is all
	refs                []string // of its keys, as they may be shown
	keys                []string // variables of the host that hold its keys
}

// models gives the trials of a job their way to models, and keeps the keys to
// them on the host. The proxy is opened when the first grant needs it, or by
// prepare. Safe for concurrent use.
type models struct {
	upstreams []upstream
	lookup    func(name string) (string, bool)
	set       Settings
	job       string // whom grants are counted on
	owner     string // of the grants
	log       *slog.Logger
	// stop ends the job whose budget is used up; nil where there is no job.
	stop context.CancelCauseFunc
	own  ownEndpoints
	// service is the socket of the proxy that is one; "" is one of the job's own.
	service string
	// notes are what users should know about the way to models.
	notes []string
	// before is what earlier processes say that the job has spent; told hears what it
	// has come to whenever a grant has ended, and is nil where nobody wants to know.
	before USD
	told   func(usd string)
	// budgets are those of the configuration; priced says what of a model has a price.
	budgets authproxy.Budgets
	priced  func(ctx context.Context, upstream, model string) (authproxy.Priced, error)

	connect   func() (proxy, error)
	mu        sync.Mutex // guards what follows
	open      proxy
	err       error
	elsewhere USD // of before, what open has not in its ledger
	total     USD // elsewhere, and what open is known to have in its ledger
}

// proxy returns the open proxy; the first call opens it, for good or ill.
func (m *models) proxy() (proxy, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open == nil && m.err == nil {
		m.open, m.err = m.connect()
		if m.err == nil {
			m.err = m.carryOver()
		}
	}
	return m.open, m.err
}

func (m *models) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open == nil {
		return nil
	}
	return m.open.close()
}

// Grant implements runner.Credentials.
func (m *models) Grant(ctx context.Context, w runner.Want) (*runner.Grant, error) {
	ups, spec := m.spec(w)
	_, model, _ := m.serves(w.Agent)
	if len(ups) == 0 || m.set.PassCredentials {
		return nil, nil
	}
	p, err := m.proxy()
	if err != nil {
		return nil, err
	}
	spec.JobElsewhere = m.spentElsewhere()
	token, id, err := p.mint(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &runner.Grant{
		Handle: p.handle(id, spec.Source),
		Access: func(url string) agents.Access {
			return agents.Access{URL: url, Token: token, Model: model, Upstreams: ups}
		},
		End: func() (trials.Metered, *trials.Failure) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeLimit)
			defer cancel()
			totals, err := p.revoke(ctx, id)
			if err != nil {
				m.log.Warn("a grant could not be revoked, it ends by itself", "grant", id, "error", err)
				return trials.Metered{Grant: id, Partial: true}, trials.NewFailure(w.Phase, trials.CauseModels, "", "what it used is not known: "+err.Error())
			}
			m.add(totals.Cost)
			if err := p.trouble(id); err != nil {
				return metered(id, totals), trials.NewFailure(w.Phase, trials.CauseModels, "", err.Error())
			}
			return metered(id, totals), m.failure(w.Phase, totals, time.Now().After(w.Until))
		},
	}, nil
}

// datedForm is how names of models go on that have a date, which is of this millennium.
const datedForm = "-2"

const (
	// revokeLimit bounds the end of a grant.
	revokeLimit = 15 * time.Second
	// grantMargin is what a grant holds longer than its phase, which ends it.
	grantMargin = time.Minute
)

// spec is the grant for a phase, and the upstreams that it opens.
func (m *models) spec(w runner.Want) ([]agents.Upstream, authproxy.GrantSpec) {
	s := authproxy.GrantSpec{
		Owner: m.owner, Job: m.job, Trial: w.Trial, Phase: string(w.Phase), Expires: w.Until.Add(grantMargin),
		Source: fmt.Sprintf("%s/%s/%d/%s", m.job, w.Trial, w.Try, w.Phase),
		Trials: authproxy.Sum{Money: m.set.TrialBudget}, Jobs: authproxy.Sum{Money: m.set.Budget}, Bodies: m.set.Transcripts,
	}
	var ups []agents.Upstream
	add := func(name string, key ...string) {
		i := slices.IndexFunc(ups, func(u agents.Upstream) bool { return u.Name == name })
		if i < 0 {
			ups, i = append(ups, agents.Upstream{Name: name, Dialect: m.named(name).dialect}), len(ups)
			s.Upstreams = append(s.Upstreams, name)
		}
		ups[i].Keys = append(ups[i].Keys, key...)
	}
	if up, name, ok := m.serves(w.Agent); ok {
		add(up.name)
		ups[0].Format = value(w.Agent.ModelAPIFormat)
		if kind, err := agents.Find(w.Agent.AgentName()); err == nil {
			name = kind.Asks(name)
		}
		if len(w.Replaced) == 0 && name != "" { // the model that is measured, or a dated form of it
			s.Models = []string{name, name + datedForm + "*"}
		}
	}
	for _, e := range m.endpoints(w.Agent) {
		add(m.own.names[e.endpoint])
	}
	for _, name := range slices.Sorted(maps.Keys(w.Replaced)) {
		add(w.Replaced[name], name)
	}
	return ups, s
}

// user is who wants models: a job, or a trial without one.
type user struct {
	name, id string
	agents   []trials.AgentConfig
	trialDir func(trial string) string // of its trials
	spent    USD                       // by earlier processes, as far as they say
}

// newModels knows the upstreams of this host, and those that the user's agents bring.
func (a *App) newModels(ctx context.Context, set Settings, who user, log *slog.Logger) *models {
	m := &models{set: set, job: jobAccount(who.name, who.id), log: log, own: newOwnEndpoints(), before: who.spent, owner: a.grantOwner(a.owner.ID)}
	m.lookup = m.own.over(a.opt.Lookup)
	if s, err := a.service(ctx, log); s != nil || err != nil {
		m.join(ctx, s, err, who.trialDir)
		if m.err != nil || m.servesAll(who.agents) {
			return m
		}
		m.notes = append(m.notes, fmt.Sprintf("the auth proxy at %s does not know the endpoint of an agent: this job uses a proxy of its own, with limits and budgets of its own", s.Socket()))
		s.Close()
		m.upstreams, m.service = nil, ""
	}
	m.notes = append(m.notes, a.unansweredSocket()...)
	c, err := ProxyConfig(a.Host, a.opt.Lookup)
	m.err = err // of no concern to who wants no models
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		m.upstreams = append(m.upstreams, upstreamOf(name, c.Upstreams[name]))
	}
	m.define(who.agents, c)
	m.budgets, m.priced = c.Budgets, func(_ context.Context, upstream, model string) (authproxy.Priced, error) {
		all := authproxy.Config{Upstreams: maps.Clone(c.Upstreams)}
		maps.Copy(all.Upstreams, m.own.upstreams)
		return all.Priced(upstream, model)
	}
	ctx = context.WithoutCancel(ctx) // the proxy is opened by whoever comes first, for all
	m.connect = func() (proxy, error) { return a.openLocal(ctx, who, m.own, log) }
	return m
}

func upstreamOf(name string, c authproxy.Upstream) upstream {
	u := upstream{name: name, dialect: string(c.Dialect), base: c.BaseURL, models: c.Models}
	for _, k := range c.Keys {
		u.add(k.String())
	}
	return u
}

// add knows a key by its reference.
func (u *upstream) add(ref string) {
	u.refs = append(u.refs, ref)
	if variable, ok := strings.CutPrefix(ref, "env:"); ok {
		u.keys = append(u.keys, variable)
	}
}

// join makes models use a service of this host, if it answers.
func (m *models) join(ctx context.Context, s *serviceProxy, err error, trialDir func(string) string) {
	if err == nil {
		s.trialDir = trialDir
		var status authproxy.Status
		m.service = s.Socket()
		status, err = s.Status(ctx)
		m.upstreams, m.budgets, m.priced = upstreamsOf(status), status.Budgets, s.Priced
		if err == nil && !status.Ready {
			err = fmt.Errorf("auth proxy at %s is stopping: start it again, or wait for whoever does", s.Socket())
		}
	}
	m.err = err
	m.connect = func() (proxy, error) { return s, nil }
}

// service is the auth proxy that runs for all of this host; nil when there is none.
func (a *App) service(ctx context.Context, log *slog.Logger) (*serviceProxy, error) {
	set, err := ReadAuthSettings(a.Host, a.Dirs, a.opt.Lookup)
	if err != nil {
		return nil, err
	}
	socket := set.answering(ctx)
	if socket == "" {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	return &serviceProxy{Client: client.New(socket), log: log, failed: map[string]error{}, minted: map[string]minted{}}, nil
}

// openModels opens the proxy at once where the plan wants models: what is wrong
// with it is said before anything runs.
func (j *Job) openModels(set Settings) error {
	spent, err := j.Plan.Past.spent()
	if err != nil {
		return err
	}
	j.models = j.app.newModels(context.Background(), set, user{
		name: j.Plan.Config.JobName, id: j.Plan.ID, agents: j.Plan.Config.Agents,
		trialDir: func(trial string) string { return filepath.Join(j.Dir, trial) }, spent: spent,
	}, j.log)
	j.models.told = j.tally.spent
	if j.models.own.err != nil {
		return j.models.own.err
	}
	needed := j.models.needed(j.Plan)
	if needed {
		if _, err := j.models.proxy(); err != nil {
			return err
		}
	}
	notes, err := j.models.check(context.Background(), j.Plan.Config.Agents, needed)
	for _, n := range notes {
		j.note(n.Code, n.Message)
	}
	j.Notes = notes
	return err
}
