package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"harborgate/configs"
	"harborgate/internal/app"
	"harborgate/providers"
)

func newEnvCommand(e *env) *cobra.Command {
	c := group("env", "List and check the places where sandboxes run", "environment", "environments")
	c.AddCommand(
		jsonFlag(e, &cobra.Command{
			Use: "list", Short: "List providers that -e takes, with what they can do", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return withApp(e, listProviders) },
		}),
		jsonFlag(e, &cobra.Command{
			Use: "check [NAME…]", Short: "Contact providers and say what is wrong", Args: cobra.ArbitraryArgs,
			RunE: func(c *cobra.Command, names []string) error {
				return withApp(e, func(e *env, a *app.App) error { return checkProviders(c, e, a, names) })
			},
		}),
		newEnvSchemaCommand(e), newEnvStatusCommand(e))
	return c
}

// withApp opens the host for one command.
func withApp(e *env, f func(*env, *app.App) error) error {
	a, err := app.New(app.Options{Logger: e.log, Lookup: e.lookup})
	if err != nil {
		return codedError{exitNothing, err}
	}
	defer a.Close()
	return f(e, a)
}

func listProviders(e *env, a *app.App) error {
	var infos []providers.Info
	for _, name := range a.ProviderNames() {
		p, err := a.Provider(name)
		if err != nil {
			return codedError{exitNothing, err}
		}
		infos = append(infos, p.Info())
	}
	if e.json {
		return printJSON(e, infos)
	}
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tTYPE\tSOURCES\tNETWORKS\tLIMITS")
	for _, i := range infos {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", i.Name, i.Type, join(i.Can.Sources), join(i.Can.Networks), limitsOf(i.Can))
	}
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(a.Host.Pools)) {
		fmt.Fprintf(w, "%s\tpool of %s\n", name, poolText(a.Host.Pools[name]))
		for _, c := range a.Host.Pools[name] {
			if _, err := a.Provider(c.Provider); err != nil {
				wrong = append(wrong, fmt.Errorf("pool %s: %w", name, err))
			}
		}
	}
	if err := w.Flush(); err != nil || len(wrong) == 0 {
		return err
	}
	return codedError{exitNothing, errors.Join(wrong...)}
}

// poolText is a pool as -e would take it.
func poolText(all []configs.Choice) string {
	parts := make([]string, len(all))
	for i, c := range all {
		parts[i] = c.Provider
		if c.Weight > 0 {
			parts[i] += fmt.Sprintf("=%d", c.Weight)
		}
	}
	return strings.Join(parts, ",")
}

func limitsOf(c providers.Capabilities) string {
	var out []string
	for _, x := range []struct {
		has  bool
		name string
	}{{c.CPU, "cpu"}, {c.Memory, "memory"}, {c.PIDs, "pids"}, {c.Disk, "disk"}} {
		if x.has {
			out = append(out, x.name)
		}
	}
	return strings.Join(out, " ")
}

func join[T ~string](list []T) string {
	parts := make([]string, len(list))
	for i, x := range list {
		parts[i] = string(x)
	}
	return strings.Join(parts, " ")
}

// checked is the result of one check.
type checked struct {
	Name  string               `json:"name"`
	OK    bool                 `json:"ok"`
	Error string               `json:"error,omitempty"`
	Size  *providers.Resources `json:"size,omitempty"`
}

func checkProviders(c *cobra.Command, e *env, a *app.App, names []string) error {
	if len(names) == 0 {
		names = a.ProviderNames()
	}
	var out []checked
	bad := 0
	for _, name := range names {
		r := checked{Name: name, OK: true}
		p, err := a.Provider(name)
		if err == nil {
			err = app.CheckProvider(c.Context(), p)
		}
		if err != nil {
			bad++
			r.OK, r.Error = false, providers.Bare(err, name)
		} else if s, ok := providers.As[providers.Sizer](p); ok {
			if size, err := s.Size(c.Context()); err == nil {
				r.Size = &size
			}
		}
		out = append(out, r)
	}
	if e.json {
		return errorsToCode(printJSON(e, out), bad)
	}
	for _, r := range out {
		switch {
		case !r.OK:
			fmt.Fprintf(e.out, "%s: %s\n", r.Name, r.Error)
		case r.Size != nil:
			fmt.Fprintf(e.out, "%s: ok, %g CPUs, %d MiB\n", r.Name, r.Size.CPUs, r.Size.MemoryMiB)
		default:
			fmt.Fprintf(e.out, "%s: ok\n", r.Name)
		}
	}
	return errorsToCode(nil, bad)
}
