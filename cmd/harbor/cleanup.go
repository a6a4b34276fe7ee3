package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"harborgate/internal/app"
	"harborgate/providers"
)

func newCleanupCommand(e *env) *cobra.Command {
	var dry, images bool
	var names []string
	c := jsonFlag(e, &cobra.Command{
		Use:   "cleanup",
		Short: "Remove sandboxes and tokens that dead harbor processes left, and nothing else",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return withApp(e, func(e *env, a *app.App) error { return cleanup(c, e, a, names, dry, images) })
		},
	})
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would be removed")
	c.Flags().BoolVar(&images, "images", false, "also remove images that harbor built and nobody uses")
	c.Flags().StringArrayVarP(&names, "env", "e", nil, "provider to clean (repeatable; default all that are configured or were used, or docker)")
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
	if len(names) == 0 {
		var err error
		if names, err = a.Used(); err != nil {
			return codedError{exitNothing, err}
		}
	}
	for _, name := range names {
		if _, err := a.Provider(name); err != nil {
			return codedError{exitNothing, err}
		}
	}
	s := &cleaning{App: a, dry: dry, out: []cleaned{}}
	late := !dry && a.Unburied()
	s.tokens(c.Context())
	s.fetches()
	for _, name := range names {
		s.clean(c.Context(), name, late, images)
	}
	if !dry && errors.Join(s.errs...) == nil {
		s.fail(a.Bury())
	}
	return errors.Join(report(e, s.out, dry), failedCleanup(s.errs))
}

// cleaning is one run of harbor cleanup.
type cleaning struct {
	*app.App
	dry  bool
	out  []cleaned
	errs []error
}

func (s *cleaning) fail(err error) { s.errs = append(s.errs, err) }

// tokens looks at the auth proxy that runs as a service.
func (s *cleaning) tokens(ctx context.Context) {
	left, err := s.RevokeLeft(ctx, s.dry)
	s.fail(err)
	for _, g := range left {
		s.out = append(s.out, cleaned{"auth proxy", "token", g.ID, g.Spec.Trial, "its harbor process is dead"})
	}
}

// fetches looks at the cache of agents.
func (s *cleaning) fetches() {
	left, err := s.SweepAgents(s.dry)
	s.fail(err)
	for _, dir := range left {
		s.out = append(s.out, cleaned{"cache", "download", "unfinished", dir, "its harbor process is dead"})
	}
}

// clean looks at a provider, and a second time for what comes late.
func (s *cleaning) clean(ctx context.Context, name string, late, images bool) {
	p, err := s.Provider(name)
	if err == nil {
		err = app.CheckProvider(ctx, p)
	}
	if err != nil {
		s.fail(err)
		return
	}
	s.leftovers(ctx, p, name)
	if late {
		pause(ctx, lateness)
		s.leftovers(ctx, p, name)
	}
	if !images {
		return
	}
	gone, err := s.RemoveImages(ctx, p, s.dry)
	s.fail(err)
	for _, rec := range gone {
		s.out = append(s.out, cleaned{name, "image", rec.ID, rec.Title, "harbor built it and no trial uses it"})
	}
}

func (s *cleaning) leftovers(ctx context.Context, p providers.Provider, name string) {
	look := s.RemoveLeft
	if s.dry {
		look = s.Leftovers
	}
	left, err := look(ctx, p)
	s.fail(err)
	for _, l := range left {
		s.out = append(s.out, cleaned{name, string(l.Kind), string(l.ID), l.Name, l.Why})
	}
}

// lateness is how long a provider gets to finish what a process asked for before it
// was killed.
const lateness = 2 * time.Second

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
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
		fmt.Fprintf(e.out, "%s %s %s %.12s (%s): %s\n", verb, x.Kind, x.Name, x.ID, x.Provider, x.Why)
	}
	_, err := fmt.Fprintf(e.out, "%s %s\n", verb, countKinds(out))
	return err
}

// countKinds says how many things of each kind there are.
func countKinds(all []cleaned) string {
	n := map[string]int{}
	for _, x := range all {
		n[x.Kind]++
	}
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(n)) {
		parts = append(parts, plural(n[kind], kind))
	}
	return cmp.Or(strings.Join(parts, ", "), "nothing")
}
