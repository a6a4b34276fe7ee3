package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"harborgate/providers/fake/plane"
)

// runProvider serves the control plane of a simulated provider until ctx ends.
func runProvider(ctx context.Context, args []string, out, errs io.Writer) error {
	flags := flag.NewFlagSet("harbor-sim provider", flag.ContinueOnError)
	flags.SetOutput(errs)
	config := flags.String("config", "", "YAML `file` with limits, rates, latencies and faults")
	listen := flags.String("listen", "127.0.0.1:0", "`address` to listen on, unix:/path or host:port")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := plane.ReadFile(*config)
	if err != nil {
		return err
	}
	p, err := plane.New(c, nil)
	if err != nil {
		return err
	}
	l, err := plane.Listen(ctx, *listen)
	if err != nil {
		return err
	}
	address := "http://" + l.Addr().String()
	if strings.HasPrefix(*listen, "unix:") {
		address = *listen
	}
	return serve(ctx, l, address, plane.Handler(p), out)
}

var errAsk = errors.New("usage: harbor-sim ask ADDRESS counters|down|up")

// runAsk asks a control plane for its counters, or brings it down or up.
func runAsk(ctx context.Context, args []string, out, _ io.Writer) error {
	if len(args) != 2 {
		return errAsk
	}
	c, err := plane.Dial(args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	switch args[1] {
	case "counters":
		return printCounters(ctx, c, out)
	case "down":
		return c.Inject(ctx, plane.Fault{Effect: plane.Down})
	case "up":
		return c.Heal(ctx)
	}
	return fmt.Errorf("%q is not known: %w", args[1], errAsk)
}

func printCounters(ctx context.Context, c *plane.Client, out io.Writer) error {
	counters, err := c.Counters(ctx)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(counters, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", text)
	return err
}
