package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"harborgate/tasks"
)

func newTaskCommand(e *env) *cobra.Command {
	c := group("task", "Make and check tasks", "tasks")
	c.AddCommand(newTaskInitCommand(e), newTaskCheckCommand(e), newTaskSchemaCommand(e))
	return c
}

func newTaskInitCommand(e *env) *cobra.Command {
	var opt tasks.InitOptions
	var dir, mode, org string
	c := &cobra.Command{
		Use:   "init [NAME]",
		Short: "Make a new task that runs as it is",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && strings.Contains(args[0], "/") {
				opt.Name = args[0]
			} else if len(args) == 1 && org != "" {
				opt.Name = org + "/" + args[0]
			}
			opt.VerifierMode = tasks.VerifierMode(mode)
			at := dir
			if len(args) == 1 {
				at = filepath.Join(dir, filepath.Base(args[0]))
			}
			files, err := tasks.Init(at, opt)
			if err != nil {
				return codedError{exitNothing, err}
			}
			for _, f := range files {
				fmt.Fprintln(e.out, f)
			}
			_, err = fmt.Fprintf(e.err, "Run it with: harbor run -p %s\n", at)
			return err
		},
	}
	c.Flags().StringVarP(&dir, "path", "p", ".", "directory to make the task in")
	c.Flags().StringVar(&mode, "verifier-mode", string(tasks.VerifierSeparate), "where tests run: separate or shared")
	c.Flags().StringVar(&org, "org", "", "organisation of the task's name")
	return c
}

func newTaskCheckCommand(e *env) *cobra.Command {
	return jsonFlag(e, &cobra.Command{
		Use:   "check PATH…",
		Short: "Report every problem of every task, with file, line and next step",
		Args:  cobra.MinimumNArgs(1),
		RunE:  func(c *cobra.Command, args []string) error { return checkTasks(c, e, args) },
	})
}

func checkTasks(c *cobra.Command, e *env, paths []string) error {
	all := tasks.Problems{}
	for _, p := range paths {
		if _, err := os.Stat(p); err != nil {
			return nothingRan("%s is no task and no directory of tasks: %w", p, err)
		}
		all = append(all, tasks.Check(c.Context(), p)...)
	}
	bad := len(all.Least(tasks.SeverityError))
	if e.json {
		return errorsToCode(printJSON(e, all), bad)
	}
	for _, p := range all {
		fmt.Fprintf(e.out, "%s: %s\n", p.Severity, p)
	}
	warnings := len(all.Least(tasks.SeverityWarning)) - bad
	fmt.Fprintf(e.out, "%s, %s\n", plural(bad, "error"), plural(warnings, "warning"))
	return errorsToCode(nil, bad)
}

// errorsToCode ends with the code for an ungraded job when a check found errors.
func errorsToCode(err error, bad int) error {
	if err == nil && bad > 0 {
		return codedError{code: exitUngraded}
	}
	return err
}

func printJSON(e *env, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(e.out, string(b))
	return err
}

// jsonFlag gives a command --json.
func jsonFlag(e *env, c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&e.json, "json", false, "print JSON on standard output")
	return c
}
