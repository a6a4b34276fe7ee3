package limit

import (
	"context"
	"io"
	"net"

	"harborgate/providers"
)

// sandbox paces what happens inside one.
type sandbox struct {
	providers.Sandbox
	p *Provider
}

func (s *sandbox) Destroy(ctx context.Context) error {
	return s.p.call(ctx, "destroy", Deletes, func() error { return s.Sandbox.Destroy(ctx) })
}

func (s *sandbox) Exec(ctx context.Context, cmd providers.Command) (st providers.ExitStatus, err error) {
	err = s.inside(ctx, "exec", func() (err error) {
		st, err = s.Sandbox.Exec(ctx, cmd)
		return err
	})
	return st, err
}

func (s *sandbox) Upload(ctx context.Context, tar io.Reader, dest string) error {
	return s.inside(ctx, "upload", func() error { return s.Sandbox.Upload(ctx, tar, dest) })
}

func (s *sandbox) Download(ctx context.Context, path string) (tar io.ReadCloser, err error) {
	err = s.inside(ctx, "download", func() (err error) {
		tar, err = s.Sandbox.Download(ctx, path)
		return err
	})
	return tar, err
}

func (s *sandbox) Expose(ctx context.Context, handle func(net.Conn)) (url string, closer func() error, err error) {
	err = s.inside(ctx, "expose", func() (err error) {
		url, closer, err = s.Sandbox.Expose(ctx, handle)
		return err
	})
	return url, closer, err
}

// inside waits for a turn where commands have a pace, and else for nothing: a pause
// is no reason to stop what runs.
func (s *sandbox) inside(ctx context.Context, op string, f func() error) error {
	if s.p.o.Paces[Execs] == nil {
		return f()
	}
	return s.p.call(ctx, op, Execs, f)
}
