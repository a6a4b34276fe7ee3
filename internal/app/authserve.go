package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"harborgate/agents"
	"harborgate/authproxy"
	"harborgate/authproxy/client"
	"harborgate/authproxy/probe"
	"harborgate/authproxy/service"
	"harborgate/authproxy/usage"
	"harborgate/configs"
)

// longestSocket is how long the path of a socket may be: the kernel takes 107 bytes,
// and it is made under a hidden name first.
const longestSocket = 95

// ServeAuth runs the auth proxy as a service until ctx ends, and drains it then. A
// value of reload has it read the configuration again.
func (a *App) ServeAuth(ctx context.Context, drain time.Duration, reload <-chan struct{}, log *slog.Logger) error {
	set, err := ReadAuthSettings(a.Host, a.Dirs, a.opt.Lookup)
	if err != nil {
		return err
	}
	if len(set.Socket) > longestSocket {
		return fmt.Errorf("auth.socket: the kernel takes no path as long as %s: set it to one of at most %d bytes", set.Socket, longestSocket)
	}
	if err := keepMemory(); err != nil {
		return err
	}
	if gogc, _ := a.opt.Lookup("GOGC"); gogc == "" {
		debug.SetGCPercent(authproxy.GCPercent)
	}
	listen := set.addresses()
	if len(listen) == 0 {
		listen = []string{configs.AuthListen}
	}
	config, _ := configs.HostPath(a.opt.Lookup)
	s, err := service.New(ctx, service.Options{
		Load: a.serviceConfig, Restart: func() []string { return a.changedSince(set) }, Sources: authproxy.Sources{LookupEnv: a.opt.Lookup}, Config: config, StateDir: a.authDir(),
		Listen: listen, Socket: set.Socket, Drain: drain, Reload: reload, Log: log,
	})
	if err != nil {
		return err
	}
	err = s.Run(ctx)
	return errors.Join(err, s.Close())
}

// changedSince names the settings that are not as they were in before, as far as only
// a start reads them.
func (a *App) changedSince(before AuthSettings) []string {
	host, problems := configs.LoadHost(a.opt.Lookup, configs.Types{})
	now, err := ReadAuthSettings(host, a.Dirs, a.opt.Lookup)
	if err != nil || problems.Err() != nil {
		return nil // whoever reads the configuration next says so
	}
	var keys []string
	if now.Listen != before.Listen {
		keys = append(keys, "auth.listen")
	}
	if now.Socket != before.Socket {
		keys = append(keys, "auth.socket")
	}
	return keys
}

// addresses are those of the data plane.
func (s AuthSettings) addresses() []string {
	return strings.FieldsFunc(s.Listen, func(r rune) bool { return r == ',' || r == ' ' })
}

// loadAuth reads what the proxy serves from the disk, each time anew.
func (a *App) loadAuth() (authproxy.Config, error) {
	host, problems := configs.LoadHost(a.opt.Lookup, configs.Types{})
	if err := problems.Err(); err != nil {
		return authproxy.Config{}, err
	}
	c, err := ProxyConfig(host, a.opt.Lookup)
	if err == nil && len(c.Upstreams) == 0 {
		config, _ := configs.HostPath(a.opt.Lookup)
		err = fmt.Errorf("there is no upstream: write one into %s (see docs/auth-proxy.md), or export a key such as ANTHROPIC_API_KEY", config)
	}
	return c, err
}

// serviceConfig is what a service serves: of the day's budget it knows what jobs
// with proxies of their own have spent.
func (a *App) serviceConfig() (authproxy.Config, error) {
	c, err := a.loadAuth()
	if err == nil {
		err = a.spentElsewhere(&c.Budgets, a.authDir())
	}
	return c, err
}

// keepMemory keeps keys out of core dumps, and other processes of the user out of
// this one's memory and environment.
func keepMemory() error {
	if err := noCores(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	return nil
}

// noCores keeps what this process holds out of core dumps.
func noCores() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	return nil
}

