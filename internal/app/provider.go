package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"harborgate/configs"
	"harborgate/internal/shares"
	"harborgate/providers"
	"harborgate/providers/docker"
	"harborgate/providers/fake"
	"harborgate/providers/fake/plane"
	"harborgate/providers/limit"
	"harborgate/providers/observe"
	"harborgate/providers/retry"
)

// checkLimit bounds the first contact with a provider.
const checkLimit = 20 * time.Second

// driver makes a provider of one type.
type driver func(a *App, name string, c configs.Provider) (providers.Provider, error)

// drivers are the types that a configuration may name.
var drivers = map[string]driver{
	docker.Type: openDocker,
	"fake":      openFake,
}

// harborEnvironments are types that Harbor knows and this program does not have.
var harborEnvironments = []string{
	"daytona", "e2b", "modal", "runloop", "gke", "apple-container", "singularity", "islo", "tensorlake", "podman",
	"kata", "sbx", "smol", "ack", "openshift", "ec2", "skypilot", "beam", "blaxel", "boxd", "cwsandbox", "hf-sandbox",
	"hyperbrowser", "langsmith", "mosaic", "novita", "opensandbox", "prime", "runta", "sail", "snowflake",
	"superserve", "vercel", "aca-sandbox", "kernel", "use-computer", "cua-cloud",
}

// providerTypes are what config.yaml may say.
func providerTypes() configs.Types {
	return configs.Types{Built: slices.Sorted(maps.Keys(drivers)), Known: harborEnvironments}
}

// ProviderNames lists what -e takes: the configured names and the built-in types.
func (a *App) ProviderNames() []string {
	names := slices.Collect(maps.Keys(a.Host.Providers))
	for t := range drivers {
		if !slices.Contains(names, t) {
			names = append(names, t)
		}
	}
	slices.Sort(names)
	return names
}

// Provider opens a provider by name, once.
func (a *App) Provider(name string) (providers.Provider, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p, ok := a.open[name]; ok {
		return p, nil
	}
	c := a.Host.Providers[name]
	if c.Type == "" {
		c.Type = name
	}
	open, ok := drivers[c.Type]
	if !ok {
		return nil, a.unknown(name, c.Type)
	}
	p, err := open(a, name, c)
	if err != nil {
		return nil, err
	}
	pool, err := a.owner.Pool(name, func(ctx context.Context) error {
		_, err := a.removeLeft(ctx, p)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	a.pools[name] = pool
	p = a.decorate(p, pool, c.Limits)
	a.open[name] = p
	return p, nil
}

func (a *App) unknown(name, typ string) error {
	known := strings.Join(append(a.ProviderNames(), slices.Sorted(maps.Keys(a.Host.Pools))...), ", ")
	if slices.Contains(harborEnvironments, typ) {
		return providers.Errorf(providers.KindUnsupported, "open", "environment %q is one of Harbor's that is not built yet: use one of %s", name, known)
	}
	return providers.Errorf(providers.KindInvalid, "open", "environment %q is not known: use one of %s, or add it under providers: in config.yaml", name, known)
}

func openDocker(a *App, name string, c configs.Provider) (providers.Provider, error) {
	var o dockerOptions
	if err := c.Options.Decode(&o); err != nil {
		return nil, err
	}
	return docker.New(docker.Options{
		Name: name, Host: o.Host, Context: o.Context, TLSDir: o.TLSDir,
		HelperDir: a.opt.HelperDir, CacheDir: a.Dirs.Cache, Logger: a.log,
	})
}

// CheckProvider contacts a provider. Its error says what to do.
func CheckProvider(ctx context.Context, p providers.Provider) error { return bounded(ctx, p.Check) }

// answers contacts a provider, too. One that was called too often does answer, and so
// does one in the pause that it asked for.
func answers(ctx context.Context, p providers.Provider) error {
	err := CheckProvider(ctx, p)
	if providers.Is(err, providers.KindRateLimited) {
		return nil
	}
	return err
}

func openFake(_ *App, name string, c configs.Provider) (providers.Provider, error) {
	var o fakeOptions
	if err := c.Options.Decode(&o); err != nil {
		return nil, err
	}
	control, err := o.control(filepath.Dir(c.Options.File()))
	if err != nil {
		key := "simulate"
		if o.SimulateAt != "" {
			key = "simulate_at"
		}
		return nil, fmt.Errorf("%s: %w", c.Options.At(key), err)
	}
	world := fake.NewWorld()
	if o.FaultPercent > 0 {
		world.Gamble(fake.Chance{Percent: o.FaultPercent, Seed: uint64(o.FaultSeed)})
	}
	return fake.New(fake.Options{
		Name: name, World: world, Control: control, CreateTime: time.Duration(o.CreateSec * float64(time.Second)), ExecTime: time.Duration(o.ExecSec * float64(time.Second)),
	}), nil
}

// control is the control plane of a simulated provider; nil is none. dir is where
// relative paths begin.
func (o fakeOptions) control(dir string) (fake.Control, error) {
	switch {
	case o.Simulate != "" && o.SimulateAt != "":
		return nil, errors.New("simulate and simulate_at exclude each other")
	case o.SimulateAt != "":
		return plane.Dial(o.SimulateAt)
	case o.Simulate == "":
		return nil, nil
	}
	if !filepath.IsAbs(o.Simulate) {
		o.Simulate = filepath.Join(dir, o.Simulate)
	}
	c, err := plane.ReadFile(o.Simulate)
	if err != nil {
		return nil, err
	}
	return plane.New(c, nil)
}

// decorate puts the shared policy around a driver, in the fixed order: each call
// pays the rate limit, reads are repeated, everything is seen. Limits are those of
// all harbor processes of this host together.
func (a *App) decorate(p providers.Provider, pool *shares.Pool, l configs.Limits) providers.Provider {
	o := limit.Options{Paces: map[limit.Class]limit.Pace{}, Pauses: func(c limit.Class) limit.Pause { return pool.Pause(string(c)) }, Exhausted: func(why string) {
		if err := pool.Exhausted(why); err != nil {
			a.log.Warn("what the provider has room for is not known to others", "provider", p.Info().Name, "error", err)
		}
	}}
	for _, c := range []struct {
		class  limit.Class
		perSec float64
		burst  int
	}{
		{limit.Creates, l.CreatesPerSec, l.CreateBurst},
		{limit.Deletes, l.DeletesPerSec, int(l.DeletesPerSec)},
		{limit.Reads, l.ReadsPerSec, int(l.ReadsPerSec)},
		{limit.Execs, l.ExecsPerSec, int(l.ExecsPerSec)},
	} {
		switch {
		case c.perSec <= 0:
		case c.class == limit.Creates:
			o.Paces[c.class] = pool.Creates(c.perSec, max(1, c.burst))
		default:
			o.Paces[c.class] = pool.Pace(string(c.class), c.perSec, max(1, c.burst))
		}
	}
	if l.CallsPerSec > 0 {
		o.Calls = pool.Pace("calls", l.CallsPerSec, max(1, int(l.CallsPerSec)))
	}
	return observe.New(retry.New(limit.New(p, o), retry.Options{}), observe.Options{Logger: a.log})
}
