package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harborgate/internal/app"
	"harborgate/tasks"
	"harborgate/trials"
	"harborgate/trials/results"
)

// resumeFlags are what may change when a job goes on.
type resumeFlags struct {
	path        string
	jobsDir     string
	filter      []string
	retryFailed []string
	going       bool // the command is resume
}

// planError is a configuration whose tasks cannot be found.
type planError struct{ error }

func (e planError) Unwrap() error { return e.error }

// withoutPlan ends a command that may not begin. A job to go on with, of which nothing
// is left to do, is shown all the same: that needs neither its tasks nor its lock.
func (o *runOptions) withoutPlan(ctx context.Context, cfg trials.JobConfig, err error) error {
	if errors.As(err, new(usageError)) {
		return err
	}
	missing := errors.As(err, new(planError))
	if !o.resume.going || !missing && !errors.Is(err, syscall.EROFS) && !errors.Is(err, syscall.EACCES) {
		return codedError{exitNothing, err}
	}
	dir := filepath.Join(cfg.JobsDir, cfg.JobName)
	if redo, rerr := o.redo(dir); rerr == nil && !o.flags.dryRun {
		if s, ok := app.Settled(dir, redo); ok {
			fmt.Fprintf(o.err, "harbor: nothing is left to run; %s\n", printable(err.Error()))
			return errors.Join(o.showEnd(dir, s), outcome(ctx, s))
		}
	}
	if missing {
		return nothingRan("%w: the configuration of job %s asks for it; relative paths go from %s", err, o.shown, abs("."))
	}
	return codedError{exitNothing, err}
}

// abs is a path from the root, as far as it can be known.
func abs(path string) string {
	if a, err := filepath.Abs(path); err == nil {
		return a
	}
	return path
}

func newResumeCommand(e *env) *cobra.Command {
	o := &runOptions{env: e}
	o.cmd = &cobra.Command{
		Use:   "resume JOB",
		Short: "Go on with an interrupted job: run the trials that have no final result",
		Long: `Go on with an interrupted job, of harbor or of Harbor 0.5 to 0.26. JOB is the job's
name, or its directory, wherever it was moved. Trials that have a result are kept as
they are.

How many trials run at once, retries, providers and what is shown may change, by the
flags below, and so may budgets; other settings decide verdicts and stay as the job was started. For
more attempts or tasks there is ` + "`harbor run`" + ` with the name of the job.`,
		Example: `  harbor job resume jobs/mine                                   what is missing, and what was cancelled
  harbor job resume jobs/mine --retry-failed infrastructure     also what failed for no fault of the agent
  harbor job resume jobs/mine -f AgentTimeoutError -n 2         those instead of cancelled ones, two at once
  harbor job resume jobs/mine -e big,cloud                      what is missing, on other providers`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.resumeJob(c.Context(), args) },
	}
	return jsonFlag(e, newResumeFlags(o))
}

// newResumeFlags gives the command its flags.
func newResumeFlags(o *runOptions) *cobra.Command {
	s, f := section(o.cmd), &o.flags
	s.StringVarP(&o.resume.path, "job-path", "p", "", "the job's directory, instead of JOB")
	addJobsDirFlag(s, &o.resume.jobsDir)
	s.StringArrayVarP(&o.resume.filter, "filter-error-type", "f", []string{trials.ExcCancelled}, "exception whose trials run again (repeatable)")
	addRetryFailedFlag(s, &o.resume)
	addOperationFlags(s, f)
	addPlaceFlag(s, &f.env, "provider, or several, to run the rest on; those that the job had unless given")
	s.StringVar(&f.envFile, "env-file", "", "file of variables to load, KEY=VALUE lines")
	s.BoolVarP(&f.yes, "yes", "y", false, "do not ask before tasks get variables of this host")
	addModelFlags(s, &f.sharedFlags)
	addJobBudgetFlag(s, &f.sharedFlags)
	s.BoolVar(&f.dryRun, "dry-run", false, "check everything, run nothing")
	s.BoolVar(&f.debug, "debug", false, "log everything")
	return o.cmd
}

// addModelFlags say how trials get at models.
func addModelFlags(s *pflag.FlagSet, f *sharedFlags) {
	s.BoolVar(&f.settings.PassCredentials, "pass-credentials", false, "let model credentials that a task asks for into agents' sandboxes")
	s.BoolVar(&f.settings.Transcripts, "model-transcripts", false, "keep what is said to models and by them, without keys, in model-transcripts.jsonl of each trial")
	s.Var(budget{&f.settings.TrialBudget}, "trial-budget-usd", "US dollars that each trial may spend on models, as the auth proxy counts (default budgets.trial of config.yaml)")
}

func addJobBudgetFlag(s *pflag.FlagSet, f *sharedFlags) {
	s.Var(budget{&f.settings.Budget}, "budget-usd", "US dollars that the job may spend on models; then it stops and can be resumed (default budgets.job of config.yaml)")
}

