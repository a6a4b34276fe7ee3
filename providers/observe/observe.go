// Package observe tells a log and a callback about every call to a provider and
// its sandboxes. It is the outermost decorator:
//
//	observe.New(retry.New(limit.New(driver, …), …), …)
//
// It does no more than that. Commands, environment,
// standard streams and file contents are never logged.
package observe

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"harborgate/providers"
)

// Call is one finished call.
type Call struct {
	Provider string // configured name
	Op       string // "create", "exec", …
	ID       string // of the sandbox; for create its name when there is no id
	Start    time.Time
	Took     time.Duration
	Err      error // nil when it succeeded
}

// Outcome is "ok", "canceled", or the error's kind: a label for metrics with few
// values.
func (c Call) Outcome() string {
	switch {
	case c.Err == nil:
		return "ok"
	case errors.Is(c.Err, context.Canceled):
		return "canceled"
	}
	return providers.KindOf(c.Err).String()
}

// Options configure New.
type Options struct {
	Logger *slog.Logger // nil logs nothing
	// OnCall is told about every call after it ended, in the goroutine of the
	// call. Nil is nobody.
	OnCall func(Call)
}

// Provider is the decorated provider.
type Provider struct {
	providers.Provider
	name   string
	log    *slog.Logger
	onCall func(Call)
}

// New decorates p.
func New(p providers.Provider, o Options) *Provider {
	out := &Provider{Provider: p, name: p.Info().Name, log: o.Logger, onCall: o.OnCall}
	if out.log == nil {
		out.log = slog.New(slog.DiscardHandler)
	}
	if out.onCall == nil {
		out.onCall = func(Call) {}
	}
	return out
}

// Unwrap returns the decorated provider, for providers.As.
func (p *Provider) Unwrap() providers.Provider { return p.Provider }

// note reports a call and returns its error with the provider's name in it.
func (p *Provider) note(ctx context.Context, op, id string, start time.Time, err error) error {
	var named *providers.Error
	if e, ok := err.(*providers.Error); ok && e.Provider == "" { //nolint:errorlint // what is wrapped deeper keeps its text
		clone := *e
		named = &clone
		named.Provider = p.name
		err = named
	}
	c := Call{Provider: p.name, Op: op, ID: id, Start: start, Took: time.Since(start), Err: err}
	attrs := []slog.Attr{
		slog.String("provider", c.Provider), slog.String("op", c.Op), slog.String("sandbox", c.ID),
		slog.Float64("dur_ms", float64(c.Took)/float64(time.Millisecond)),
	}
	level := slog.LevelDebug
	if err != nil {
		attrs = append(attrs, slog.String("kind", c.Outcome()), slog.Any("err", err))
	}
	if err != nil && c.Outcome() != "canceled" {
		level = slog.LevelWarn
	}
	p.log.LogAttrs(ctx, level, "provider call", attrs...)
	p.onCall(c)
	return err
}

// Check implements providers.Provider.
func (p *Provider) Check(ctx context.Context) error {
	start := time.Now()
	return p.note(ctx, "check", "", start, p.Provider.Check(ctx))
}

// Create implements providers.Provider.
func (p *Provider) Create(ctx context.Context, spec providers.Spec) (providers.Sandbox, error) {
	start := time.Now()
	sb, err := p.Provider.Create(ctx, spec)
	if err != nil {
		return nil, p.note(ctx, "create", spec.Name, start, err)
	}
	_ = p.note(ctx, "create", string(sb.ID()), start, nil)
	return &sandbox{sb, p}, nil
}

// List implements providers.Provider.
func (p *Provider) List(ctx context.Context, sel providers.Selector) ([]providers.Resource, error) {
	start := time.Now()
	list, err := p.Provider.List(ctx, sel)
	return list, p.note(ctx, "list", "", start, err)
}

// Destroy implements providers.Provider.
func (p *Provider) Destroy(ctx context.Context, id providers.ID) error {
	start := time.Now()
	return p.note(ctx, "destroy", string(id), start, p.Provider.Destroy(ctx, id))
}

// sandbox is the decorated sandbox.
type sandbox struct {
	providers.Sandbox
	p *Provider
}

func (s *sandbox) note(ctx context.Context, op string, start time.Time, err error) error {
	return s.p.note(ctx, op, string(s.ID()), start, err)
}

func (s *sandbox) Exec(ctx context.Context, cmd providers.Command) (providers.ExitStatus, error) {
	start := time.Now()
	status, err := s.Sandbox.Exec(ctx, cmd)
	return status, s.note(ctx, "exec", start, err)
}

func (s *sandbox) Upload(ctx context.Context, tar io.Reader, dest string) error {
	start := time.Now()
	return s.note(ctx, "upload", start, s.Sandbox.Upload(ctx, tar, dest))
}

// Download is noted when the stream is closed: only then is it known how it
// went.
func (s *sandbox) Download(ctx context.Context, path string) (io.ReadCloser, error) {
	start := time.Now()
	stream, err := s.Sandbox.Download(ctx, path)
	if err != nil {
		return nil, s.note(ctx, "download", start, err)
	}
	return &download{ReadCloser: stream, done: func(err error) { _ = s.note(ctx, "download", start, err) }}, nil
}

func (s *sandbox) Expose(ctx context.Context, handle func(net.Conn)) (string, func() error, error) {
	start := time.Now()
	url, closer, err := s.Sandbox.Expose(ctx, handle)
	return url, closer, s.note(ctx, "expose", start, err)
}

func (s *sandbox) Destroy(ctx context.Context) error {
	start := time.Now()
	return s.note(ctx, "destroy", start, s.Sandbox.Destroy(ctx))
}

// download remembers the error that its stream ended with.
type download struct {
	io.ReadCloser
	once sync.Once
	done func(error)
	err  error
}

func (d *download) Read(b []byte) (int, error) {
	n, err := d.ReadCloser.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		d.err = err
	}
	return n, err
}

func (d *download) Close() error {
	err := d.ReadCloser.Close()
	d.once.Do(func() { d.done(errors.Join(d.err, err)) })
	return err
}
