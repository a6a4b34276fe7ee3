// Package docker runs sandboxes as containers of a Docker Engine, through the
// Engine API alone: no docker command is ever started.
//
// A sandbox is one container. Its first process is harbor-inside, mounted read
// only (or copied, where the engine cannot see this host's files); it starts the
// image's own entrypoint and carries everything else over one exec stream, see
// package inside.
//
// This is the only package that imports the Docker client and BuildKit.
package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/client"
	lru "github.com/hashicorp/golang-lru/v2"

	"harborgate/providers"
)

// Type is the driver's name in configurations.
const Type = "docker"

// MinAPI is the oldest Engine API that works (Engine 20.10).
const MinAPI = "1.41"

// Options configure a Provider. The zero value uses the engine of the
// environment: DOCKER_HOST, the current docker context, the default socket.
type Options struct {
	Name    string // configured name; "" is "docker"
	Host    string // "unix:///…" or "tcp://…"; "" asks the environment
	Context string // docker context; "" is the current one
	TLSDir  string // directory with ca.pem, cert.pem, key.pem

	// HelperDir holds harbor-inside-linux-ARCH for each architecture.
	HelperDir string
	// CacheDir is where the helper is kept under its content's name, so that a
	// new version of harbor does not disturb running sandboxes.
	CacheDir string

	Logger *slog.Logger
}

// Provider is a Docker Engine. Create it with New, use it from many goroutines.
type Provider struct {
	name   string
	log    *slog.Logger
	engine engine
	helper *helper

	configs *lru.Cache[string, imageConfig] // by content id, which never changes

	mu    sync.Mutex // guards facts
	facts *facts

	late  sync.WaitGroup  // creates whose answer is still awaited after a cancel
	alive context.Context // of what nobody waits for any more; ends with Close
	end   context.CancelFunc
}

// facts are what the engine says about itself, asked once.
type facts struct {
	arch     string
	buildKit bool
	loadsAll bool // an image that is loaded must bring all of its layers
	size     providers.Resources
}

// New connects nothing yet: the first call does.
func New(o Options) (*Provider, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Name == "" {
		o.Name = Type
	}
	opts, err := endpoint(o)
	if err != nil {
		return nil, err
	}
	cli, err := client.NewClientWithOpts(append(opts, client.WithAPIVersionNegotiation())...)
	if err != nil {
		return nil, providers.Errorf(providers.KindInvalid, "open", "docker engine: %w", err)
	}
	configs, err := lru.New[string, imageConfig](1024)
	if err != nil {
		return nil, providers.E(providers.KindInternal, "open", err)
	}
	for _, dir := range []*string{&o.HelperDir, &o.CacheDir} {
		if *dir == "" {
			continue
		}
		if *dir, err = filepath.Abs(*dir); err != nil { // the engine mounts from there
			return nil, providers.E(providers.KindInternal, "open", err)
		}
	}
	p := &Provider{
		name: o.Name, log: o.Logger, engine: cli, configs: configs,
		helper: &helper{dir: o.HelperDir, cache: o.CacheDir},
	}
	p.alive, p.end = context.WithCancel(context.Background())
	return p, nil
}

// Info describes the driver; the engine is not asked.
func (p *Provider) Info() providers.Info {
	return providers.Info{Name: p.name, Type: Type, Can: providers.Capabilities{
		Sources:  []providers.SourceKind{providers.SourceImage, providers.SourceSnapshot},
		Networks: []providers.NetworkMode{providers.NetworkPublic, providers.NetworkNone},
		CPU:      true, Memory: true, PIDs: true,
		Mounts: true, Users: true, TTY: true,
		Snapshots: true, Builds: true, Sizes: true,
	}}
}

// Check asks whether the engine answers, learns what it is the first time, and
// finds harbor-inside for it.
func (p *Provider) Check(ctx context.Context) error {
	if _, err := p.engine.Ping(ctx); err != nil && ctx.Err() == nil {
		return p.fail("check", "", unreachable(err, p.engine.DaemonHost()))
	}
	f, err := p.ask(ctx)
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return err
	}
	if _, err := p.helper.find(f.arch); err != nil {
		return p.fail("check", "", err)
	}
	return nil
}

// Size is the engine's host: its cores and memory.
func (p *Provider) Size(ctx context.Context) (providers.Resources, error) {
	f, err := p.ask(ctx)
	if err != nil {
		return providers.Resources{}, err
	}
	return f.size, nil
}

// Close waits for creates that were cancelled and are still being cleaned up, but
// not long for an engine that does not answer.
func (p *Provider) Close() error {
	t := time.AfterFunc(hurry, p.end)
	p.late.Wait()
	t.Stop()
	p.end()
	return p.engine.Close()
}

// ask learns about the engine once; a failure is asked again next time.
func (p *Provider) ask(ctx context.Context) (*facts, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.facts != nil {
		return p.facts, nil
	}
	ping, err := p.engine.Ping(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, p.fail("check", "", unreachable(err, p.engine.DaemonHost()))
	}
	if older(ping.APIVersion, MinAPI) {
		return nil, providers.Errorf(providers.KindUnsupported, "check",
			"the engine at %s speaks API %s, at least %s (Docker 20.10) is needed: update Docker", p.engine.DaemonHost(), ping.APIVersion, MinAPI)
	}
	info, err := p.engine.Info(ctx)
	if err != nil {
		return nil, p.fail("check", "", cmp.Or(ctx.Err(), err)) // the client hides a context's end here
	}
	if info.OSType != "linux" {
		return nil, providers.Errorf(providers.KindUnsupported, "check",
			"the engine at %s runs %s containers, only linux is supported: switch it to Linux containers", p.engine.DaemonHost(), info.OSType)
	}
	p.facts = &facts{
		arch:     goArch(info.Architecture),
		buildKit: ping.BuilderVersion != "1",
		loadsAll: slices.ContainsFunc(info.DriverStatus, func(row [2]string) bool { return strings.HasPrefix(row[1], "io.containerd.snapshotter") }),
		size:     providers.Resources{CPUs: float64(info.NCPU), MemoryMiB: info.MemTotal >> 20},
	}
	return p.facts, nil
}

func unreachable(err error, host string) error {
	if client.IsErrConnectionFailed(err) || errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "deadline exceeded") {
		return &providers.Error{Kind: providers.KindUnavailable, Err: fmt.Errorf(
			"no Docker engine answers at %s: start it, or point DOCKER_HOST or a docker context at one that runs (%w)", host, err)}
	}
	return err
}

// older compares API versions like "1.41".
func older(a, b string) bool {
	var a1, a2, b1, b2 int
	_, errA := fmt.Sscanf(a, "%d.%d", &a1, &a2)
	_, errB := fmt.Sscanf(b, "%d.%d", &b1, &b2)
	return errA == nil && errB == nil && (a1 < b1 || a1 == b1 && a2 < b2)
}

// goArch turns the kernel's name of an architecture into Go's.
func goArch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	default:
		return machine
	}
}
