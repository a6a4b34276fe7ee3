package main

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"harborgate/agents"
	"harborgate/internal/app"
)

func newAgentCommand(e *env) *cobra.Command {
	c := group("agent", "List agents, their options and what they need", "agents")
	c.AddCommand(
		jsonFlag(e, &cobra.Command{
			Use: "list", Short: "List agents that -a takes", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return listAgents(e) },
		}),
		jsonFlag(e, &cobra.Command{
			Use: "schema NAME", Short: "Show the options of an agent (--ak)", Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error { return showAgent(e, args[0]) },
		}),
		jsonFlag(e, &cobra.Command{
			Use: "auth NAME", Args: cobra.ExactArgs(1),
			Short: "Show what an agent reads to get at models, and what of it this host has",
			Long: `Show which upstreams of the auth proxy an agent can use, and which variables it reads:
names and where they come from, never a value. Whether a key is accepted, harbor auth
check finds out.`,
			Example: `  harbor agent auth codex
  harbor agent auth claude-code --json`,
			RunE: func(c *cobra.Command, args []string) error {
				return withApp(e, func(e *env, a *app.App) error { return showAgentAuth(c, e, a, args[0]) })
			},
		}))
	return c
}

func listAgents(e *env) error {
	kinds := agents.Kinds()
	if e.json {
		names := make([]string, len(kinds))
		for i, k := range kinds {
			names[i] = k.Name
		}
		return printJSON(e, names)
	}
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	for _, k := range kinds {
		fmt.Fprintf(w, "%s\t%s\n", k.Name, k.Doc)
	}
	return w.Flush()
}

func showAgent(e *env, name string) error {
	k, err := agents.Find(name)
	if err != nil {
		return usageError{err}
	}
	if e.json {
		return printJSON(e, k.Schema())
	}
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s: %s\n", k.Name, k.Doc)
	for _, o := range k.Options {
		fmt.Fprintf(w, "  %s\t%s\tdefault %q\n", o.Name, o.Describe(), o.Default)
	}
	return w.Flush()
}

func showAgentAuth(c *cobra.Command, e *env, a *app.App, name string) error {
	if _, err := agents.Find(name); err != nil {
		return usageError{err}
	}
	auth, err := a.AgentAuth(c.Context(), name)
	if err != nil {
		return codedError{exitNothing, err}
	}
	if e.json {
		return printJSON(e, auth)
	}
	if !auth.Models {
		_, err := fmt.Fprintf(e.out, "Agent %s works without models.\n", name)
		return err
	}
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "agent\t%s\nformats\t%s\nproxy\t%s\n", name, strings.Join(auth.Formats, " "), cmp.Or(auth.Service, "each job's own: no service answers"))
	fmt.Fprintln(w, "\nUPSTREAM\tDIALECT\tFROM\tKEYS")
	for _, u := range auth.Upstreams {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", u.Name, u.Dialect, u.From, oneLine(cmp.Or(strings.Join(u.Keys, " "), "none wanted")))
	}
	if len(auth.Upstreams) == 0 {
		fmt.Fprintln(w, "none: export one of the keys below, or add an upstream to config.yaml (see docs/auth-proxy.md)")
	}
	fmt.Fprintln(w, "\nVARIABLE\tDIALECT\tWHAT\tON THIS HOST")
	for _, v := range auth.Variables {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", v.Name, v.Dialect, v.What, hostState(v))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.out, "\nFor one job, --base-url, --api-key-name and --api-format come first, and then --ae NAME=VALUE.")
	return err
}

func hostState(v app.AuthVariable) string {
	switch {
	case v.Used:
		return "set, used"
	case v.Set:
		return "set, not used"
	}
	return "not set"
}
