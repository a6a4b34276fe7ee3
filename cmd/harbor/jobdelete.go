package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"harborgate/trials/results"
)

func newJobDeleteCommand(e *env) *cobra.Command {
	var yes bool
	var jobs string
	c := &cobra.Command{
		Use: "delete JOB…", Aliases: []string{"rm"},
		Short: "Remove the directories of jobs that are not running",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			var errs []error
			dirs := make([]string, len(args))
			for i, name := range args {
				dir, err := findJob(e, jobs, name)
				if err == nil {
					err = results.CheckJob(dir)
				}
				dirs[i], errs = dir, append(errs, err)
			}
			if err := joinCoded(exitNothing, errs); err != nil {
				return err // a slip in one name says nothing good about the others
			}
			for _, dir := range dirs {
				errs = append(errs, deleteJob(e, dir, yes))
			}
			return joinCoded(exitNothing, errs)
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	addJobsDirFlag(c.Flags(), &jobs)
	return c
}

// joinCoded ends with one code for all that went wrong.
func joinCoded(code int, errs []error) error {
	if err := errors.Join(errs...); err != nil {
		return codedError{code, err}
	}
	return nil
}

func deleteJob(e *env, dir string, yes bool) error {
	files, err := results.OpenJob(dir)
	if err != nil {
		return err
	}
	if !yes {
		if err := confirmDeletion(e, dir); err != nil {
			return errors.Join(err, files.Close())
		}
	}
	shown := relative(dir)
	if err := files.Delete(); err != nil {
		return fmt.Errorf("job %s stays: %w", shown, err)
	}
	_, err = fmt.Fprintf(e.out, "deleted %s\n", shown)
	return err
}

func confirmDeletion(e *env, dir string) error {
	if e.in == nil || !term.IsTerminal(int(e.in.Fd())) {
		return fmt.Errorf("nobody can be asked whether job %s may go: pass -y", relative(dir))
	}
	size := ""
	if r, err := results.ReadJobResult(dir); err == nil {
		size = " with " + plural(r.Stats.Completed, "finished trial")
	}
	fmt.Fprintf(e.err, "Delete job %s%s? [y/N] ", relative(dir), size)
	answer, err := bufio.NewReader(e.in).ReadString('\n')
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errors.New("declined")
	}
	return nil
}
