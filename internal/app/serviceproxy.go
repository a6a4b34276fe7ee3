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
// connections of sandboxes are carried to its listener.
type serviceProxy struct {
	*client.Client
	log *slog.Logger
}

func (s serviceProxy) mint(ctx context.Context, g authproxy.GrantSpec) (token, id string, err error) {
	g.Source = "" // what the service sees is this process
	m, err := s.Mint(ctx, g)
	return m.Token, m.ID, err
}

func (s serviceProxy) revoke(ctx context.Context, id string) (authproxy.Totals, error) {
	return s.Revoke(ctx, id)
}

// holder knows nothing: keys stay with the service.
func (s serviceProxy) holder(string) string { return "" }

func (s serviceProxy) close() error {
	s.Close()
	return nil
}

// dialLimit is how long a connection may take to reach the service.
const dialLimit = 10 * time.Second

func (s serviceProxy) handle(string) func(net.Conn) {
	return func(inside net.Conn) {
		defer inside.Close()
		ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
		service, err := s.Dial(ctx)
		cancel()
		if err != nil {
			s.log.Error("a connection of a sandbox did not reach the auth proxy", "error", err)
			return
		}
		defer service.Close()
		carry(inside, service)
	}
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
		out = append(out, upstream{name: u.Name, dialect: u.Dialect})
	}
	return out
}
