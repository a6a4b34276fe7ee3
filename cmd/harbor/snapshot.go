package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"harborgate/internal/app"
	"harborgate/providers"
	"harborgate/snapshots"
)

func newSnapshotCommand(e *env) *cobra.Command {
	c := group("snapshot", "Make, list and remove images of tasks' environments", "snapshots")
	var provider string
	c.PersistentFlags().StringVarP(&provider, "env", "e", "docker", "provider that has the images")
	on := func(f func(c *cobra.Command, s *shelf) error) func(*cobra.Command, []string) error {
		return func(c *cobra.Command, _ []string) error {
			return withApp(e, func(e *env, a *app.App) error { return withShelf(c, e, a, provider, f) })
		}
	}
	c.AddCommand(
		jsonFlag(e, &cobra.Command{
			Use: "list", Short: "List images, what was used last first", Args: cobra.NoArgs,
			Long: `List images that harbor built at a provider and that are there. Where that does
not answer, those are listed that were there when they were last used.`,
			RunE: on(func(c *cobra.Command, s *shelf) error { return s.list(c) }),
		}),
		newSnapshotBuildCommand(e, &provider), newSnapshotPruneCommand(e, on), newSnapshotRmCommand(e, &provider))
	return c
}

func newSnapshotPruneCommand(e *env, on func(func(*cobra.Command, *shelf) error) func(*cobra.Command, []string) error) *cobra.Command {
	var dry bool
	var unused time.Duration
	var keep int64
	c := jsonFlag(e, &cobra.Command{
		Use: "prune", Short: "Remove images that nobody uses and that are too old or too much", Args: cobra.NoArgs,
		Long: `Remove images that no harbor process uses: those that were not used for longer
than --unused, and, of what is more than --keep-mb, those that were used least
lately. Nothing is removed that harbor did not build.`,
		Example: "  harbor snapshot prune --unused 168h --keep-mb 20000 --dry-run",
		RunE: on(func(c *cobra.Command, s *shelf) error {
			if keep < 0 || unused < 0 {
				return usageError{errors.New("--unused and --keep-mb are 0 or more")}
			}
			var p snapshots.Policy // has no bound that is zero
			if c.Flags().Changed("unused") {
				p.Unused = max(unused, 1)
			}
			if c.Flags().Changed("keep-mb") {
				p.Bytes = max(keep<<20, 1)
			}
			if p == (snapshots.Policy{}) {
				return usageError{errors.New("say what may stay: --unused, --keep-mb, or both")}
			}
			return s.remove(c, p.Surplus(s.kept, time.Now()), dry)
		}),
	})
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would be removed")
	c.Flags().DurationVar(&unused, "unused", 0, "how long an image may stay that is not used, like 168h")
	c.Flags().Int64Var(&keep, "keep-mb", 0, "MiB that images may have together, each counted with all of its layers")
	return c
}

func newSnapshotRmCommand(e *env, provider *string) *cobra.Command {
	var dry bool
	c := jsonFlag(e, &cobra.Command{
		Use: "rm KEY…", Short: "Remove images by the beginnings of their keys", Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, keys []string) error {
			return withApp(e, func(e *env, a *app.App) error {
				return withShelf(c, e, a, *provider, func(c *cobra.Command, s *shelf) error {
					chosen, err := s.choose(keys)
					if err != nil {
						return err
					}
					return s.remove(c, chosen, dry)
				})
			})
		},
	})
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would be removed")
	return c
}

// shelf is what a provider keeps.
type shelf struct {
	e    *env
	app  *app.App
	p    providers.Provider
	kept []snapshots.Kept
}

func withShelf(c *cobra.Command, e *env, a *app.App, provider string, f func(*cobra.Command, *shelf) error) error {
	p, err := a.Provider(provider)
	if err != nil {
		return codedError{exitNothing, err}
	}
	kept, err := a.Snapshots(p)
	if err != nil {
		return err
	}
	return f(c, &shelf{e, a, p, kept})
}

func (s *shelf) list(c *cobra.Command) error {
	var err error
	if s.kept, err = s.app.Present(c.Context(), s.p, s.kept); err != nil {
		fmt.Fprintf(s.e.err, "harbor: warning: some of these may be gone: %v\n", err)
	}
	if s.e.json {
		return printJSON(s.e, s.listed())
	}
	w := tabwriter.NewWriter(s.e.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tMIB\tMADE\tUSED\tOF")
	for _, k := range s.kept {
		used := k.Used.Local().Format(time.DateTime)
		if k.InUse {
			used = "now"
		}
		fmt.Fprintf(w, "%.12s\t%d\t%s\t%s\t%s\n", k.Key, k.Bytes>>20, k.Made.Local().Format(time.DateTime), used, oneLine(k.Title))
	}
	return w.Flush()
}

// listedImage is an image for programs to read.
type listedImage struct {
	Provider string `json:"provider"`
	snapshots.Kept
}

func (s *shelf) listed() []listedImage {
	out := []listedImage{}
	for _, k := range s.kept {
		out = append(out, listedImage{s.p.Info().Name, k})
	}
	return out
}

// choose finds images by the beginnings of their keys, each of which must mean one.
func (s *shelf) choose(keys []string) ([]snapshots.Kept, error) {
	var out []snapshots.Kept
	for _, key := range keys {
		var found []snapshots.Kept
		for _, k := range s.kept {
			if strings.HasPrefix(string(k.Key), key) && !k.Obsolete { // that goes with it
				found = append(found, k)
			}
		}
		switch {
		case len(found) == 0:
			return nil, codedError{exitNothing, fmt.Errorf("no image has a key that begins with %q: see `harbor snapshot list`", key)}
		case len(found) > 1:
			return nil, codedError{exitNothing, fmt.Errorf("%d images have keys that begin with %q: write more of it", len(found), key)}
		case found[0].InUse:
			return nil, codedError{exitNothing, fmt.Errorf("image %.12s, of %s, is in use by a trial: remove it when that has ended", found[0].Key, oneLine(found[0].Title))}
		}
		out = append(out, found...)
	}
	return out, nil
}

// remove removes what it may, and names what stays.
func (s *shelf) remove(c *cobra.Command, chosen []snapshots.Kept, dry bool) error {
	gone, err := s.app.RemoveSnapshots(c.Context(), s.p, chosen, dry)
	out := []cleaned{}
	var bytes int64
	for _, rec := range gone {
		bytes += rec.Bytes
		out = append(out, cleaned{s.p.Info().Name, "image", string(rec.Key), oneLine(rec.Title), fmt.Sprintf("%d MiB", rec.Bytes>>20)})
	}
	if rest := len(chosen) - len(gone); rest > 0 && err == nil && !s.e.json {
		fmt.Fprintf(s.e.out, "%s left: in use since, or pulled and not built here\n", plural(rest, "image"))
	}
	return errors.Join(report(s.e, out, dry), failedCleanup([]error{err}))
}