// addOperationFlags are those that change no verdict.
func addOperationFlags(s *pflag.FlagSet, f *runFlags) {
	s.IntVarP(&f.concurrent, "n-concurrent", "n", 0, "trials at once (default 4)")
	s.IntVar(&f.concurrentAgents, "n-concurrent-agents", 0, "trials of one agent at once")
	s.BoolVarP(&f.quiet, "quiet", "q", false, "progress on one line; the numbers at the end stay")
	alias(s, "quiet", "silent")
	s.IntVarP(&f.maxRetries, "max-retries", "r", 0, "tries after a failed one, see retry settings")
	s.StringArrayVar(&f.retryInclude, "retry-include", nil, "exception that is retried; only these (repeatable)")
	s.StringArrayVar(&f.retryExclude, "retry-exclude", nil, "exception that is not retried (repeatable)")
}

func addRetryFailedFlag(s *pflag.FlagSet, f *resumeFlags) {
	s.StringSliceVar(&f.retryFailed, "retry-failed", nil,
		"run finished trials of the job again whose failure has this blame or exception: agent, task, infrastructure, harness, or a name (repeatable)")
}

// resumeJob works from where the job was started, so that paths of its
// configuration mean what they meant.
func (o *runOptions) resumeJob(ctx context.Context, args []string) error {
	o.resume.going = true
	dir, err := o.resumeDir(args)
	if err != nil {
		return usageError{err}
	}
	if dir, err = findJob(o.env, o.resume.jobsDir, dir); err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	o.shown = relative(dir)
	cfg, err := results.ReadJobConfig(dir)
	if err != nil {
		return nothingRan("job %s cannot go on without its configuration: %w: restore config.json, or run it anew", o.shown, err)
	}
	if err := loadEnvFile(o.flags.envFile); err != nil {
		return codedError{exitNothing, err}
	}
	cfg.JobsDir, cfg.JobName = filepath.Dir(dir), filepath.Base(dir)
	if o.flags.applyOperation(o.cmd.Flags(), &cfg); given(o.cmd.Flags(), "env") {
		if err := checkEnv(o.flags.env); err != nil {
			return err
		}
	}
	if err := o.fillSecrets(&cfg); err != nil {
		return codedError{exitNothing, err}
	}
	if wd := workDir(dir); wd != "" {
		if err := os.Chdir(wd); err != nil {
			return nothingRan("job %s was started in %s: %w", o.shown, wd, err)
		}
	}
	if err := validate(cfg); err != nil {
		return codedError{exitNothing, err}
	}
	return o.withApp(ctx, cfg)
}

func (o *runOptions) resumeDir(args []string) (string, error) {
	switch {
	case len(args) == 1 && o.resume.path != "":
		return "", errors.New("the job is given twice: as JOB and with --job-path")
	case len(args) == 1:
		return args[0], nil
	case o.resume.path != "":
		return o.resume.path, nil
	}
	return "", errors.New("which job? give its name or directory; `harbor job list` shows those that are known")
}

// applyOperation puts the flags that change no verdict on top of a configuration.
func (f *runFlags) applyOperation(s *pflag.FlagSet, c *trials.JobConfig) {
	set(s, &c.NConcurrentTrials, f.concurrent, "n-concurrent")
	if given(s, "env") {
		c.Environment.Type = &f.env
	}
	set(s, &c.Retry.MaxRetries, f.maxRetries, "max-retries")
	c.Quiet = c.Quiet || f.quiet
	c.Debug = c.Debug || f.debug
	if given(s, "retry-include") {
		include := trials.NewSet(f.retryInclude...)
		c.Retry.IncludeExceptions = &include
	}
	if given(s, "retry-exclude") {
		exclude := trials.NewSet(f.retryExclude...)
		c.Retry.ExcludeExceptions = &exclude
	}
	if given(s, "n-concurrent-agents") {
		for i := range c.Agents {
			c.Agents[i].NConcurrent = &f.concurrentAgents
		}
	}
}

// workDir is the directory in which a job was started, "" when that is not known
// or not there any more. Harbor leaves it in the trials' own addresses.
func workDir(dir string) string {
	wd := ""
	if r, err := results.ReadJobResult(dir); err == nil && r.Harborgate != nil {
		wd = r.Harborgate.WorkDir
	}
	if wd == "" {
		found, err := results.ReadTrials(dir)
		if err != nil {
			return ""
		}
		wd = startedIn(found)
	}
	if fi, err := os.Stat(wd); wd == "" || err != nil || !fi.IsDir() {
		return ""
	}
	return wd
}

// startedIn takes the relative path of the trials away from their address.
func startedIn(found []results.Found) string {
	for _, f := range found {
		if f.Result == nil || filepath.IsAbs(f.Result.Config.TrialsDir) {
			continue
		}
		at, ok := strings.CutPrefix(f.Result.TrialURI, "file://")
		if !ok {
			continue
		}
		if wd, ok := strings.CutSuffix(at, "/"+filepath.ToSlash(filepath.Join(f.Result.Config.TrialsDir, f.Result.TrialName))); ok {
			return wd
		}
	}
	return ""
}

