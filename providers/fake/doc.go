// Package fake is a provider without any backend: sandboxes with their shell,
// files, processes, users and loopback network live in this process's memory.
// It never runs a host program and never reads or writes the host's disk, but
// for the context directory that BuildImage is given. It waits on timers and
// channels only, so everything above it can be tested inside testing/synctest
// bubbles.
//
// With a control plane (see Control) it is a simulated provider: quotas, rates,
// latencies and faults are those of plane.Config, and sandboxes that nobody uses cost
// a few KiB, so that tens of thousands are there at once.
//
// It passes the suite in providers/providertest, and it misbehaves on request:
// see Fault.
//
//	w := fake.NewWorld()                       // what exists; shared by providers
//	w.Inject(fake.Fault{Op: fake.OpCreate, Nth: 2, Effect: fake.Refuse, Kind: providers.KindExhausted})
//	p := fake.New(fake.Options{World: w})
//
// Every image reference is a small Debian-like system, unless World.SetImage
// says otherwise. Network mode "public" reaches what World.Serve offers.
package fake

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"harborgate/providers"
)

// Options configure New.
type Options struct {
	Name  string // "" is "fake"
	World *World // nil is a new one

	// CreateTime and ExecTime are how long the backend takes for each, as it
	// would with an engine or a cloud.
	CreateTime time.Duration
	ExecTime   time.Duration

	// Control makes this a simulated provider, with limits, rates and faults like
	// those of a cloud; nil has none.
	Control Control
}

// Provider is one connection to a World. It implements providers.Provider and
// every optional interface.
type Provider struct {
	o       Options
	world   *World
	control Control
}

var (
	_ providers.Provider     = (*Provider)(nil)
	_ providers.Snapshotter  = (*Provider)(nil)
	_ providers.ImageBuilder = (*Provider)(nil)
	_ providers.Attacher     = (*Provider)(nil)
	_ providers.Stopper      = (*Provider)(nil)
	_ providers.Coster       = (*Provider)(nil)
	_ providers.Dialer       = (*Provider)(nil)
)

// New returns a provider.
func New(o Options) *Provider {
	if o.Name == "" {
		o.Name = "fake"
	}
	if o.World == nil {
		o.World = NewWorld()
	}
	p := &Provider{o: o, world: o.World, control: o.Control}
	if p.control == nil {
		p.control = open{p.world}
	}
	return p
}

// Info implements providers.Provider.
func (p *Provider) Info() providers.Info {
	return providers.Info{Name: p.o.Name, Type: "fake", Can: providers.Capabilities{
		Sources:  []providers.SourceKind{providers.SourceImage, providers.SourceBuild, providers.SourceSnapshot},
		Networks: []providers.NetworkMode{providers.NetworkPublic, providers.NetworkNone, providers.NetworkAllowList},
		CPU:      true, Memory: true, PIDs: true, Disk: p.o.Control != nil, Users: true, TTY: true,
		Snapshots: true, Builds: true, Attach: true, Stops: true, Costs: true, Dials: true,
	}}
}

// Check implements providers.Provider.
func (p *Provider) Check(ctx context.Context) error {
	return p.world.perform(ctx, OpCheck, p.o.Name, func(ctx context.Context) (*box, error) {
		wait, err := p.control.Check(ctx)
		return nil, admitted(ctx, wait, err)
	})
}

// List implements providers.Provider.
func (p *Provider) List(ctx context.Context, sel providers.Selector) ([]providers.Resource, error) {
	var out []providers.Resource
	err := p.world.perform(ctx, OpList, p.o.Name, func(ctx context.Context) (_ *box, err error) {
		out, err = p.list(ctx, sel)
		return nil, err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Create implements providers.Provider.
func (p *Provider) Create(ctx context.Context, spec providers.Spec) (providers.Sandbox, error) {
	if err := spec.Validate(p.Info().Can); err != nil {
		return nil, err
	}
	var made *box
	err := p.world.perform(ctx, OpCreate, spec.Name+" "+spec.Source.Image, func(ctx context.Context) (*box, error) {
		var err error
		made, err = p.create(ctx, spec)
		return made, err
	})
	if err == nil {
		return &sandbox{p, made}, nil
	}
	if made != nil && !isLost(err) {
		// The backend finished what nobody waits for any more: nothing may stay.
		err = errors.Join(err, p.discard(ctx, made.id))
	}
	return nil, err
}

// Destroy implements providers.Provider.
func (p *Provider) Destroy(ctx context.Context, id providers.ID) error {
	return p.world.perform(ctx, OpDestroy, string(id), func(ctx context.Context) (*box, error) {
		return nil, p.remove(ctx, id)
	})
}

func (p *Provider) live(op string, id providers.ID) (*box, error) {
	b := p.world.box(id)
	if b == nil {
		return nil, &providers.Error{Op: op, ID: string(id), Kind: providers.KindNotFound, Err: errNoSandbox}
	}
	return b, nil
}

// Attach implements providers.Attacher.
func (p *Provider) Attach(ctx context.Context, id providers.ID, cmd providers.Command) (providers.ExitStatus, error) {
	b, err := p.live("attach", id)
	if err != nil {
		return providers.ExitStatus{}, err
	}
	return (&sandbox{p, b}).Exec(ctx, cmd)
}

// Stop implements providers.Stopper.
func (p *Provider) Stop(ctx context.Context, id providers.ID) error {
	b, err := p.live("stop", id)
	if err != nil {
		return err
	}
	b.stop()
	return ctx.Err()
}

// Start implements providers.Stopper.
func (p *Provider) Start(ctx context.Context, id providers.ID) (providers.Sandbox, error) {
	b, err := p.live("start", id)
	if err != nil {
		return nil, err
	}
	if err := b.start(ctx); err != nil {
		return nil, err
	}
	return &sandbox{p, b}, nil
}

// pricePerCore is in US dollars for an hour.
const pricePerCore = 0.05

// CostPerHour implements providers.Coster.
func (p *Provider) CostPerHour(spec providers.Spec) (float64, bool) {
	return pricePerCore * max(spec.Resources.CPUs, 1), true
}

// Dial implements providers.Dialer.
func (p *Provider) Dial(_ context.Context, id providers.ID, port int) (net.Conn, error) {
	b, err := p.live("dial", id)
	if err != nil {
		return nil, err
	}
	m, err := b.running("dial")
	if err != nil {
		return nil, err
	}
	c, err := m.Dial(port)
	return c, providers.E(providers.KindUnavailable, "dial", err)
}

// PullImage implements providers.ImageBuilder.
func (p *Provider) PullImage(ctx context.Context, ref string, _ io.Writer) (providers.Image, error) {
	var out providers.Image
	err := p.world.perform(ctx, OpBuild, ref, func(context.Context) (*box, error) {
		img, err := p.world.image(ref)
		if err == nil {
			out = img.public()
		}
		return nil, err
	})
	return out, err
}
