package docker

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	bkclient "github.com/moby/buildkit/client"
	"github.com/moby/buildkit/session"
	"github.com/moby/buildkit/util/progress/progressui"
	"github.com/tonistiigi/fsutil"
	"golang.org/x/sync/errgroup"

	"harborgate/providers"
)

// logTail is how much of a failing build's log its error carries.
const logTail = 4 << 10

// BuildImage builds with the engine's BuildKit, or with its classic builder
// where it has none.
func (p *Provider) BuildImage(ctx context.Context, b providers.Build) (providers.Image, error) {
	f, err := p.ask(ctx)
	if err != nil {
		return providers.Image{}, err
	}
	if b.Dockerfile == "" {
		b.Dockerfile = "Dockerfile"
	}
	if _, err := os.Stat(filepath.Join(b.ContextDir, b.Dockerfile)); err != nil {
		return providers.Image{}, providers.Errorf(providers.KindInvalid, "build", "no Dockerfile to build: %w", err)
	}
	tail := &tailBuffer{max: logTail}
	log := io.Writer(tail)
	if b.Progress != nil {
		log = io.MultiWriter(tail, b.Progress)
	}
	build := p.buildClassic
	if f.buildKit {
		build = p.buildWithKit
	}
	if err := build(ctx, b, log); err != nil {
		return providers.Image{}, p.buildFailed(ctx, b, err, tail.String())
	}
	return p.InspectImage(ctx, b.Tag)
}

// buildFailed tells the Dockerfile's fault from the engine's.
func (p *Provider) buildFailed(ctx context.Context, b providers.Build, err error, tail string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	kind := kindOf(err)
	if kind == providers.KindInternal || kind == providers.KindNotFound {
		kind = providers.KindInvalid
	}
	if tail != "" {
		err = fmt.Errorf("%w\n%s", err, tail)
	}
	return p.fail("build", b.Tag, &providers.Error{Kind: kind, Err: fmt.Errorf("docker build of %s failed: %w", filepath.Join(b.ContextDir, b.Dockerfile), err)})
}

func (p *Provider) buildWithKit(ctx context.Context, b providers.Build, log io.Writer) error {
	err := p.solve(ctx, b, log, false)
	if err != nil && ctx.Err() == nil && frontendMissing(err) {
		// "# syntax=" names an image that is not to be had here. The engine's own
		// frontend understands nearly all such files.
		fmt.Fprintf(log, "harbor: the Dockerfile's syntax image is not available (%v), using the engine's own frontend\n", err)
		err = p.solve(ctx, b, log, true)
	}
	return err
}

func frontendMissing(err error) bool {
	msg := err.Error()
	return strings.Contains(msg, "docker/dockerfile") && strings.Contains(msg, "resolve")
}

func (p *Provider) solve(ctx context.Context, b providers.Build, log io.Writer, ownFrontend bool) error {
	c, err := bkclient.New(ctx, "",
		bkclient.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return p.engine.DialHijack(ctx, "/grpc", "h2c", nil)
		}),
		bkclient.WithSessionDialer(func(ctx context.Context, proto string, meta map[string][]string) (net.Conn, error) {
			return p.engine.DialHijack(ctx, "/session", proto, meta)
		}))
	if err != nil {
		return err
	}
	defer c.Close()
	opt, err := solveOpt(b, ownFrontend)
	if err != nil {
		return err
	}
	display, err := progressui.NewDisplay(log, progressui.PlainMode)
	if err != nil {
		return err
	}
	status := make(chan *bkclient.SolveStatus)
	var g errgroup.Group
	g.Go(func() error {
		_, err := c.Solve(ctx, nil, opt, status)
		return err
	})
	g.Go(func() error {
		// The display ends when Solve closes the channel, never before.
		_, err := display.UpdateFrom(context.WithoutCancel(ctx), status)
		return err
	})
	return g.Wait()
}

func solveOpt(b providers.Build, ownFrontend bool) (bkclient.SolveOpt, error) {
	context, err := fsutil.NewFS(b.ContextDir)
	if err != nil {
		return bkclient.SolveOpt{}, err
	}
	attrs := map[string]string{"filename": b.Dockerfile}
	for k, v := range b.Labels {
		attrs["label:"+k] = v
	}
	if b.NoCache {
		attrs["no-cache"] = ""
	}
	if ownFrontend {
		attrs["cmdline"] = "docker/dockerfile" // says: already inside the frontend that the file asks for
	}
	return bkclient.SolveOpt{
		Exports:       []bkclient.ExportEntry{{Type: "moby", Attrs: map[string]string{"name": b.Tag}}},
		LocalMounts:   map[string]fsutil.FS{"context": context, "dockerfile": context},
		Frontend:      "dockerfile.v0",
		FrontendAttrs: attrs,
		Session:       []session.Attachable{registryLogins()},
	}, nil
}

// tailBuffer keeps the last max bytes.
type tailBuffer struct {
	max int
	buf []byte
}

func (t *tailBuffer) Write(b []byte) (int, error) {
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - 2*t.max; over > 0 {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.max:]...)
	}
	return len(b), nil
}

func (t *tailBuffer) String() string {
	b := t.buf[max(0, len(t.buf)-t.max):]
	return strings.TrimSpace(strings.ToValidUTF8(string(b), "\uFFFD"))
}
