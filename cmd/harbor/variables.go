package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"

	"harborgate/internal/app"
)

// confirmVariables asks before tasks get variables of this host, as Harbor does.
// A variable that is missing concerns its task alone and fails there.
func (o *runOptions) confirmVariables(plan *app.Plan) error {
	wanted := plan.Variables(o.lookup)
	if len(wanted) == 0 || o.flags.yes || o.flags.dryRun {
		return nil
	}
	w := tabwriter.NewWriter(o.err, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "Tasks ask for variables of this host:\nVARIABLE\tTASKS\tUSED BY")
	for _, v := range wanted {
		fmt.Fprintf(w, "%s\t%d\t%s\n", v.Name, v.Tasks, v.Where)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if o.in == nil || !term.IsTerminal(int(o.in.Fd())) {
		return nothingRan("nobody can be asked whether tasks may have these variables: pass -y to agree, or unset them")
	}
	fmt.Fprint(o.err, "Pass them on? [Y/n] ")
	answer, err := bufio.NewReader(o.in).ReadString('\n')
	if err != nil {
		return nothingRan("no answer: %w", err)
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a == "n" || a == "no" {
		return codedError{code: exitNothing, error: errors.New("declined")}
	}
	return nil
}

// loadEnvFile puts the variables of a file into this process's environment, over
// what is there. Lines are KEY=VALUE, "export" before and quotes around the value
// allowed, # starts a comment.
func loadEnvFile(path string) error {
	if path == "" {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--env-file: %w", err)
	}
	for i, line := range strings.Split(string(b), "\n") {
		line = strings.TrimPrefix(strings.TrimSpace(line), "export ")
		if line == "" || line[0] == '#' {
			continue
		}
		k, v, ok := strings.Cut(line, "=")
		k = strings.TrimSpace(k)
		if !ok || k == "" || strings.ContainsAny(k, " \t") {
			return fmt.Errorf("--env-file %s:%d: want KEY=VALUE", path, i+1)
		}
		if err := os.Setenv(k, unquote(strings.TrimSpace(v))); err != nil {
			return fmt.Errorf("--env-file %s:%d: %w", path, i+1, err)
		}
	}
	return nil
}

func unquote(v string) string {
	for _, q := range []string{`"`, `'`} {
		if len(v) >= 2 && strings.HasPrefix(v, q) && strings.HasSuffix(v, q) {
			return v[1 : len(v)-1]
		}
	}
	if i := slices.Index([]byte(v), '#'); i > 0 && v[i-1] == ' ' {
		return strings.TrimSpace(v[:i])
	}
	return v
}