// fillSecrets puts back what was not written to disk, from variables of the host
// of the same name. A secret that the host does not have ends the matter: nothing
// runs with the stars in its place.
func (o *runOptions) fillSecrets(c *trials.JobConfig) error {
	var errs []error
	fill := func(where string, env trials.Env) {
		for _, name := range env.Keys() {
			if !strings.Contains(env[name], trials.RedactionMark) || !trials.Sensitive(name) {
				continue
			}
			host, ok := o.lookup(name)
			none := func(string) (string, bool) { return "", false }
			if !ok || trials.RedactEnv(trials.Env{name: host}, none)[name] != env[name] {
				errs = append(errs, fmt.Errorf("%s.%s is a secret and was not written to disk: set the variable %s to it, or run the job again with `harbor run --job-name` and the value", where, name, name))
				continue
			}
			env[name] = host
		}
	}
	for i := range c.Agents {
		fill(fmt.Sprintf("agents[%d].env", i), c.Agents[i].Env)
	}
	fill("environment.env", c.Environment.Env)
	fill("verifier.env", c.Verifier.Env)
	return errors.Join(errs...)
}

// redo is what the flags select among finished trials. A name that nobody knows
// is a mistake, unless a trial of the job ended with it.
func (o *runOptions) redo(dir string) (app.Redo, error) {
	r := app.Redo{Exceptions: []string{trials.ExcCancelled}}
	if given(o.cmd.Flags(), "filter-error-type") {
		r.Exceptions = slices.Clone(o.resume.filter)
	}
	failed := trimmed(o.resume.retryFailed)
	for _, name := range failed {
		if blame := trials.Blame(strings.ToLower(name)); slices.Contains(trials.Blames(), blame) {
			r.Blames = append(r.Blames, blame)
		} else {
			r.Exceptions = append(r.Exceptions, name)
		}
	}
	return r, checkFailures(dir, slices.Concat(o.resume.filter, failed))
}

func checkFailures(dir string, asked []string) error {
	known := trials.ExceptionNames()
	for _, b := range trials.Blames() {
		known = append(known, string(b))
	}
	unknown := slices.DeleteFunc(slices.Clone(asked), func(name string) bool {
		return slices.Contains(known, name) || slices.Contains(known, strings.ToLower(name))
	})
	if len(unknown) == 0 {
		return nil
	}
	seen := map[string]bool{}
	found, err := results.ReadTrials(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, f := range found {
		if f.Result != nil && f.Result.ExceptionInfo != nil {
			seen[f.Result.ExceptionInfo.Type] = true
		}
	}
	for _, name := range unknown {
		if seen[name] {
			continue
		}
		if near := tasks.Closest(name, append(known, slices.Sorted(maps.Keys(seen))...)); near != "" {
			return usageError{fmt.Errorf("no trial failed with %q and nothing is called so: did you mean %s?", name, near)}
		}
		return usageError{fmt.Errorf("no trial failed with %q and nothing is called so: name a blame (agent, task, infrastructure, harness) or an exception", name)}
	}
	return nil
}

// mostNamed is how many trials a line names.
const mostNamed = 5

// reportPast says what becomes of what earlier processes did.
func (o *runOptions) reportPast(p *app.Plan) {
	past := p.Past
	if past == nil {
		return
	}
	reasons := map[app.Reason]int{}
	edited := map[string]int{}
	for _, a := range past.Again {
		reasons[a.Why]++
		switch a.Why {
		case app.Edited:
			edited[a.Task]++
		case app.Unreadable:
			fmt.Fprintf(o.err, "harbor: trial %s runs again: %s\n", oneLine(a.Trial), printable(a.Err.Error()))
		default:
		}
	}
	var parts []string
	for _, why := range []app.Reason{app.CutOff, app.Unreadable, app.Edited, app.Selected} {
		if n := reasons[why]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, why))
		}
	}
	if n := len(p.Trials) - len(past.Again); n > 0 {
		parts = append(parts, fmt.Sprintf("%d never begun", n))
	}
	line := fmt.Sprintf("harbor: job %s goes on: %s kept, %d to run", o.shown, plural(len(past.Kept), "trial"), len(p.Trials))
	if len(parts) > 0 {
		line += " (" + strings.Join(parts, ", ") + ")"
	}
	fmt.Fprintln(o.err, line)
	for _, task := range slices.Sorted(maps.Keys(edited)) {
		fmt.Fprintf(o.err, "harbor: task %s was edited, to run again: %s\n", oneLine(task), plural(edited[task], "trial"))
	}
	if len(past.Copies) > 0 {
		fmt.Fprintf(o.err, "harbor: not counted, because they are copies of trials of the job: %s\n", someOf(past.Copies))
	}
	if n := len(past.Left); n > 0 {
		fmt.Fprintf(o.err, "harbor: kept, though the configuration does not ask for them any more: %s: %s\n", plural(n, "trial"), someOf(past.Left))
	}
}

// someOf names some trials.
func someOf(names []string) string {
	if n := len(names) - mostNamed; n > 0 {
		return oneLine(fmt.Sprintf("%s and %d more", strings.Join(names[:mostNamed], " "), n))
	}
	return oneLine(strings.Join(names, " "))
}
