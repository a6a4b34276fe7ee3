// Command proxy measures the auth proxy beside nginx and compares the figures with
// their goals: one line each, exit 1 when one is short.
//
// Client, proxy and mock provider are processes of this program, started by it, on
// one loopback. The three ways (direct, nginx, ours) take turns in short rounds,
// and what is compared are ratios and differences within a round, because machines
// are noisy. All features of the proxy are on: audit on the disk, a journal of
// budgets, limits, metering, metrics; nginx keeps an access log.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string) int {
	roles := map[string]func(context.Context, []string) error{"mock": runMock, "proxy": runProxy, "client": runClient}
	if len(args) > 0 && roles[args[0]] != nil {
		if err := roles[args[0]](ctx, args[1:]); err != nil {
			fmt.Fprintf(os.Stderr, "bench %s: %v\n", args[0], err)
			return 2
		}
		return 0
	}
	figures, err := bench(ctx, args)
	short := false
	for _, f := range figures {
		fmt.Println(f)
		short = short || !f.ok()
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 2
	case short:
		return 1
	}
	return 0
}

// figure is one measured number, what it should be, and nginx's where it has one.
type figure struct {
	name  string
	value float64
	goal  float64
	most  bool // the goal is an upper bound
	unit  string
	nginx string
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
	return fmt.Sprintf("%-46s %9.3f %-7s %s %-6g %-6s nginx %s", f.name, f.value, f.unit, sign, f.goal, word, f.nginx)
}

// bench runs all measurements.
func bench(ctx context.Context, args []string) ([]figure, error) {
	flags := flag.NewFlagSet("bench-proxy", flag.ContinueOnError)
	nginx := flags.String("nginx", "nginx", "the nginx to compare with")
	bin := flags.String("bin", "bin", "directory of the built programs")
	rounds := flags.Int("rounds", 6, "rounds of each measurement")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "harbor-bench-proxy-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	s, err := newStage(ctx, work, *nginx, *bin)
	if err != nil {
		return nil, err
	}
	figures, err := s.all(ctx, *rounds)
	return figures, errors.Join(err, s.close())
}

func median(xs []float64) float64 {
	s := slices.Sorted(slices.Values(xs))
	if len(s) == 0 {
		return 0
	}
	if len(s)%2 == 1 {
		return s[len(s)/2]
	}
	return (s[len(s)/2-1] + s[len(s)/2]) / 2
}
