package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"harborgate/authproxy"
	"harborgate/authproxy/client"
)

// serviceProxy is a proxy that runs as a service of this host, for all jobs: the
// connections of sandboxes are carried to it, each for the grant of its sandbox.
type serviceProxy struct {
	*client.Client
	log      *slog.Logger
	trialDir func(trial string) string // of trials that grants are for

	mu     sync.Mutex
	failed map[string]error  // by grant, of those whose latest connection did not get there
	minted map[string]minted // by id, until they are revoked
}

// minted is whom a grant is for, and since when there is one.
type minted struct {
	trial string
	since time.Time
}

func (s *serviceProxy) mint(ctx context.Context, g authproxy.GrantSpec) (token, id string, err error) {
	since := time.Now()
	m, err := s.Mint(ctx, g)
	if err == nil {
		s.mu.Lock()
		s.minted[m.ID] = minted{g.Trial, since}
		s.mu.Unlock()
	}
	return m.Token, m.ID, err
}

func (s *serviceProxy) revoke(ctx context.Context, id string) (authproxy.Totals, error) {
	t, err := s.Revoke(ctx, id)
	s.mu.Lock()
	m, ok := s.minted[id]
	delete(s.minted, id)
	s.mu.Unlock()
	if err == nil && ok && t.Requests > 0 {
		if err := s.copyRecords(ctx, id, m); err != nil {
			s.log.Warn("the requests of a trial are in the audit of the auth proxy only", "trial", m.trial, "error", err)
		}
	}
	return t, err
}

// copyRecords puts what the service's audit says of a grant beside its trial's result.
func (s *serviceProxy) copyRecords(ctx context.Context, id string, m minted) error {
	f, err := os.OpenFile(filepath.Join(s.trialDir(m.trial), requestsFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(s.Records(ctx, id, m.since, f), f.Close())
}

// holder knows nothing: keys stay with the service.
func (s *serviceProxy) holder(string) string { return "" }

func (s *serviceProxy) close() error {
	s.Close()
	return nil
}

// dialLimit is how long a connection may take to reach the service.
const dialLimit = 10 * time.Second

func (s *serviceProxy) handle(id, _ string) func(net.Conn) {
	return func(inside net.Conn) {
		defer inside.Close()
		ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
		service, err := s.Connect(ctx, id)
		cancel()
		s.reached(id, err)
		if err != nil {
			s.log.Warn("a connection of a sandbox did not reach the auth proxy", "error", err)
			return
		}
		defer service.Close()
		carry(inside, service)
	}
}

func (s *serviceProxy) reached(id string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.failed, id)
		return
	}
	s.failed[id] = err
}

func (s *serviceProxy) trouble(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.failed[id]
	delete(s.failed, id)
	return err
}

func (s *serviceProxy) spent(ctx context.Context, account string) (USD, error) {
	status, err := s.Status(ctx)
	return status.Accounts[account].Spent.Money, err
}

// carry copies both ways until both have ended, or one has failed.
func carry(a, b net.Conn) {
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, err := io.Copy(way[0], way[1])
			half, ok := way[0].(interface{ CloseWrite() error })
			if err == nil && ok && half.CloseWrite() == nil {
				return
			}
			_ = a.Close() // whoever waits for the other side waits no more
			_ = b.Close()
		})
	}
	both.Wait()
}

// upstreamsOf are those that a service has.
func upstreamsOf(s authproxy.Status) []upstream {
	var out []upstream
	for _, u := range s.Upstreams {
		one := upstream{name: u.Name, dialect: u.Dialect, base: u.Base, models: u.Models}
		for _, k := range u.Keys {
			one.add(k.Ref)
		}
		out = append(out, one)
	}
	return out
}
