package app

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"harborgate/authproxy"
	"harborgate/authproxy/client"
)

// serviceProxy is a proxy that runs as a service of this host, for all jobs: the
// connections of sandboxes are carried to it, each for the grant of its sandbox.
type serviceProxy struct {
	*client.Client
	log *slog.Logger

	mu     sync.Mutex
	failed map[string]error // by grant, of those whose latest connection did not get there
}

func (s *serviceProxy) mint(ctx context.Context, g authproxy.GrantSpec) (token, id string, err error) {
	m, err := s.Mint(ctx, g)
	return m.Token, m.ID, err
}

func (s *serviceProxy) revoke(ctx context.Context, id string) (authproxy.Totals, error) {
	return s.Revoke(ctx, id)
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
