package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harborgate/internal/app"
	"harborgate/tasks"
)

// streams are the program's standard streams.
type streams struct {
	in       *os.File
	out, err io.Writer
}

// env is what every command works with.
type env struct {
	streams
	lookup  func(string) (string, bool)
	log     *slog.Logger
	json    bool
	hangups func() (<-chan struct{}, func())
	begun   bool // a command was understood and runs: its errors are no usage errors
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, s streams) int {
	out := &output{to: onScreen(s.out)}
	s.out, s.err = out, onScreen(s.err)
	ctx, sig, stop := withSignals(ctx, s.err)
	defer stop()
	e := &env{streams: s, lookup: os.LookupEnv, log: slog.New(slog.DiscardHandler), hangups: sig.hangups}
	root := newRoot(e)
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(out)
	root.SetErr(s.err)
	err := root.ExecuteContext(ctx)
	if err != nil && !e.begun {
		err = usageError{err}
	}
	return exitCode(e, withOutput(err, out.failed))
}

func newRoot(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:           "harbor",
		Short:         "Run agent evaluations in sandboxes",
		Version:       app.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if err := checkUsage(c.Flags()); err != nil {
				return err
			}
			e.begun = true
			return nil
		},
	}
	root.SetFlagErrorFunc(flagError)
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(
		newRunCommand(e, "run"), newJobCommand(e), newTrialCommand(e), newTaskCommand(e), newViewCommand(e), newAttachCommand(e), newCompareCommand(e), newReportCommand(e), newLintCommand(e), newCleanupCommand(e),
		newEnvCommand(e), newSnapshotCommand(e), newAgentCommand(e), newAuthCommand(e), newVersionCommand(e),
	)
	nameArguments(root)
	return addNotBuilt(root, "")
}

// unknownFlag is how the library says that there is no such flag.
const unknownFlag = "unknown flag: --"

// suggestFlag adds what may have been meant.
func suggestFlag(c *cobra.Command, err error) error {
	name, ok := strings.CutPrefix(err.Error(), unknownFlag)
	if !ok {
		return err
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := tasks.Closest(name, names); near != "" {
		return fmt.Errorf("%w: did you mean --%s?", err, near)
	}
	return fmt.Errorf("%w: see `%s --help`", err, c.CommandPath())
}

// group is a command that only holds others.
func group(name, short string, aliases ...string) *cobra.Command {
	return &cobra.Command{Use: name, Short: short, Aliases: aliases, Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
}

func newVersionCommand(e *env) *cobra.Command {
	return jsonFlag(e, &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if e.json {
				return printJSON(e, map[string]string{"version": app.Version})
			}
			_, err := fmt.Fprintln(e.out, app.Version)
			return err
		},
	})
}
