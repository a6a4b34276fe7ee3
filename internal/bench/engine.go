package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"harborgate/providers"
	"harborgate/providers/docker"
	"harborgate/providers/docker/rawcycle"
	"harborgate/trials"
)

func (w *workbench) task(name, dockerfile string) (string, error) {
	dir := filepath.Join(w.work, name)
	return dir, writeTask(dir, dockerfile, "")
}

// benchTrial compares a trial with a raw cycle, in turn, one at a time.
func benchTrial(ctx context.Context, w *workbench) ([]figure, error) {
	const rounds, each = 4, 5
	dir, err := w.task("one", "FROM "+image+"\n")
	if err != nil {
		return nil, err
	}
	raw, err := rawcycle.Open(image)
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	if _, err := w.run(ctx, "-p", dir, "--job-name", "trial-warm", "-q"); err != nil {
		return nil, err
	}
	var ratios, times []float64
	for i := range rounds {
		ours, err := w.run(ctx, "-p", dir, "--job-name", fmt.Sprintf("trial-%d", i), "-q", "-n", "1", "-k", strconv.Itoa(each))
		if err != nil {
			return nil, err
		}
		begun := time.Now()
		for range each {
			if err := raw.Cycle(ctx); err != nil {
				return nil, err
			}
		}
		theirs := time.Since(begun)
		ratios = append(ratios, ours.Seconds()/theirs.Seconds())
		times = append(times, ms(ours)/each)
	}
	fmt.Printf("# one trial takes %.0f ms here\n", median(times))
	return []figure{{"oracle trial / raw engine cycle", median(ratios), 0.75, true, "×"}}, nil
}

// benchParallel compares rates at eight in parallel.
func benchParallel(ctx context.Context, w *workbench) ([]figure, error) {
	const parallel, total, rounds = 8, 100, 2
	dir, err := w.task("many", "FROM "+image+"\n")
	if err != nil {
		return nil, err
	}
	raw, err := rawcycle.Open(image)
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	var ratios []float64
	for i := range rounds {
		ours, err := w.run(ctx, "-p", dir, "--job-name", fmt.Sprintf("many-%d", i), "-q", "-n", strconv.Itoa(parallel), "-k", strconv.Itoa(total))
		if err != nil {
			return nil, err
		}
		begun := time.Now()
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(parallel)
		for range total {
			g.Go(func() error { return raw.Cycle(gctx) })
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		theirs := time.Since(begun)
		fmt.Printf("# %d trials: %.2f/s, raw cycles: %.2f/s\n", total, total/ours.Seconds(), total/theirs.Seconds())
		ratios = append(ratios, theirs.Seconds()/ours.Seconds())
	}
	return []figure{{"100 trials, 8 at once / raw cycles", median(ratios), 1.2, false, "×"}}, nil
}

// benchSession times commands over an open session and weighs the helper.
func benchSession(ctx context.Context, w *workbench) ([]figure, error) {
	p, err := docker.New(docker.Options{HelperDir: w.bin, CacheDir: filepath.Join(w.work, "cache")})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	s, err := p.Create(ctx, providers.Spec{
		Name: providers.Name("bench", w.work), Source: providers.Source{Image: image}, Network: providers.Network{Mode: providers.NetworkNone},
		Labels: providers.Labels{Owner: "bench", Host: "bench", Expires: time.Now().Add(time.Hour)},
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Destroy(context.WithoutCancel(ctx)) }()
	idle, err := helperMemory(ctx, s, 0)
	if err != nil {
		return nil, err
	}
	var times []float64
	for range 200 {
		begun := time.Now()
		if st, err := s.Exec(ctx, providers.Command{Args: []string{"true"}}); err != nil || !st.OK() {
			return nil, fmt.Errorf("exec: %v %w", st, err)
		}
		times = append(times, ms(time.Since(begun)))
	}
	const parallel, total = 8, 400
	begun := time.Now()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for range total {
		g.Go(func() error {
			_, err := s.Exec(gctx, providers.Command{Args: []string{"true"}})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	rate := total / time.Since(begun).Seconds()
	busy, err := helperMemory(ctx, s, 19) // and the one that measures
	if err != nil {
		return nil, err
	}
	return []figure{
		{"command over a session, p50", median(times), 8, true, "ms"},
		{"commands at 8 in parallel", rate, 150, false, "per s"},
		{"harbor-inside idle", idle, 8, true, "MiB"},
		{"harbor-inside with 20 commands", busy, 16, true, "MiB"},
	}, nil
}

// settle is how long commands run before the helper is weighed.
const settle = 3 * time.Second

// helperMemory adds up the proportional memory of all harbor-inside processes
// while n commands run. The one that measures is counted too.
func helperMemory(ctx context.Context, s providers.Sandbox, n int) (float64, error) {
	cctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	ready := make(chan struct{}, n)
	for range n {
		wg.Go(func() {
			_, _ = s.Exec(cctx, providers.Command{Args: []string{"sh", "-c", "echo up; exec sleep 600"}, Stdout: signaller(ready)})
		})
	}
	for range n {
		<-ready
	}
	<-time.After(settle) // commands that run count, not those that start
	var out strings.Builder
	_, err := s.Exec(ctx, providers.Command{User: "root", Stdout: &out, Args: []string{"sh", "-c",
		`for p in /proc/[0-9]*; do case $(readlink $p/exe) in /.harbor/*) grep '^Pss:' $p/smaps_rollup;; esac; done`}})
	stop()
	wg.Wait()
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range strings.Lines(out.String()) {
		kb, err := strconv.ParseFloat(strings.Fields(line)[1], 64)
		if err != nil {
			return 0, err
		}
		sum += kb / 1024
	}
	return sum, nil
}

type signaller chan struct{}

func (s signaller) Write(b []byte) (int, error) {
	s <- struct{}{}
	return len(b), nil
}

// benchTeardown runs trials whose first process ignores SIGTERM, and looks when
// each sandbox went.
func benchTeardown(ctx context.Context, w *workbench) ([]figure, error) {
	dir, err := w.task("stubborn", "FROM "+image+"\nENTRYPOINT [\"sh\", \"-c\", \"trap '' TERM; while :; do sleep 1000; done\"]\n")
	if err != nil {
		return nil, err
	}
	if _, err := w.run(ctx, "-p", dir, "--job-name", "stubborn", "-q", "-n", "4", "-k", "30"); err != nil {
		return nil, err
	}
	worst, err := worstRemoval(filepath.Join(w.work, "jobs", "stubborn", "events.jsonl"))
	return []figure{{"teardown, first process ignores SIGTERM, worst", worst.Seconds(), 2, true, "s"}}, err
}

// worstRemoval is the longest time between a trial's end and its sandbox's.
func worstRemoval(path string) (worst time.Duration, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	ended := map[string]time.Time{}
	in := bufio.NewScanner(f)
	for in.Scan() {
		var e trials.Event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			return 0, err
		}
		switch e.Type {
		case trials.EventEnd:
			ended[e.Trial] = e.Time
		case trials.EventRemoved:
			worst = max(worst, e.Time.Sub(ended[e.Trial]))
			delete(ended, e.Trial)
		default:
		}
	}
	if len(ended) > 0 {
		return 0, fmt.Errorf("%d sandboxes were never removed", len(ended))
	}
	return worst, in.Err()
}
