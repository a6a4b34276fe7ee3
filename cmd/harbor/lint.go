package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"harborgate/tasks"
	"harborgate/tasks/lint"
)

// exitFindings ends a lint that found something, as Harbor's does.
const exitFindings = 1

func newLintCommand(e *env) *cobra.Command {
	var given lint.Settings
	c := jsonFlag(e, &cobra.Command{
		Use:   "lint PATH…",
		Short: "Find what makes tasks unsafe, unfair or hard to repeat",
		Long:  "Find what makes tasks unsafe, unfair or hard to repeat. Nothing is run.\nPATH is a task directory or a directory of tasks.\n\nRules, those with * only when selected:\n" + ruleList() + "\nSettings are also read from [metadata.harbor.lint] of task.toml, and of the\nnearest dataset.toml above it. The exit code is 1 when something was found.",
		Args:  cobra.MinimumNArgs(1),
		RunE:  func(_ *cobra.Command, dirs []string) error { return lintTasks(e, dirs, given) },
	})
	s := c.Flags()
	s.StringArrayVar(&given.Ignore, "ignore", nil, "rule to leave out (repeatable)")
	s.StringArrayVar(&given.Select, "select", nil, "rule to look for instead of the defaults, or ALL (repeatable)")
	s.StringArrayVar(&given.ExtendSelect, "extend-select", nil, "rule to look for beside the selected ones, or ALL (repeatable)")
	return c
}

func ruleList() string {
	out := ""
	for _, r := range lint.Rules() {
		mark := " "
		if !r.Default {
			mark = "*"
		}
		out += fmt.Sprintf("  %s %-31s %s\n", mark, r.Name, r.Doc)
	}
	return out
}

// taskDirs are the task directories that paths name, themselves or as directories of
// tasks. What is neither stays, for the linter to say what is wrong with it.
func taskDirs(paths []string) []string {
	var out []string
	for _, p := range paths {
		found, _ := tasks.List([]string{p})
		if len(found) == 0 {
			out = append(out, p)
		}
		for _, f := range found {
			out = append(out, f.Path)
		}
	}
	return out
}

func lintTasks(e *env, paths []string, given lint.Settings) error {
	if err := given.Check("the command line"); err != nil {
		return usageError{err}
	}
	dirs := taskDirs(paths)
	all := []lint.Finding{}
	for _, dir := range dirs {
		own, err := lint.SettingsOf(dir)
		if err != nil {
			return usageError{err}
		}
		found, err := lint.Run(dir, own.With(given))
		if err != nil {
			return usageError{err}
		}
		all = append(all, found...)
	}
	if e.json {
		if err := printJSON(e, all); err != nil {
			return err
		}
	} else {
		for _, f := range all {
			fmt.Fprintln(e.out, oneLine(findingText(f)))
		}
		fmt.Fprintf(e.err, "%s in %s\n", plural(len(all), "finding"), plural(len(dirs), "task"))
	}
	if len(all) > 0 {
		return codedError{code: exitFindings}
	}
	return nil
}

func findingText(f lint.Finding) string {
	at := relative(f.Path)
	if f.Line != nil {
		at += fmt.Sprintf(":%d", *f.Line)
	}
	return fmt.Sprintf("%s [%s] %s", at, f.Rule, f.Message)
}
