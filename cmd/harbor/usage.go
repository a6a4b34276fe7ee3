package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harborgate/agents"
	"harborgate/internal/app"
	"harborgate/trials"
)

// ranges are the least values of flags that are numbers. What a configuration says is
// held against the rules of the configuration; a flag is held against this first, so
// that the message names what was typed.
var ranges = []struct {
	flag  string
	least float64
	above bool // the least value itself is too little
}{
	{"n-attempts", 1, false},
	{"n-concurrent", 1, false},
	{"n-concurrent-agents", 1, false},
	{"n-tasks", 1, false},
	{"max-retries", 0, false},
	{"concurrent", 1, false},
	{"budget-tokens", 1, false},
	{"budget-requests", 1, false},
	{"timeout-multiplier", 0, true},
	{"agent-timeout-multiplier", 0, true},
	{"verifier-timeout-multiplier", 0, true},
	{"agent-setup-timeout-multiplier", 0, true},
	{"environment-build-timeout-multiplier", 0, true},
}

// checkUsage finds flags whose values mean nothing, before a command begins.
func checkUsage(s *pflag.FlagSet) error {
	var errs []error
	for _, r := range ranges {
		if !given(s, r.flag) {
			continue
		}
		f := s.Lookup(r.flag)
		v, err := strconv.ParseFloat(f.Value.String(), 64)
		switch {
		case err != nil || math.IsNaN(v) || math.IsInf(v, 0):
			errs = append(errs, fmt.Errorf("%s %s: want a number", flagName(f), f.Value))
		case r.above && v <= r.least:
			errs = append(errs, fmt.Errorf("%s %s: want more than %g", flagName(f), f.Value, r.least))
		case v < r.least:
			errs = append(errs, fmt.Errorf("%s %s: want %g or more", flagName(f), f.Value, r.least))
		}
	}
	return errors.Join(append(errs, checkAgent(s), checkRetryFailed(s), checkValues(s))...)
}

// checkAgent refuses agents that nobody knows.
func checkAgent(s *pflag.FlagSet) error {
	if !given(s, "agent") {
		return nil
	}
	f := s.Lookup("agent")
	names := []string{f.Value.String()}
	if several, ok := f.Value.(pflag.SliceValue); ok {
		names = several.GetSlice()
	}
	for _, name := range names {
		if _, err := agents.Find(name); err != nil {
			return fmt.Errorf("%s: %w", flagName(f), err)
		}
	}
	return nil
}

// checkRetryFailed refuses an empty name: of a variable that is not set, as a rule.
func checkRetryFailed(s *pflag.FlagSet) error {
	if !given(s, "retry-failed") {
		return nil
	}
	names, err := s.GetStringSlice("retry-failed")
	if err == nil && (len(names) == 0 || slices.Contains(trimmed(names), "")) {
		return errors.New("--retry-failed is empty: name a blame (agent, task, infrastructure, harness) or an exception")
	}
	return err
}

// trimmed takes what a list was typed with: a space after the comma, as a rule.
func trimmed(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = strings.TrimSpace(name)
	}
	return out
}

// values are flags of a form of their own, and what reads it.
var values = map[string]func(flag string, given []string) error{
	"ak": wantsPairs, "model": wantsModels, "ek": wantsEnvironment, "ae": wantsVariables, "ve": wantsVariables,
	"mounts": wantsMounts, "mounts-json": wantsMounts, "cpus": wantsPolicy, "memory": wantsPolicy,
}

// wantsPolicy lets those pass that are Harbor's and are refused for what they mean.
func wantsPolicy(flag string, given []string) error {
	if !slices.Contains([]string{"auto", "limit", "ignore", "request", "guarantee"}, given[0]) {
		return fmt.Errorf("%s %q: want auto, limit or ignore", flag, given[0])
	}
	return nil
}

// wantsModels refuses an empty name: of a variable that is not set, as a rule.
func wantsModels(flag string, given []string) error {
	if slices.Contains(given, "") {
		return fmt.Errorf("%s is empty: write provider/name, as anthropic/claude-sonnet-4-5", flag)
	}
	return nil
}

func wantsPairs(flag string, given []string) error {
	_, err := kwargs(flag, given)
	return err
}

func wantsVariables(flag string, given []string) error {
	_, err := variables(flag, given)
	return err
}

func wantsMounts(_ string, given []string) error {
	_, err := mounts(given[0])
	return err
}

// wantsEnvironment also knows the options that there are: they are the same everywhere.
func wantsEnvironment(flag string, given []string) error {
	kw, err := kwargs(flag, given)
	if err != nil {
		return err
	}
	if err := app.CheckEnvironment(trials.EnvironmentConfig{Kwargs: kw}); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// checkValues holds such flags against their form.
func checkValues(s *pflag.FlagSet) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !given(s, name) {
			continue
		}
		f := s.Lookup(name)
		typed := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			typed = list.GetSlice()
		}
		errs = append(errs, values[name](flagName(f), typed))
	}
	return errors.Join(errs...)
}

// flagName is how a flag is typed.
func flagName(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "-" + f.Shorthand + ", --" + f.Name
	}
	return "--" + f.Name
}

// kindNames say what a flag's value must be, by its type.
var kindNames = map[string]string{
	"int": "a whole number", "int64": "a whole number", "float64": "a number", "bool": "true or false", "duration": "a time like 90s or 5m",
}

// flagError says in words what is wrong with the flags of a command.
func flagError(c *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return suggestFlag(c, err)
	}
	f := invalid.GetFlag()
	if kind, ok := kindNames[f.Value.Type()]; ok && !errors.As(err, new(refusedError)) {
		return fmt.Errorf("%s %q: want %s", flagName(f), invalid.GetValue(), kind)
	}
	return err
}

// nameArguments makes every command name its arguments when there are too few or too
// many.
func nameArguments(c *cobra.Command) {
	for _, sub := range c.Commands() {
		nameArguments(sub)
	}
	check := c.Args
	_, want, takes := strings.Cut(c.Use, " ")
	if check == nil || c.HasSubCommands() {
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		switch err := check(c, args); {
		case err == nil:
			return nil
		case !takes:
			return fmt.Errorf("%s takes no arguments, it got %q: see `%s --help`", c.CommandPath(), args[0], c.CommandPath())
		default:
			return fmt.Errorf("%s takes %s, it got %s: see `%s --help`", c.CommandPath(), want, plural(len(args), "argument"), c.CommandPath())
		}
	}
}
