package main

import (
	"errors"

	"github.com/spf13/cobra"

	"harborgate/authproxy/client"
	"harborgate/internal/app"
)

func newAuthCommand(e *env) *cobra.Command {
	c := group("auth", "Run and administer the auth proxy, which keeps model keys on the host")
	c.AddCommand(
		newAuthServeCommand(e), newAuthTokenCommand(e), newAuthStatusCommand(e), newAuthCheckCommand(e), newAuthModelsCommand(e), newAuthUsageCommand(e),
		newAuthReloadCommand(e), newAuthDrainCommand(e), newAuthServiceCommand(e))
	return c
}

// withAuth opens a client of the auth proxy that runs for this host.
func withAuth(c *cobra.Command, e *env, f func(*client.Client) error) error {
	return withApp(e, func(_ *env, a *app.App) error {
		p, err := a.AuthClient(c.Context())
		if err != nil {
			return codedError{exitNothing, err}
		}
		defer p.Close()
		return notRun(f(p))
	})
}

// notRun gives errors of administration their code, unless they have one.
func notRun(err error) error {
	var coded codedError
	var usage usageError
	if err == nil || errors.As(err, &coded) || errors.As(err, &usage) {
		return err
	}
	return codedError{exitNothing, err}
}
