package docker_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"harborgate/providers"
	"harborgate/providers/docker"
	"harborgate/providers/inside/insidetest"
	"harborgate/providers/providertest"
)

// image is what sandboxes start from; scripts/base-image.sh makes it available.
const image = "debian:bookworm-slim"

// open returns a provider on the engine of the environment.
func open(t testing.TB) func() (providers.Provider, error) {
	helper := t.TempDir()
	name := filepath.Join(helper, "harbor-inside-linux-"+runtime.GOARCH)
	if err := os.Symlink(insidetest.Build(t), name); err != nil {
		t.Fatal(err)
	}
	return func() (providers.Provider, error) {
		return docker.New(docker.Options{HelperDir: helper, Logger: slog.New(slog.DiscardHandler)})
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	opener := open(t)
	providertest.Run(t, providertest.Harness{
		Open: opener,
		Spec: func() providers.Spec {
			return providers.Spec{
				Source: providers.Source{Image: image},
				Labels: providers.Labels{Owner: "conformance", Host: "conformance", Expires: time.Now().Add(time.Hour).Truncate(time.Second)},
			}
		},
		Sources: providertest.Sources{
			Service: withEntrypoint(t, opener, "service", providertest.ServiceEntrypoint),
			Failing: withEntrypoint(t, opener, "failing", providertest.FailingEntrypoint),
			Late:    withEntrypoint(t, opener, "late", providertest.LateEntrypoint),
			Unknown: providers.Source{Image: "sha256:" + fmt.Sprintf("%064d", 0)},
		},
		HostAddrs: hostAddrs(t),
	})
}

// withEntrypoint builds an image with a script as its entrypoint.
func withEntrypoint(t *testing.T, opener func() (providers.Provider, error), name, script string) providers.Source {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "entrypoint.sh"), script)
	write(t, filepath.Join(dir, "Dockerfile"), "FROM "+image+"\nCOPY --chmod=755 entrypoint.sh /entrypoint.sh\nENTRYPOINT [\"/entrypoint.sh\"]\n")
	p, err := opener()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	img, err := p.(providers.ImageBuilder).BuildImage(ctx, providers.Build{ContextDir: dir, Tag: "harborgate/conformance-" + name + ":test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p, err := opener()
		if err != nil {
			t.Error(err)
			return
		}
		defer p.Close()
		if err := p.(providers.ImageBuilder).RemoveImage(context.WithoutCancel(ctx), img.ID); err != nil {
			t.Error(err)
		}
	})
	return providers.Source{Image: img.ID}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// hostAddrs listens on all of this host's addresses.
func hostAddrs(t *testing.T) []string {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() {
			out = append(out, net.JoinHostPort(ip.IP.String(), fmt.Sprint(port)))
		}
	}
	return out
}
