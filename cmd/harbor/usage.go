package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harborgate/agents"
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
	return errors.Join(append(errs, checkAgent(s), checkRetryFailed(s))...)
}

// checkAgent refuses agents that nobody knows.
func checkAgent(s *pflag.FlagSet) error {
	if !given(s, "agent") {
		return nil
	}
	f := s.Lookup("agent")
	if _, err := agents.Find(f.Value.String()); err != nil {
		return fmt.Errorf("%s: %w", flagName(f), err)
	}
	return nil
}

// checkRetryFailed refuses an empty name: of a variable that is not set, as a rule.
func checkRetryFailed(s *pflag.FlagSet) error {
	if !given(s, "retry-failed") {
		return nil
	}
	names, err := s.GetStringSlice("retry-failed")
	if err == nil && (len(names) == 0 || slices.Contains(names, "")) {
		return errors.New("--retry-failed is empty: name a blame (agent, task, infrastructure, harness) or an exception")
	}
	return err
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