// AuthClient is a client of the auth proxy that runs for this host. When none
// answers, its calls say so.
func (a *App) AuthClient(ctx context.Context) (*client.Client, error) {
	set, err := ReadAuthSettings(a.Host, a.Dirs, a.opt.Lookup)
	if err != nil {
		return nil, err
	}
	if socket := set.answering(ctx); socket != "" {
		return client.New(socket), nil
	}
	return client.New(set.Socket), nil
}

// AuthCheck probes upstreams by name, all of them when none is named: through the
// service when one runs, because its keys are the ones that count, and otherwise
// through a proxy of this process. where says which.
func (a *App) AuthCheck(ctx context.Context, names []string, model string) (results []probe.Result, where string, err error) {
	p, where, done, err := a.probed(ctx)
	if err != nil {
		return nil, where, err
	}
	defer done()
	status, err := p.Status(ctx)
	if err != nil {
		return nil, where, err
	}
	known := map[string]authproxy.UpstreamStatus{}
	for _, u := range status.Upstreams {
		known[u.Name] = u
	}
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(known))
	}
	for _, name := range names {
		u, ok := known[name]
		if !ok {
			return nil, where, fmt.Errorf("there is no upstream %q: there are %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		results = append(results, probe.Upstream(ctx, p, u, model))
	}
	return results, where, nil
}

func (a *App) probed(ctx context.Context) (p probe.Proxy, where string, done func(), err error) {
	c, err := a.AuthClient(ctx)
	if err != nil {
		return nil, "", nil, err
	}
	if _, err := c.Status(ctx); !errors.Is(err, client.ErrNotRunning) {
		return c, c.Socket(), c.Close, err
	}
	own, err := authproxy.New(authproxy.Options{
		Load: a.loadAuth, Sources: authproxy.Sources{LookupEnv: a.opt.Lookup}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, "", nil, err
	}
	done = func() { _ = own.Close() } // in memory only
	if err := own.Reload(ctx); err != nil {
		done()
		return nil, "", nil, err
	}
	return probe.Own(own), "", done, nil
}

// AuthUsage adds up what was used: by the service that answers, or else by its log
// in this user's state directory, and by this user's jobs with proxies of their own.
func (a *App) AuthUsage(ctx context.Context, by usage.By, f usage.Filter) (usage.Report, error) {
	paths, err := filepath.Glob(filepath.Join(a.authDir(), "jobs", "*", service.AuditFile))
	if err != nil {
		return usage.Report{}, err
	}
	c, err := a.AuthClient(ctx)
	if err != nil {
		return usage.Report{}, err
	}
	defer c.Close()
	shared, err := c.Usage(ctx, by, f)
	if errors.Is(err, client.ErrNotRunning) {
		return usage.Read(append(paths, filepath.Join(a.authDir(), service.AuditFile)), by, f)
	}
	if err != nil {
		return usage.Report{}, err
	}
	own, err := usage.Read(paths, by, f)
	return own.Plus(shared), err
}

// BaseURLs are where a service has an upstream, by the addresses of its status; without
// the version with which some clients want them.
func BaseURLs(listen []string, upstream string) []string {
	return ClientURLs(listen, authproxy.UpstreamStatus{Name: upstream})
}

// ClientURLs are the base URLs that clients of an upstream's dialect want.
func ClientURLs(listen []string, u authproxy.UpstreamStatus) []string {
	var out []string
	for _, l := range listen {
		if at, ok := strings.CutPrefix(l, "tcp:"); ok {
			if host, port, err := net.SplitHostPort(at); err == nil && (host == "::" || host == "0.0.0.0") {
				at = net.JoinHostPort("127.0.0.1", port)
			}
			out = append(out, agents.Access{URL: "http://" + at}.Base(agents.Upstream{Name: u.Name, Dialect: u.Dialect}))
		}
	}
	return out
}
