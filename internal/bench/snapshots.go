package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"harborgate/providers/docker/rawcycle"
	"harborgate/trials"
	"harborgate/trials/results"
)

// benchBuilds counts the builds of fifty trials of five environments that are not there,
// by two processes at once.
func benchBuilds(ctx context.Context, w *workbench) ([]figure, error) {
	const environments, attempts = 5, "5"
	dir := filepath.Join(w.work, "five")
	for i := range environments {
		dockerfile := fmt.Sprintf("FROM %s\nRUN echo %d of %s > /made\n", image, i, w.work)
		if err := writeTask(filepath.Join(dir, fmt.Sprintf("env-%d", i)), dockerfile, ""); err != nil {
			return nil, err
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	jobs := []string{"five-a", "five-b"}
	for _, job := range jobs {
		g.Go(func() error {
			_, err := w.run(gctx, "-p", dir, "--job-name", job, "-q", "-n", "4", "-k", attempts)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	n, err := w.builds(jobs...)
	return []figure{{"50 trials, 5 environments, 2 processes: builds ≠ 5", math.Abs(float64(n - environments)), 0, true, "builds"}}, err
}

// builds counts what jobs made, and had not found.
func (w *workbench) builds(jobs ...string) (n int, _ error) {
	for _, job := range jobs {
		f, err := os.Open(filepath.Join(w.work, "jobs", job, results.EventsFile))
		if err != nil {
			return 0, err
		}
		defer f.Close()
		in := bufio.NewScanner(f)
		for in.Scan() {
			var e struct {
				Type trials.EventType `json:"type"`
				Data struct {
					Cached *bool `json:"cached"`
				} `json:"data"`
			}
			if err := json.Unmarshal(in.Bytes(), &e); err != nil {
				return 0, err
			}
			if e.Type == trials.EventBuildEnd && (e.Data.Cached == nil || !*e.Data.Cached) {
				n++
			}
		}
		if err := in.Err(); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// benchLayer times how soon an agent that is installed inside is ready in later runs of
// a task, beside raw cycles, in turn. The first run needs registries.
func benchLayer(ctx context.Context, w *workbench) ([]figure, error) {
	const rounds = 5
	dir, err := w.task("layer", "FROM "+image+"\n")
	if err != nil {
		return nil, err
	}
	if os.Getenv("OPENAI_API_KEY") == "" { // nobody is asked anything
		if err := os.Setenv("OPENAI_API_KEY", "of-nobody"); err != nil {
			return nil, err
		}
	}
	install := func(job string) (time.Duration, error) {
		_, ungraded := w.run(ctx, "-p", dir, "--job-name", job, "-q", "-y", "-a", "pi", "--ak", "install=inside", "-m", "openai/gpt-5", "--install-only")
		took, err := w.agentReady(job)
		if err != nil {
			err = errors.Join(err, ungraded)
		}
		return took, err
	}
	if _, err := install("layer-first"); err != nil {
		return nil, err
	}
	raw, err := rawcycle.Open(image)
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	var ready, cycles []float64
	jobs := make([]string, rounds)
	for i := range jobs {
		jobs[i] = fmt.Sprintf("layer-%d", i)
		took, err := install(jobs[i])
		if err != nil {
			return nil, err
		}
		begun := time.Now()
		if err := raw.Cycle(ctx); err != nil {
			return nil, err
		}
		ready, cycles = append(ready, took.Seconds()), append(cycles, time.Since(begun).Seconds())
	}
	n, err := w.builds(jobs...)
	fmt.Printf("# installed agent ready after %.0f ms, raw cycle %.0f ms\n", 1000*median(ready), 1000*median(cycles))
	return []figure{
		{"second run, agent installed inside: builds", float64(n), 0, true, "builds"},
		{"second run, agent ready, beyond a raw cycle", median(ready) - median(cycles), 0.3, true, "s"},
	}, err
}

// agentReady is the time from a trial's first step to the end of its agent's set-up.
func (w *workbench) agentReady(job string) (time.Duration, error) {
	dirs, err := results.TrialDirs(filepath.Join(w.work, "jobs", job))
	if err != nil {
		return 0, err
	}
	if len(dirs) != 1 {
		return 0, fmt.Errorf("job %s has %d trials", job, len(dirs))
	}
	r, err := results.ReadTrialResult(dirs[0])
	if err != nil {
		return 0, err
	}
	if r.AgentSetup == nil || r.ExceptionInfo != nil {
		return 0, fmt.Errorf("the agent was not set up: %+v", r.ExceptionInfo)
	}
	return r.AgentSetup.FinishedAt.Sub(r.StartedAt.Time), nil
}
