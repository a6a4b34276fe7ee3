// Command harbor-sim runs what stands in for others in tests and demos, as
// processes. It is not released.
//
//	harbor-sim model [--listen 127.0.0.1:0] [--key KEY] [--script FILE] [--log FILE]
//	harbor-sim sink  --listen ADDRESS --log FILE
//	harbor-sim provider --config FILE [--listen unix:/PATH|HOST:PORT]
//	harbor-sim ask ADDRESS counters|down|up
//
// A provider is a control plane that harbor processes share, with
// options: {simulate_at: ADDRESS} of a provider of type fake; ask says what it has
// counted, brings it down and up again.
//
// A simulator prints one line, "listening ADDRESS", once it answers, and
// ends with SIGINT or SIGTERM.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run returns the exit code: 2 is a mistake in args.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	simulators := map[string]func(context.Context, []string, io.Writer, io.Writer) error{
		"model": runModel, "sink": runSink, "provider": runProvider, "ask": runAsk,
	}
	if len(args) == 0 || simulators[args[0]] == nil {
		fmt.Fprintln(errs, "usage: harbor-sim model|sink|provider|ask [flags]")
		return 2
	}
	if err := simulators[args[0]](ctx, args[1:], out, errs); err != nil {
		fmt.Fprintln(errs, "harbor-sim:", err)
		return 1
	}
	return 0
}
