package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"harborgate/configs"
	"harborgate/internal/app"
)

func newAuthServiceCommand(e *env) *cobra.Command {
	c := group("service", "Have a supervisor run the auth proxy")
	c.AddCommand(newServiceInstallCommand(e))
	return c
}

// serviceFlags say which supervisor, and where.
type serviceFlags struct {
	systemd, pm2, user, print, force bool
	root, program                    string
}

func newServiceInstallCommand(e *env) *cobra.Command {
	var f serviceFlags
	c := jsonFlag(e, &cobra.Command{
		Use:   "install",
		Short: "Write the files with which systemd or pm2 runs the auth proxy",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return installService(e, f) },
	})
	s := section(c)
	s.BoolVar(&f.systemd, "systemd", false, "for systemd: a hardened unit with its sockets")
	s.BoolVar(&f.pm2, "pm2", false, "for pm2: an ecosystem file")
	s.BoolVar(&f.user, "user", false, "for this user's systemd, not for the host's")
	s.BoolVar(&f.print, "print", false, "only print the files")
	s.BoolVar(&f.force, "force", false, "replace files with other content")
	s.StringVar(&f.root, "root", "", "directory to take for the root of the file system (default /)")
	s.StringVar(&f.program, "program", "", "program that the supervisor starts (default this one)")
	return c
}

// supervisor is the one that the flags name.
func (f serviceFlags) supervisor() (configs.Supervisor, error) {
	switch {
	case f.systemd == f.pm2:
		return "", usageError{errors.New("say which supervisor: --systemd or --pm2")}
	case f.pm2 && f.user:
		return "", usageError{errors.New("--user belongs to --systemd; pm2 is one user's anyway")}
	case f.pm2:
		return configs.PM2, nil
	case f.user:
		return configs.SystemdUser, nil
	}
	return configs.SystemdSystem, nil
}

func installService(e *env, f serviceFlags) error {
	s, err := f.supervisor()
	if err != nil {
		return err
	}
	program := f.program
	if program != "" && !filepath.IsAbs(program) {
		return usageError{fmt.Errorf("--program %s: supervisors want a path that begins with /", program)}
	}
	if program == "" {
		program, err = os.Executable()
		if err == nil {
			program, err = filepath.EvalSymlinks(program)
		}
		if err != nil {
			return err
		}
	}
	i, err := app.PlanAuthService(s, program, f.root, e.lookup)
	if err != nil {
		return notRun(err)
	}
	if !f.print {
		if err := i.Install(f.force); err != nil {
			return notRun(err)
		}
	}
	return printInstallation(e, i, f.print)
}

func printInstallation(e *env, i app.Installation, whole bool) error {
	if e.json {
		return printJSON(e, i)
	}
	for _, file := range i.Files {
		if whole {
			fmt.Fprintf(e.out, "==> %s <==\n%s\n", file.Path, file.Text)
		} else {
			fmt.Fprintln(e.out, "wrote", file.Path)
		}
	}
	fmt.Fprintln(e.out, "It needs first:")
	for _, n := range i.First {
		fmt.Fprintln(e.out, " ", n)
	}
	fmt.Fprintln(e.out, "Then run:")
	for _, n := range i.Next {
		fmt.Fprintln(e.out, " ", n)
	}
	return nil
}
