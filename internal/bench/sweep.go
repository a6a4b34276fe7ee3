package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"harborgate/providers"
	"harborgate/providers/docker"
)

// benchSweep leaves a hundred running sandboxes as a dead process would, and times
// their removal.
func benchSweep(ctx context.Context, w *workbench) ([]figure, error) {
	const leftovers, parallel = 100, 4
	host, err := w.host(ctx)
	if err != nil {
		return nil, err
	}
	p, err := docker.New(docker.Options{HelperDir: w.bin, CacheDir: filepath.Join(w.work, "cache")})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	var g errgroup.Group
	g.SetLimit(parallel)
	for i := range leftovers {
		g.Go(func() error {
			_, err := p.Create(ctx, providers.Spec{
				Name: providers.Name("sweep", w.work, strconv.Itoa(i)), Source: providers.Source{Image: image},
				Labels: providers.Labels{Owner: "dead", Host: host, Expires: time.Now().Add(time.Hour)},
			})
			return err
		})
	}
	made := g.Wait()
	begun := time.Now()
	out, err := exec.CommandContext(context.WithoutCancel(ctx), w.harbor(), "cleanup").CombinedOutput()
	took := time.Since(begun)
	if made != nil {
		return nil, made
	}
	if err == nil && !strings.Contains(string(out), fmt.Sprintf("removed %d sandboxes\n", leftovers)) {
		err = errors.New("it does not say that it removed all")
	}
	if err != nil {
		return nil, fmt.Errorf("cleanup: %w\n%s", err, out)
	}
	return []figure{{"sweep of 100 running leftovers", took.Seconds(), 10, true, "s"}}, nil
}

// host is the id of this host in the benchmark's own state.
func (w *workbench) host(ctx context.Context) (string, error) {
	if err := exec.CommandContext(ctx, w.harbor(), "cleanup", "--dry-run").Run(); err != nil {
		return "", err
	}
	b, err := os.ReadFile(filepath.Join(os.Getenv("XDG_STATE_HOME"), "harborgate", "host"))
	return strings.TrimSpace(string(b)), err
}
