package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harborgate/configs"
	"harborgate/trials"
)

// initOptions are what `job init` and `trial init` share.
type initOptions struct {
	format string
	force  bool
}

func (o *initOptions) add(c *cobra.Command) {
	c.Flags().StringVar(&o.format, "format", "", "yaml or json (default: by the file's name, else yaml)")
	c.Flags().BoolVar(&o.force, "force", false, "overwrite a file that is there")
}

func newJobInitCommand(e *env) *cobra.Command {
	var o initOptions
	r := &runOptions{env: e}
	r.cmd = &cobra.Command{
		Use:   "init [OUT]",
		Short: "Write a job configuration of the flags that are given",
		Long: `Write a job configuration that says what the flags and files say that are given, and
nothing else. It takes the flags of harbor run that a configuration has a place for; run
it with harbor run -c OUT. Without OUT it is configs/job-AGENT-TIME.yaml.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return r.initJob(args, o) },
	}
	addRunFlags(r.cmd, &r.flags)
	refuseForInit(r.cmd.Flags(), "harbor run", "job-name", "dry-run", "budget-usd")
	o.add(r.cmd)
	return r.cmd
}

// refuseForInit takes flags off that nothing in a configuration stands for: what is named
// here, and what belongs to whoever runs it.
func refuseForInit(s *pflag.FlagSet, use string, names ...string) {
	for _, name := range append(names, "yes", "pass-credentials", "model-transcripts", "trial-budget-usd", "print-config") {
		f := s.Lookup(name)
		f.Value = refused{name, "a configuration has no place for it: give it to " + use, f.Value.Type() == "bool"}
		f.Hidden = true
	}
}

func (o *runOptions) initJob(args []string, how initOptions) error {
	o.flags.partial = true
	full, err := o.config()
	if err != nil {
		return refusal(err)
	}
	// What is asked for by name stays, also when it is the default.
	blank := trials.JobConfig{Agents: trials.NewJobConfig().Agents}
	given := trials.JobConfig{Agents: trials.NewJobConfig().Agents}
	if err := o.flags.apply(o.cmd.Flags(), &given); err != nil {
		return codedError{exitNothing, err}
	}
	full = full.Redacted(o.lookup)
	sparse, err := configs.NewSparse(full, trials.NewJobConfig(), given.Redacted(o.lookup), blank, "job_name")
	if err != nil {
		return err
	}
	return how.write(o.env, "job", full.Agents[0].AgentName(), args, sparse, "harbor run -c")
}

func newTrialInitCommand(e *env) *cobra.Command {
	var o initOptions
	t := newTrialOptions(e, &cobra.Command{
		Use:   "init [OUT]",
		Short: "Write a trial configuration of the flags that are given",
		Long: `Write a trial configuration that says what the flags and files say that are given, and
nothing else. Run it with harbor trial start -c OUT. Without OUT it is
configs/trial-AGENT-TIME.yaml.`,
		Args: cobra.MaximumNArgs(1),
	})
	t.cmd.RunE = func(_ *cobra.Command, args []string) error { return t.initTrial(args, o) }
	refuseForInit(t.cmd.Flags(), "harbor trial start", "trial-name")
	o.add(t.cmd)
	return t.cmd
}

func (o *trialOptions) initTrial(args []string, how initOptions) error {
	o.flags.partial = true
	full, err := o.config()
	if err != nil {
		return refusal(err)
	}
	blank := trials.TrialConfig{Agent: trials.NewJobConfig().Agents[0]}
	given := blank
	if err := o.set(&given); err != nil {
		return codedError{exitNothing, err}
	}
	full = full.Redacted(o.lookup)
	sparse, err := configs.NewSparse(full, trials.NewTrialConfig(trials.TaskConfig{}), given.Redacted(o.lookup), blank, "trial_name")
	if err != nil {
		return err
	}
	return how.write(o.env, "trial", full.Agent.AgentName(), args, sparse, "harbor trial start -c")
}

// write puts the configuration into the file that was named, or into one that is named
// after the agent and the time.
func (o initOptions) write(e *env, kind, agent string, args []string, c configs.Sparse, use string) error {
	format := o.format
	out := ""
	if len(args) > 0 {
		out = args[0]
		if format == "" {
			format = configs.Format(out)
		}
	}
	if format == "" {
		format = "yaml"
	}
	print, ok := map[string]func() ([]byte, error){"yaml": c.YAML, "json": c.JSON}[format]
	if !ok {
		return usageError{fmt.Errorf("--format %q is neither yaml nor json", format)}
	}
	if out == "" {
		out = filepath.Join("configs", fmt.Sprintf("%s-%s-%s.%s", kind, filepath.Base(agent), trials.JobName(time.Now()), format))
	}
	if named := configs.Format(out); named != format {
		return usageError{fmt.Errorf("%s would be written as %s, which its name does not say: name it *.%s", out, format, format)}
	}
	content, err := print()
	if err != nil {
		return err
	}
	if bytes.Contains(content, []byte(trials.RedactionMark)) {
		return nothingRan("a secret would be written into %s: export it and write '${NAME}' for its value", out)
	}
	if err := o.create(out, content); err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.out, "%s\n", out)
	fmt.Fprintf(e.err, "Use it with: %s %s\n", use, out)
	return err
}

func (o initOptions) create(out string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return nothingRan("the configuration could not be written: %w", err)
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if o.force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(out, flags, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nothingRan("%s is there already: name another file, or pass --force", out)
	}
	if err == nil {
		_, err = f.Write(content)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nothingRan("the configuration could not be written: %w", err)
	}
	return nil
}
