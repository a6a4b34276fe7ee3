package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"harborgate/authproxy/client"
)

func newAuthReloadCommand(e *env) *cobra.Command {
	return &cobra.Command{
		Use: "reload", Short: "Have the auth proxy read its configuration and keys again", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return unchanged(withAuth(c, e, func(p *client.Client) error {
				if err := p.Reload(c.Context()); err != nil {
					return err
				}
				fmt.Fprintln(e.out, "reloaded")
				s, err := p.Status(c.Context())
				if err != nil {
					return codedError{exitUngraded, fmt.Errorf("reloaded, and gone since: %w", err)}
				}
				for _, key := range s.Restart {
					fmt.Fprintln(e.out, key, "needs a restart")
				}
				return nil
			}))
		},
	}
}

// unchanged says of an error that what was in force still is. Errors behind a reload
// have a code of their own.
func unchanged(err error) error {
	var coded codedError
	if !errors.As(err, &coded) || coded.code != exitNothing {
		return err
	}
	return codedError{exitNothing, fmt.Errorf("nothing has changed: %w", coded.error)}
}

func newAuthDrainCommand(e *env) *cobra.Command {
	var limit time.Duration
	c := &cobra.Command{
		Use: "drain", Short: "Have the auth proxy refuse new requests and wait for those that are open; stop it then", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return withAuth(c, e, func(p *client.Client) error {
				err := p.Drain(c.Context(), limit)
				if errors.As(err, new(*client.RefusedError)) {
					return codedError{exitUngraded, err}
				}
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(e.out, "drained: stop it now, or start it again")
				return err
			})
		},
	}
	c.Flags().DurationVar(&limit, "timeout", drainLimit, "how long open requests get to end")
	return c
}
