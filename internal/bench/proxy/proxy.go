package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"harborgate/authproxy"
)

// counts are the metrics of the measured proxy.
type counts struct{ served, refused, waiting, streams atomic.Int64 }

func (c *counts) Served(r authproxy.Record) {
	c.served.Add(1)
	if r.Refused != "" {
		c.refused.Add(1)
	}
}
func (c *counts) Waiting(_ string, change int) { c.waiting.Add(int64(change)) }
func (c *counts) Streams(_ string, change int) { c.streams.Add(int64(change)) }

// open makes a proxy before the mock at upstream, with everything switched on, and
// a token for it.
func open(ctx context.Context, dir, upstream string) (p *authproxy.Proxy, token string, err error) {
	audit, err := authproxy.OpenAuditLog(filepath.Join(dir, "audit.jsonl"), 64<<20, 1)
	if err != nil {
		return nil, "", err
	}
	config := fmt.Sprintf(`
upstreams:
  anthropic:
    dialect: anthropic
    base_url: %s
    local: true
    keys: [env:KEY_1, env:KEY_2]
    prices: {m: {input: 3, output: 15, cache_read: 0.3, cache_write: 3.75}}
    limits: {requests_per_minute: 60000000, input_tokens_per_minute: 1000000000000, output_tokens_per_minute: 1000000000000, concurrent: 4000}
    key_limits: {requests_per_minute: 60000000, concurrent: 4000}
budgets: {job: 1000000, trial: 1000000, day: 1000000}
`, upstream)
	p, err = authproxy.New(authproxy.Options{
		Load: func() (authproxy.Config, error) { return authproxy.Parse([]byte(config)) },
		Sources: authproxy.Sources{LookupEnv: func(name string) (string, bool) {
			return "sk-ant-api03-0123456789abcdef0123456789abcdef0123456789abcdef-" + name, true
		}},
		StateDir: filepath.Join(dir, "state"),
		Log:      slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Audit:    audit, Metrics: &counts{},
	})
	if err != nil {
		return nil, "", err
	}
	if err := p.Reload(ctx); err != nil {
		return nil, "", err
	}
	token, _, err = p.Mint(authproxy.GrantSpec{
		Job: "bench", Trial: "bench", Phase: "agent", Upstreams: []string{"anthropic"}, Models: []string{"m"},
		Expires: time.Now().Add(time.Hour), Concurrent: 4000,
	})
	return p, token, err
}

// runProxy is the proxy as a process. It prints its address and the token.
func runProxy(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("proxy", flag.ContinueOnError)
	upstream, dir := flags.String("upstream", "", ""), flags.String("dir", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	debug.SetGCPercent(authproxy.GCPercent)
	p, token, err := open(ctx, *dir, *upstream)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	defer stop()
	fmt.Println(l.Addr(), token)
	return p.Serve(l)
}
