package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"harborgate/agents"
	"harborgate/configs"
	"harborgate/internal/app"
	"harborgate/tasks"
	"harborgate/trials"
)

// runOptions are what `harbor run` works with.
type runOptions struct {
	*env
	flags  runFlags
	resume resumeFlags
	cmd    *cobra.Command
	shown  string // the job's directory, as the user would type it

	regraded []app.Regraded // of a job that grades another again
}

func newRunCommand(e *env, name string) *cobra.Command {
	o := &runOptions{env: e}
	o.cmd = &cobra.Command{
		Use:   name,
		Short: "Run a job: agents on tasks, in sandboxes, graded by the tasks' tests",
		Long: `Run a job: agents on tasks, in sandboxes, graded by the tasks' tests. With the name of
a job that is there already, go on with it: trials that have a result are kept.`,
		Example: `  harbor run -p tasks/hello                      one task with its own solution
  harbor run -p tasks -a nop -n 8 -k 2           every task twice, eight trials at once
  harbor run -c job.yaml -p tasks -i 'py-*'      a configuration, some tasks
  harbor run -p tasks --diff monday              what the job "monday" does not have yet
  harbor run -p tasks -a codex -m openai/gpt-5 --base-url https://llm.example.com/v1 --api-key-name COMPANY_KEY
                                                 a model at an endpoint of your own`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.dryFailed(o.run(c.Context())) },
	}
	addRunFlags(o.cmd, &o.flags)
	addRetryFailedFlag(o.cmd.Flags(), &o.resume)
	o.cmd.Flags().BoolVar(&o.json, "json", false, "print the result as JSON on standard output")
	return o.cmd
}

func (o *runOptions) run(ctx context.Context) error {
	cfg, err := o.config()
	if err != nil {
		return refusal(err)
	}
	if o.flags.printConfig {
		return o.print(cfg)
	}
	o.shown = relative(filepath.Join(cfg.JobsDir, cfg.JobName))
	return o.withApp(ctx, cfg)
}

func (o *runOptions) withApp(ctx context.Context, cfg trials.JobConfig) error {
	o.log = o.logger(cfg)
	a, err := app.New(app.Options{Logger: o.log, Lookup: o.lookup})
	if err != nil {
		return codedError{exitNothing, err}
	}
	defer a.Close()
	if o.resume.going && given(o.cmd.Flags(), "env") { // wrong, too, when nothing is left to run
		if _, err := openFleet(o.cmd.Flags(), a, cfg.Environment); err != nil {
			return refusal(err)
		}
	}
	return o.job(ctx, a, cfg)
}

// config is the configuration of the files with the flags on top, valid.
func (o *runOptions) config() (trials.JobConfig, error) {
	if err := loadEnvFile(o.flags.envFile); err != nil {
		return trials.JobConfig{}, err
	}
	warnRemoved(o.env, o.cmd.Flags())
	cfg, problems := configs.LoadJob(o.flags.configs)
	if err := problems.Err(); err != nil {
		return cfg, err
	}
	for _, p := range problems {
		fmt.Fprintln(o.err, "harbor:", oneLine(p.String()))
	}
	inFiles := checkAgents(cfg.Agents)
	if err := errors.Join(o.flags.apply(o.cmd.Flags(), &cfg), o.applyDiff(o.cmd.Flags(), &cfg)); err != nil {
		return cfg, err
	}
	return cfg, blamed(inFiles, checkAgents(cfg.Agents), validate(cfg))
}

// validate finds what is wrong with a configuration before anything is touched.
func validate(cfg trials.JobConfig) error {
	var errs []error
	for _, e := range cfg.Validate() {
		errs = append(errs, e)
	}
	for _, a := range cfg.Agents {
		if _, err := agents.New(agents.Input{Config: a}); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, app.CheckJob(cfg))...)
}

// checkAgents does so for agents alone.
func checkAgents(all []trials.AgentConfig) error {
	alone := trials.NewJobConfig()
	alone.Agents, alone.NConcurrentTrials = all, math.MaxInt
	return validate(alone)
}

