// Command bench measures the figures that this project promises and compares
// them with their goals: one line each, exit 1 when one is short. It needs the
// built programs in bin/ and a Docker Engine with debian:bookworm-slim.
//
// Machines are noisy: what can be is a ratio of two things measured in turn in
// the same run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// image is what all benchmark sandboxes start from.
const image = "debian:bookworm-slim"

// figure is one measured number and what it should be.
type figure struct {
	name  string
	value float64
	goal  float64
	most  bool // the goal is an upper bound
	unit  string
}

func (f figure) ok() bool {
	if f.most {
		return f.value <= f.goal
	}
	return f.value >= f.goal
}

func (f figure) String() string {
	sign, word := "≥", "ok"
	if f.most {
		sign = "≤"
	}
	if !f.ok() {
		word = "short"
	}
	return fmt.Sprintf("%-48s %10.3f %-9s %s %-8g %s", f.name, f.value, f.unit, sign, f.goal, word)
}

// bench is one group of figures.
type bench struct {
	name string
	run  func(ctx context.Context, w *workbench) ([]figure, error)
}

var benches = []bench{
	{"startup", benchStartup},
	{"parse", benchParse},
	{"first-create", benchFirstCreate},
	{"trial", benchTrial},
	{"parallel", benchParallel},
	{"session", benchSession},
	{"teardown", benchTeardown},
	{"sweep", benchSweep},
	{"queue", benchQueue},
	{"shared", benchShared},
	{"daytona", benchDaytona},
	{"clouds", benchClouds},
	{"large-job", benchLargeJob},
	{"view", benchView},
	{"builds", benchBuilds},
	{"layer", benchLayer},
}

// workbench is where benchmarks work.
type workbench struct {
	bin  string // directory of the built programs
	work string // temporary directory
}

func (w *workbench) harbor() string { return filepath.Join(w.bin, "harbor") }

func main() {
	only := flag.String("only", "", "run only these, comma-separated")
	bin := flag.String("bin", "bin", "directory of the built programs")
	flag.Parse()
	short, err := run(*bin, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	if short {
		os.Exit(1)
	}
}

func run(bin, only string) (short bool, err error) {
	bin, err = filepath.Abs(bin)
	if err != nil {
		return false, err
	}
	work, err := os.MkdirTemp("", "harbor-bench-")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	w := &workbench{bin: bin, work: work}
	// The user's own state and cache stay out of it.
	for _, v := range []string{"XDG_STATE_HOME", "XDG_CACHE_HOME"} {
		if err := os.Setenv(v, filepath.Join(work, strings.ToLower(v))); err != nil {
			return false, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for _, b := range benches {
		if only != "" && !slices.Contains(strings.Split(only, ","), b.name) {
			continue
		}
		figures, err := b.run(ctx, w)
		if err != nil {
			return short, fmt.Errorf("%s: %w", b.name, err)
		}
		for _, f := range figures {
			fmt.Println(f)
			short = short || !f.ok()
		}
	}
	return short, nil
}

func median(xs []float64) float64 {
	s := slices.Sorted(slices.Values(xs))
	if len(s)%2 == 1 {
		return s[len(s)/2]
	}
	return (s[len(s)/2-1] + s[len(s)/2]) / 2
}
