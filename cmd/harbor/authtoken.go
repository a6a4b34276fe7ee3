package main

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"harborgate/authproxy"
	"harborgate/authproxy/client"
	"harborgate/internal/app"
)

func newAuthTokenCommand(e *env) *cobra.Command {
	c := group("token", "Make, list and revoke tokens of the auth proxy that runs")
	c.AddCommand(newTokenCreateCommand(e), newTokenListCommand(e), newTokenRevokeCommand(e))
	return c
}

// tokenFlags are those of a new token.
type tokenFlags struct {
	job, trial        string
	upstreams, models []string
	expires           time.Duration
	budget            app.USD
	spec              authproxy.GrantSpec
}

func newTokenCreateCommand(e *env) *cobra.Command {
	var f tokenFlags
	c := jsonFlag(e, &cobra.Command{
		Use:   "create",
		Short: "Make a token for a tool of this host; it is shown this once",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return withAuth(c, e, func(p *client.Client) error { return createToken(c, e, p, f) })
		},
	})
	s := section(c)
	s.StringVar(&f.job, "job", "", "whom it is counted on (default a name of its own)")
	s.StringVar(&f.trial, "trial", "", "whom it is counted on, within the job (default a name of its own)")
	s.StringArrayVar(&f.upstreams, "upstream", nil, "upstream that it reaches (repeatable; default all)")
	s.StringArrayVarP(&f.models, "model", "m", nil, "model that it may use, or the beginning of one with a final * (repeatable; default all)")
	const day = 24 * time.Hour
	s.DurationVar(&f.expires, "expires", day, "how long it is valid, at most 720h")
	s.Var(budget{&f.budget}, "budget-usd", "US dollars that it may spend (default no limit but those of config.yaml)")
	s.Int64Var(&f.spec.Budget.Tokens, "budget-tokens", 0, "tokens that it may use (default no limit)")
	s.Int64Var(&f.spec.Budget.Requests, "budget-requests", 0, "requests that it may make (default no limit)")
	s.IntVar(&f.spec.Concurrent, "concurrent", 0, "requests that it may have open (default no limit)")
	s.StringVar(&f.spec.Source, "source", "", "IP address that it must be used from (default any)")
	return c
}

// check finds values that no token can have, and writes the source as the proxy
// sees it.
func (f *tokenFlags) check() error {
	switch {
	case f.expires <= 0 || f.expires > authproxy.LongestGrant:
		return usageError{fmt.Errorf("--expires %s: a token is valid for more than nothing, and for at most %s", f.expires, authproxy.LongestGrant)}
	case f.spec.Source == "":
		return nil
	}
	source, err := netip.ParseAddr(f.spec.Source)
	if err != nil {
		return usageError{fmt.Errorf("--source %q is no IP address: write one like 127.0.0.1, without a port, a name or a range", f.spec.Source)}
	}
	f.spec.Source = source.Unmap().String()
	return nil
}

// madeToken is a new token, and where to use it.
type madeToken struct {
	authproxy.Minted
	BaseURLs map[string][]string `json:"base_urls"` // by upstream
}

func createToken(c *cobra.Command, e *env, p *client.Client, f tokenFlags) error {
	status, err := p.Status(c.Context())
	if err != nil {
		return err
	}
	own := "token-" + time.Now().UTC().Format("20060102-150405.000")
	s := f.spec
	s.Job, s.Trial, s.Phase = cmp.Or(f.job, own), cmp.Or(f.trial, own), "token"
	s.Upstreams, s.Models, s.Expires, s.Budget.Money = f.upstreams, f.models, time.Now().Add(f.expires), f.budget
	if len(s.Upstreams) == 0 {
		for _, u := range status.Upstreams {
			s.Upstreams = append(s.Upstreams, u.Name)
		}
	}
	priced := func(upstream, model string) (authproxy.Priced, error) { return p.Priced(c.Context(), upstream, model) }
	if err := checkPrices(priced, s, status.Budgets); err != nil {
		return err
	}
	m, err := p.Mint(c.Context(), s)
	if err != nil {
		return err
	}
	out := madeToken{m, map[string][]string{}}
	for _, u := range status.Upstreams {
		if slices.Contains(m.Spec.Upstreams, u.Name) {
			out.BaseURLs[u.Name] = app.ClientURLs(status.Listen, u)
		}
	}
	if e.json {
		return printJSON(e, out)
	}
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "id\t%s\ntoken\t%s\nexpires\t%s\n", m.ID, m.Token, m.Spec.Expires.Local().Format(time.DateTime))
	for _, u := range m.Spec.Upstreams {
		fmt.Fprintf(w, "%s\t%s\n", u, strings.Join(out.BaseURLs[u], " "))
	}
	return w.Flush()
}

// checkPrices refuses models of a token with a budget of money that have no price at
// any of its upstreams: every request for them would be refused.
func checkPrices(priced func(upstream, model string) (authproxy.Priced, error), s authproxy.GrantSpec, b authproxy.Budgets) error {
	if s.Budget.Money+b.Job+b.Trial+b.Day == 0 {
		return nil
	}
	for _, model := range s.Models {
		known := strings.HasSuffix(model, "*")
		for _, u := range s.Upstreams {
			has, err := priced(u, model)
			if err != nil {
				return err
			}
			known = known || has.Tokens
		}
		if !known {
			return fmt.Errorf("model %s has no price, and the token a budget of money: every request for it would be refused: add it to the prices of %s in config.yaml", model, join(s.Upstreams))
		}
	}
	return nil
}

func newTokenListCommand(e *env) *cobra.Command {
	return jsonFlag(e, &cobra.Command{
		Use: "list", Short: "List tokens in force, those of running jobs too", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return withAuth(c, e, func(p *client.Client) error {
				s, err := p.Status(c.Context())
				if err != nil {
					return err
				}
				return printTokens(e, s.Grants)
			})
		},
	})
}

func printTokens(e *env, grants []authproxy.GrantStatus) error {
	if e.json {
		return printJSON(e, append([]authproxy.GrantStatus{}, grants...))
	}
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tJOB\tTRIAL\tPHASE\tUPSTREAMS\tEXPIRES\tOPEN\tREQUESTS\tUSD")
	for _, g := range grants {
		s := g.Spec
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", g.ID, oneLine(s.Job), oneLine(s.Trial), oneLine(s.Phase), oneLine(join(s.Upstreams)),
			s.Expires.Local().Format(time.DateTime), g.Running, g.Totals.Requests, g.Totals.Cost)
	}
	return w.Flush()
}

func newTokenRevokeCommand(e *env) *cobra.Command {
	return jsonFlag(e, &cobra.Command{
		Use: "revoke ID", Short: "End a token and its open requests at once", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return withAuth(c, e, func(p *client.Client) error { return revokeToken(c, e, p, args[0]) })
		},
	})
}

func revokeToken(c *cobra.Command, e *env, p *client.Client, id string) error {
	if strings.HasPrefix(id, "hgt_") { // the token itself: its id is the part that may be shown
		id, _, _ = strings.Cut(strings.TrimPrefix(id, "hgt_"), "_")
	}
	t, err := p.Revoke(c.Context(), id)
	if err != nil {
		return fmt.Errorf("%w: see `harbor auth token list`", err)
	}
	if e.json {
		return printJSON(e, t)
	}
	what := "revoked"
	if t.Gone {
		what = "already revoked"
	}
	_, err = fmt.Fprintf(e.out, "%s %s: %s, %s, %s USD\n", what, id, plural(int(t.Requests), "request"), plural(int(t.Usage.Tokens()), "token"), t.Cost)
	return err
}
