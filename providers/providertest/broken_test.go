package providertest_test

import (
	"context"
	"io"
	"net"
	"sync/atomic"

	"harborgate/providers"
)

// broken is a provider with some of its calls replaced. A nil hook is the call
// itself.
type broken struct {
	providers.Provider
	b breaks
}

// breaks are the hooks. Each gets what it replaces.
type breaks struct {
	info     func(providers.Info) providers.Info
	check    func(ctx context.Context, p providers.Provider) error
	create   func(ctx context.Context, p providers.Provider, s providers.Spec) (providers.Sandbox, error)
	list     func(ctx context.Context, p providers.Provider, sel providers.Selector) ([]providers.Resource, error)
	destroy  func(ctx context.Context, p providers.Provider, id providers.ID) error
	exec     func(ctx context.Context, sb *brokenBox, cmd providers.Command) (providers.ExitStatus, error)
	upload   func(ctx context.Context, sb *brokenBox, tar io.Reader, dest string) error
	download func(ctx context.Context, sb *brokenBox, path string) (io.ReadCloser, error)
	expose   func(ctx context.Context, sb *brokenBox, handle func(net.Conn)) (string, func() error, error)
	remove   func(ctx context.Context, sb *brokenBox) error

	// optional replaces optional interfaces; it is found before the provider's.
	optional func(p providers.Provider) providers.Provider
}

func breakIt(p providers.Provider, b breaks) providers.Provider {
	if b.optional != nil {
		p = b.optional(p)
	}
	return &broken{p, b}
}

func (p *broken) Unwrap() providers.Provider { return p.Provider }

func (p *broken) Info() providers.Info {
	if p.b.info != nil {
		return p.b.info(p.Provider.Info())
	}
	return p.Provider.Info()
}

func (p *broken) Check(ctx context.Context) error {
	if p.b.check != nil {
		return p.b.check(ctx, p.Provider)
	}
	return p.Provider.Check(ctx)
}

func (p *broken) Create(ctx context.Context, s providers.Spec) (providers.Sandbox, error) {
	create := p.b.create
	if create == nil {
		create = func(ctx context.Context, p providers.Provider, s providers.Spec) (providers.Sandbox, error) {
			return p.Create(ctx, s)
		}
	}
	sb, err := create(ctx, p.Provider, s)
	if err != nil {
		return nil, err
	}
	return &brokenBox{Sandbox: sb, spec: s, b: p.b}, nil
}

func (p *broken) List(ctx context.Context, sel providers.Selector) ([]providers.Resource, error) {
	if p.b.list != nil {
		return p.b.list(ctx, p.Provider, sel)
	}
	return p.Provider.List(ctx, sel)
}

func (p *broken) Destroy(ctx context.Context, id providers.ID) error {
	if p.b.destroy != nil {
		return p.b.destroy(ctx, p.Provider, id)
	}
	return p.Provider.Destroy(ctx, id)
}

// brokenBox is a sandbox of a broken provider. The fields are for hooks that
// remember something.
type brokenBox struct {
	providers.Sandbox
	spec providers.Spec
	b    breaks

	used      bool
	destroyed atomic.Bool
	removals  int
	closers   []func() error
}

func (sb *brokenBox) Exec(ctx context.Context, cmd providers.Command) (providers.ExitStatus, error) {
	if sb.b.exec != nil {
		return sb.b.exec(ctx, sb, cmd)
	}
	return sb.Sandbox.Exec(ctx, cmd)
}

func (sb *brokenBox) Upload(ctx context.Context, tar io.Reader, dest string) error {
	if sb.b.upload != nil {
		return sb.b.upload(ctx, sb, tar, dest)
	}
	return sb.Sandbox.Upload(ctx, tar, dest)
}

func (sb *brokenBox) Download(ctx context.Context, path string) (io.ReadCloser, error) {
	if sb.b.download != nil {
		return sb.b.download(ctx, sb, path)
	}
	return sb.Sandbox.Download(ctx, path)
}

func (sb *brokenBox) Expose(ctx context.Context, handle func(net.Conn)) (string, func() error, error) {
	if sb.b.expose != nil {
		return sb.b.expose(ctx, sb, handle)
	}
	return sb.Sandbox.Expose(ctx, handle)
}

func (sb *brokenBox) Destroy(ctx context.Context) error {
	if sb.b.remove != nil {
		return sb.b.remove(ctx, sb)
	}
	return sb.Sandbox.Destroy(ctx)
}
