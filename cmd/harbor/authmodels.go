package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"harborgate/internal/app"
)

// modelsFlags are those of `harbor auth models`.
type modelsFlags struct {
	format, write, model string
	key                  app.SettingsKey
	query                app.OfferQuery
}

func newAuthModelsCommand(e *env) *cobra.Command {
	var f modelsFlags
	c := jsonFlag(e, &cobra.Command{
		Use:   "models [UPSTREAM…]",
		Short: "List the models that upstreams have, or print an agent's settings for them",
		Long: `List the models that upstreams have, as the upstreams themselves say, or print the
settings with which an agent uses the auth proxy that runs for this host.

Formats, and where agents look for them:
` + formatsHelp() + `
Settings refer to a variable for the token, unless one is given with --token. Models
that the token may not use are left out. What an upstream does not say is said on
standard error, and the exit code is 3.`,
		Example: `  harbor auth models                                     what there is
  export HARBOR_MODEL_TOKEN=$(harbor auth token create --json | jq -r .token)
  harbor auth models --format models.yml --write ~/.omp/agent/models.yml
  harbor auth models --format env openai                 for whatever reads OPENAI_BASE_URL
  harbor auth models --format codex -m openai/gpt-5 --url http://build-host:8741`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, names []string) error {
			f.query.Upstreams = names
			if err := f.check(e); err != nil {
				return err
			}
			return withApp(e, func(e *env, a *app.App) error { return showModels(c, e, a, f) })
		},
	})
	s := section(c)
	s.StringVar(&f.format, "format", "", "print settings in this format")
	s.StringVar(&f.write, "write", "", "write the settings to a file, for its user alone, instead of printing them")
	s.StringVar(&f.key.Text, "token", "", "token to write into the settings, instead of a reference")
	s.StringVar(&f.key.Variable, "token-variable", "HARBOR_MODEL_TOKEN", "variable that the settings refer to for the token")
	s.StringVarP(&f.model, "model", "m", "", "model that the agent begins with (default left to the agent)")
	s.StringVar(&f.query.URL, "url", "", "address of the auth proxy as the agent reaches it (default its listener on this host)")
	return c
}

func formatsHelp() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, f := range app.SettingsFormats() {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", f.Name, f.Agent, f.Place)
	}
	_ = w.Flush() // into memory, which does not fail
	return b.String()
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// check finds wrong flags, and which grant the token is of.
func (f *modelsFlags) check(e *env) error {
	if err := errors.Join(f.together(e), f.query.Check()); err != nil {
		return usageError{err}
	}
	token := f.key.Text
	if token == "" {
		token, _ = e.lookup(f.key.Variable)
	}
	if token == "" {
		return nil
	}
	id, ok := tokenID(token)
	if !ok {
		return usageError{errors.New("the token is none of an auth proxy: make one with `harbor auth token create`")}
	}
	f.query.Grant = id
	return nil
}

// together finds flags that mean nothing, alone or together.
func (f *modelsFlags) together(e *env) error {
	var names []string
	for _, one := range app.SettingsFormats() {
		names = append(names, one.Name)
	}
	switch {
	case f.format == "" && (f.write != "" || f.model != "" || f.query.URL != ""):
		return errors.New("--write, --model and --url are for settings: add --format")
	case f.format != "" && !slices.Contains(names, f.format):
		return fmt.Errorf("--format %q: write one of %s", f.format, strings.Join(names, ", "))
	case f.format != "" && e.json:
		return errors.New("--json lists models, --format prints settings: choose one")
	case f.write == "-":
		return errors.New("--write wants a file: leave it out to have the settings on standard output")
	case !variableName.MatchString(f.key.Variable):
		return errors.New("--token-variable: it is no name of a variable; it is not repeated here, because it may be a token")
	}
	return nil
}

// tokenID is the part of a token that may be shown.
func tokenID(token string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(token, "hgt_")
	id, secret, split := strings.Cut(rest, "_")
	return id, ok && split && id != "" && secret != "" && !strings.ContainsAny(token, " \n'\"")
}

func showModels(c *cobra.Command, e *env, a *app.App, f modelsFlags) error {
	offers, err := a.AuthModels(c.Context(), f.query)
	if err != nil {
		return notRun(err)
	}
	bad := 0
	for _, o := range offers {
		if o.Problem != "" {
			bad++
			fmt.Fprintln(e.err, "harbor:", oneLine(o.Problem))
		}
	}
	switch {
	case e.json:
		err = printJSON(e, offers)
	case f.format == "":
		err = listModels(e, offers)
	default:
		err = f.settings(e, a, offers)
	}
	return errorsToCode(notRun(err), bad)
}

func listModels(e *env, offers []app.Offer) error {
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODEL\tDIALECT\tCONTEXT\tOUTPUT")
	for _, o := range offers {
		for _, m := range o.Models {
			fmt.Fprintf(w, "%s/%s\t%s\t%s\t%s\n", o.Upstream, oneLine(m.ID), o.Dialect, orDash(m.Context), orDash(m.Output))
		}
	}
	return w.Flush()
}

func orDash(n int64) string {
	if n == 0 {
		return "–"
	}
	return fmt.Sprint(n)
}

func (f modelsFlags) settings(e *env, a *app.App, offers []app.Offer) error {
	all := app.SettingsFormats()
	q := app.SettingsQuery{Format: all[slices.IndexFunc(all, func(s app.SettingsFormat) bool { return s.Name == f.format })], Key: f.key, Model: f.model}
	text, beside, err := q.Settings(offers)
	if err != nil {
		return err
	}
	if beside != "" {
		fmt.Fprintf(e.err, "harbor: %s takes its base URL and token from variables:\n%s", q.Format.Agent, beside)
	}
	if f.write == "" {
		_, err := fmt.Fprint(e.out, text)
		return err
	}
	if err := a.WriteSettings(f.write, text); err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.out, "Written: %s\n", oneLine(f.write))
	return err
}
