package main

import (
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"harborgate/internal/app"
)

// drainLimit is how long open requests get to end, unless told otherwise. Service
// files allow a little more.
const drainLimit = 25 * time.Second

func newAuthServeCommand(e *env) *cobra.Command {
	var drain time.Duration
	var debug bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the auth proxy for all jobs and tools of this host, until it is told to stop",
		Long: `Run the auth proxy for all jobs and tools of this host.

Upstreams, budgets and addresses come from config.yaml. SIGHUP, and a change of that
file or of a key's file, has them read again; what cannot be read changes nothing.
SIGTERM and SIGINT let open requests end, within bounds. The log goes to standard
error, as JSON.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			level := slog.LevelInfo
			if debug {
				level = slog.LevelDebug
			}
			log := slog.New(slog.NewJSONHandler(e.err, &slog.HandlerOptions{Level: level}))
			reload, stop := e.hangups()
			defer stop()
			return withApp(e, func(_ *env, a *app.App) error { return notRun(a.ServeAuth(c.Context(), drain, reload, log)) })
		},
	}
	c.Flags().DurationVar(&drain, "drain-timeout", drainLimit, "how long open requests get to end when it is stopped")
	c.Flags().BoolVar(&debug, "debug", false, "log everything")
	return c
}
