package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"harborgate/internal/app"
)

func newCleanupCommand(e *env) *cobra.Command {
	var dry, images bool
	var names []string
	c := jsonFlag(e, &cobra.Command{
		Use:   "cleanup",
		Short: "Remove sandboxes that dead harbor processes left, and nothing else",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return withApp(e, func(e *env, a *app.App) error { return cleanup(c, e, a, names, dry, images) })
		},
	})
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would be removed")
	c.Flags().BoolVar(&images, "images", false, "also remove images that harbor built and nobody uses")
	c.Flags().StringArrayVarP(&names, "env", "e", []string{"docker"}, "provider to clean (repeatable)")
	return c
}

// cleaned is one thing that cleanup removed, or would.
type cleaned struct {
	Provider string `json:"provider"`
	Kind     string `json:"kind"`
	ID       string `json:"id"`
	Name     string `json:"name"`
	Why      string `json:"why"`
}

func cleanup(c *cobra.Command, e *env, a *app.App, names []string, dry, images bool) error {
	ctx := c.Context()
	out := []cleaned{}
	var errs []error
	for _, name := range names {
		p, err := a.Provider(name)
		if err == nil {
			err = app.CheckProvider(ctx, p)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		left, err := a.Leftovers(ctx, p)
		errs = append(errs, err)
		for _, l := range left {
			out = append(out, cleaned{name, string(l.Kind), string(l.ID), l.Name, l.Why})
		}
		if !dry {
			errs = append(errs, app.Remove(ctx, p, left))
		}
		if images {
			gone, err := a.RemoveImages(ctx, p, dry)
			errs = append(errs, err)
			for _, rec := range gone {
				out = append(out, cleaned{name, "image", rec.ID, rec.Title, "harbor built it and no trial uses it"})
			}
		}
	}
	if !dry && errors.Join(errs...) == nil {
		errs = append(errs, a.Bury())
	}
	return errors.Join(report(e, out, dry), failedCleanup(errs))
}

func failedCleanup(errs []error) error {
	if err := errors.Join(errs...); err != nil {
		return codedError{exitUngraded, err}
	}
	return nil
}

func report(e *env, out []cleaned, dry bool) error {
	if e.json {
		return printJSON(e, out)
	}
	verb := "removed"
	if dry {
		verb = "would remove"
	}
	for _, x := range out {
		fmt.Fprintf(e.out, "%s %s %s %.12s: %s\n", verb, x.Kind, x.Name, x.ID, x.Why)
	}
	_, err := fmt.Fprintf(e.out, "%s %d\n", verb, len(out))
	return err
}
