package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"time"

	"harborgate/authproxy"
	"harborgate/authproxy/service"
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

func (l ownProxy) handle(_, source string) func(net.Conn) { return l.Handle(source) }
func (l ownProxy) holder(value string) string             { return l.Holder(value) }
func (l ownProxy) close() error                           { return errors.Join(l.Close(), l.audit.Close()) }

// Sizes of the audit of a job's own proxy.
const (
	auditBytes = 64 << 20
	auditFiles = 4
)

// openLocal makes a proxy of the job's own. Its ledger outlives it, so that budgets
// hold over a resume.
func (a *App) openLocal(ctx context.Context, who user, own ownEndpoints, log *slog.Logger) (proxy, error) {
	if err := noCores(); err != nil {
		return nil, err
	}
	dir := filepath.Join(a.authDir(), "jobs", jobKey(who.id))
	audit, err := authproxy.OpenAuditLog(filepath.Join(dir, service.AuditFile), auditBytes, auditFiles)
	if err != nil {
		return nil, err
	}
	p, err := authproxy.New(authproxy.Options{
		Load: func() (authproxy.Config, error) {
			c, err := a.jobConfig(who.id)
			maps.Copy(c.Upstreams, own.upstreams)
			return c, err
		},
		Sources: authproxy.Sources{LookupEnv: own.over(a.opt.Lookup)}, StateDir: dir, Log: log,
		Audit: copies{audit, who.trialDir}, Transcripts: copies{audit, who.trialDir},
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

// jobConfig is the configuration for a job's own proxy.
func (a *App) jobConfig(id string) (authproxy.Config, error) {
	c, err := ProxyConfig(a.Host, a.opt.Lookup)
	if err == nil {
		err = a.spentElsewhere(&c.Budgets, filepath.Join(a.authDir(), "jobs", jobKey(id)))
	}
	if day := c.Budgets.Day; err == nil && day > 0 && c.Budgets.Elsewhere.Money >= day {
		err = fmt.Errorf("budgets.day: the %s USD of today (UTC) are used up: run it tomorrow, or raise budgets.day", day)
	}
	return c, err
}

// spentElsewhere tells the day's budget what other proxies of this host, the service
// and those of jobs, have spent of it. own is the state directory of the one that
// wants to know.
func (a *App) spentElsewhere(b *authproxy.Budgets, own string) error {
	if b.Day == 0 {
		return nil
	}
	dirs, err := filepath.Glob(filepath.Join(a.authDir(), "jobs", "*"))
	if err != nil {
		return err
	}
	now := time.Now()
	b.Elsewhere.Day = now.UTC().Format(time.DateOnly)
	for _, dir := range append(dirs, a.authDir()) {
		if dir == own {
			continue
		}
		spent, err := authproxy.SpentOn(dir, now)
		if err != nil {
			return err
		}
		b.Elsewhere.Money += spent
	}
	return nil
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