func (o *runOptions) print(cfg trials.JobConfig) error {
	b, err := json.MarshalIndent(cfg.Redacted(o.lookup), "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(o.out, string(b))
	return err
}

func (o *runOptions) logger(cfg trials.JobConfig) *slog.Logger {
	if !cfg.Debug {
		return slog.New(plainLog{w: o.err})
	}
	return slog.New(slog.NewTextHandler(o.err, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (o *runOptions) job(ctx context.Context, a *app.App, cfg trials.JobConfig) (err error) {
	plan, err := o.plan(a, cfg)
	if err != nil {
		return o.withoutPlan(ctx, cfg, err)
	}
	defer func() { err = errors.Join(err, plan.Close()) }()
	if done, err := o.settled(ctx, plan); done || err != nil {
		o.sweepUnburied(ctx, a, cfg)
		return err
	}
	if err := o.confirmVariables(plan); err != nil {
		return err
	}
	fleet, err := o.fleet(ctx, a, plan)
	if err != nil {
		return refusal(err)
	}
	if o.flags.dryRun {
		notes, err := a.CheckModels(ctx, plan, o.flags.settings)
		o.warn(notes)
		if err != nil {
			return codedError{exitNothing, err}
		}
		if _, err := a.LacksAgents(ctx, plan); err != nil {
			return codedError{exitNothing, err}
		}
		return o.dryRun(plan, fleet, a.Suited(ctx, fleet), a.ModelRoutes(ctx, plan, o.flags.settings))
	}
	late := a.Unburied()
	o.sweep(ctx, a, fleet)
	if err := o.fetchAgents(ctx, a, plan); err != nil {
		return err
	}
	j, err := a.StartJob(plan, fleet, o.flags.settings)
	if err != nil {
		return codedError{exitNothing, err}
	}
	o.warn(j.Notes)
	err = o.watch(ctx, j)
	if late && ctx.Err() == nil {
		o.sweep(ctx, a, fleet)
	}
	return err
}

// warn prints what users should know before anything runs.
func (o *runOptions) warn(notes []trials.Note) {
	for _, n := range notes {
		fmt.Fprintln(o.err, "harbor: warning:", printable(n.Message))
	}
}

// plan finds what is to do, and holds a job that is there already.
func (o *runOptions) plan(a *app.App, cfg trials.JobConfig) (*app.Plan, error) {
	plan, err := app.NewPlan(cfg, uuid.NewString())
	if err != nil {
		return nil, planError{err}
	}
	o.reportInvalid(plan)
	redo, err := o.redo(plan.Dir())
	if err != nil {
		return nil, err
	}
	if err := a.Continue(plan, redo); err != nil {
		return nil, err
	}
	if !o.flags.dryRun {
		if err := plan.CheckRoom(); err != nil {
			return nil, errors.Join(err, plan.Close())
		}
	}
	o.reportPast(plan)
	return plan, nil
}

// settled ends a job of which nothing is to run. It asks first whether what is left of a
// comparison is wanted.
func (o *runOptions) settled(ctx context.Context, plan *app.Plan) (bool, error) {
	if err := o.confirmDiff(plan); err != nil {
		return false, err
	}
	switch {
	case plan.Finished() && !o.flags.dryRun:
		return true, o.nothingToDo(ctx, plan)
	case plan.Total() == 0 && plan.Diff != nil && len(plan.Invalid) == 0:
		return true, o.nothingNew(plan)
	case plan.Total() == 0:
		return true, nothingRan("none of the tasks can run")
	}
	return false, nil
}

// nothingNew is the end of a job whose every trial an earlier one has.
func (o *runOptions) nothingNew(plan *app.Plan) error {
	if o.json {
		return printJSON(o.env, dryResult{OK: true, Trials: []dryTrial{}, Invalid: []string{}, Diff: plan.Diff})
	}
	if o.flags.dryRun {
		return o.dryOK(plan)
	}
	_, err := fmt.Fprintln(o.out, "Every trial is in an earlier job; nothing was run.")
	return err
}

// nothingToDo shows a job of which nothing is left to do, and changes none of it.
func (o *runOptions) nothingToDo(ctx context.Context, plan *app.Plan) error {
	s := plan.Summary()
	if err := o.showPlanned(plan, s); err != nil {
		return err
	}
	return outcome(ctx, s)
}

// showPlanned prints the numbers of a job of this process, with what became of
// the verdicts that it graded again.
func (o *runOptions) showPlanned(plan *app.Plan, s app.Summary) error {
	dir, err := filepath.Abs(plan.Dir())
	if err != nil {
		return err
	}
	if o.regraded, err = plan.Regrades(s.Trials); err != nil {
		fmt.Fprintln(o.err, "harbor:", printable(err.Error()))
	}
	return o.showEnd(dir, s)
}

// showEnd prints the numbers of a job.
func (o *runOptions) showEnd(dir string, s app.Summary) error {
	if o.json {
		all := map[string]any{"job_dir": dir, "result": s.Result, "report": reportOf(s)}
		if o.regraded != nil {
			all["regraded"] = o.regraded
		}
		return printJSON(o.env, all)
	}
	writeSummary(o.out, s)
	if o.regraded != nil {
		o.showRegrades(o.regraded)
	}
	if fi, _ := os.Stat(dir); fi == nil || s.Removed {
		return nil
	}
	_, err := fmt.Fprintf(o.out, "\nResults: %s\n", oneLine(o.shown))
	return err
}

// gcPercent makes the heap of a running job grow less than Go's default between
// collections: it keeps little and passes much.
const gcPercent = 15

// watch runs the job with its progress on standard error and its numbers on
// standard output.
func (o *runOptions) watch(ctx context.Context, j *app.Job) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	defer outlivePipes()()
	progress := newProgress(ctx, o.env, j.Events, j.Plan)
	o.prebuild(ctx, j)
	summary, err := j.Run(ctx)
	err = errors.Join(err, j.Close())
	progress.wait()
	if show := o.showPlanned(j.Plan, summary); !errors.Is(show, syscall.EPIPE) && !errors.As(show, new(outputError)) { // nobody reads it, or run says it
		err = errors.Join(err, show)
	}
	if err != nil { // said here: the code below may stand for something else
		say(o.err, err)
	}
	if end := outcome(ctx, summary); end != nil || err == nil {
		return end
	}
	return codedError{code: exitUngraded}
}

// outcome turns a finished job into the exit code.
func outcome(ctx context.Context, s app.Summary) error {
	if err := stopped(ctx); err != nil {
		return err
	}
	x := s.Result.Harborgate
	if x == nil { // of a job that Harbor finished; its trials say it
		x = &trials.JobExtra{}
		for _, t := range s.Trials {
			if t.Valid {
				x.Graded++
			}
		}
	}
	done := x.Graded
	for _, t := range s.Trials {
		if t.Installed {
			done++
		}
	}
	if done < s.Planned || len(x.CleanupFailed)+len(x.InvalidTasks) > 0 {
		return codedError{code: exitUngraded}
	}
	return nil
}

// mostWarnings is how many warnings about tasks a run prints.
const mostWarnings = 20

// reportInvalid names tasks that are left out, with all that is wrong.
func (o *runOptions) reportInvalid(plan *app.Plan) {
	for _, f := range plan.Invalid {
		fmt.Fprintf(o.err, "harbor: task %s is left out:\n", oneLine(f.Path))
		for _, p := range f.Problems.Least(tasks.SeverityError) {
			fmt.Fprintf(o.err, "  %s\n", oneLine(p.String()))
		}
	}
	if n := len(plan.Passed); n > 0 {
		fmt.Fprintf(o.err, "harbor: passed over, because there is nothing to grade: %s: %s\n", plural(n, "earlier trial"), someOf(plan.Passed))
	}
	for i, p := range plan.Warnings {
		if i == mostWarnings {
			fmt.Fprintf(o.err, "harbor: and %d more warnings, see `harbor task check`\n", len(plan.Warnings)-i)
			break
		}
		fmt.Fprintf(o.err, "harbor: warning: %s\n", oneLine(p.String()))
	}
}

// relative shows a path as the user would type it.
func relative(path string) string {
	wd, err := filepath.Abs(".")
	if err != nil {
		return path
	}
	return below(wd, path)
}

// below shows a path that is below a directory from there. Below the root is everything:
// such a path keeps its slash.
func below(wd, path string) string {
	if filepath.Dir(wd) == wd {
		return path
	}
	if rel, err := filepath.Rel(wd, path); err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}
