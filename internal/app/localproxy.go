package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"harborgate/authproxy"
)

// ownProxy is a proxy in this process.
type ownProxy struct {
	*authproxy.Proxy
	audit *authproxy.AuditLog
}

func (l ownProxy) mint(_ context.Context, s authproxy.GrantSpec) (token, id string, err error) {
	return l.Mint(s)
}

func (l ownProxy) revoke(_ context.Context, id string) (authproxy.Totals, error) {
	t, ok := l.Revoke(id)
	if !ok {
		return t, errors.New("there is no such grant")
	}
	return t, nil
}

func (l ownProxy) trouble(string) error { return nil }

func (l ownProxy) spent(_ context.Context, account string) (USD, error) {
	return l.Status().Accounts[account].Spent.Money, nil
}

func (l ownProxy) handle(source string) func(net.Conn) { return l.Handle(source) }
func (l ownProxy) holder(value string) string          { return l.Holder(value) }
func (l ownProxy) close() error                        { return errors.Join(l.Close(), l.audit.Close()) }

// Sizes of the audit of a job's own proxy.
const (
	auditBytes = 64 << 20
	auditFiles = 4
)

// openLocal makes a proxy of the job's own. Its ledger outlives it, so that budgets
// hold over a resume.
func (a *App) openLocal(ctx context.Context, id string, log *slog.Logger, trialDir func(string) string) (proxy, error) {
	if err := noCores(); err != nil {
		return nil, err
	}
	dir := filepath.Join(a.authDir(), "jobs", jobKey(id))
	audit, err := authproxy.OpenAuditLog(filepath.Join(dir, "audit.jsonl"), auditBytes, auditFiles)
	if err != nil {
		return nil, err
	}
	p, err := authproxy.New(authproxy.Options{
		Load:    func() (authproxy.Config, error) { return a.jobConfig(id) },
		Sources: authproxy.Sources{LookupEnv: a.opt.Lookup}, StateDir: dir, Log: log,
		Audit: copies{audit, trialDir}, Transcripts: copies{audit, trialDir},
	})
	if err != nil {
		return nil, errors.Join(err, audit.Close())
	}
	if err := p.Reload(ctx); err != nil {
		return nil, errors.Join(err, p.Close(), audit.Close())
	}
	return ownProxy{p, audit}, nil
}

func (a *App) authDir() string { return filepath.Join(a.Dirs.State, "auth") }

// jobConfig is the configuration for a job's own proxy: of the day's budget it has
// what other proxies of this host have left of it.
func (a *App) jobConfig(id string) (authproxy.Config, error) {
	c, err := ProxyConfig(a.Host, a.opt.Lookup)
	if err != nil || c.Budgets.Day == 0 {
		return c, err
	}
	ledgers, err := filepath.Glob(filepath.Join(a.authDir(), "jobs", "*"))
	if err != nil {
		return c, err
	}
	whole := c.Budgets.Day
	for _, dir := range append(ledgers, a.authDir()) {
		if filepath.Base(dir) == jobKey(id) {
			continue
		}
		spent, err := authproxy.SpentOn(dir, time.Now())
		if err != nil {
			return c, err
		}
		c.Budgets.Day -= spent
	}
	if c.Budgets.Day <= 0 {
		return c, fmt.Errorf("budgets.day: the %s USD of today (UTC) are used up: run it tomorrow, or raise budgets.day", whole)
	}
	return c, nil
}

// jobAccount names a job for grants: readable, and no other job's.
func jobAccount(name, id string) string { return name + "-" + jobKey(id) }

// jobKey is a job's id as a clean part of names, whatever a file says the id is.
func jobKey(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:6])
}

// What a trial's directory has of its requests to models: a copy of the audit, and
// what was said, where that was asked for.
const (
	requestsFile    = "model-requests.jsonl"
	transcriptsFile = "model-transcripts.jsonl"
)

// copies writes each record to the audit, and to its trial.
type copies struct {
	*authproxy.AuditLog
	trialDir func(trial string) string
}

// Record implements authproxy.Audit.
func (c copies) Record(r authproxy.Record) error {
	err := c.AuditLog.Record(r)
	if r.Trial == "" {
		return err
	}
	return errors.Join(err, c.add(r.Trial, requestsFile, r))
}

// Transcript implements authproxy.Transcripts.
func (c copies) Transcript(t authproxy.Transcript) error { return c.add(t.Trial, transcriptsFile, t) }

// add adds a line to a file of a trial.
func (c copies) add(trial, name string, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(c.trialDir(trial), name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
