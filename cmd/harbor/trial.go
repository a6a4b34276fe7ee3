package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harborgate/agents"
	"harborgate/configs"
	"harborgate/internal/app"
	"harborgate/providers"
	"harborgate/trials"
	"harborgate/trials/results"
)

// trialOptions are what `harbor trial start` works with.
type trialOptions struct {
	*env
	flags                  sharedFlags
	name, dir              string
	agentLimit, setUpLimit float64
	verifierLimit          float64
	cmd                    *cobra.Command
}

func newTrialStartCommand(e *env) *cobra.Command {
	o := newTrialOptions(e, &cobra.Command{Use: "start", Short: "Run one trial without a job", Args: cobra.NoArgs})
	o.cmd.RunE = func(c *cobra.Command, _ []string) error { return o.run(c.Context()) }
	jsonFlag(e, o.cmd)
	return o.cmd
}

// newTrialOptions gives a command the flags of a trial.
func newTrialOptions(e *env, c *cobra.Command) *trialOptions {
	o := &trialOptions{env: e, cmd: c}
	addSharedFlags(o.cmd, &o.flags)
	s := o.cmd.Flags()
	s.StringVar(&o.name, "trial-name", "", "name of the trial's directory")
	s.StringVar(&o.dir, "trials-dir", "", "directory of trials (default trials)")
	s.Float64Var(&o.agentLimit, "agent-timeout", 0, "time limit of the agent in seconds")
	s.Float64Var(&o.setUpLimit, "agent-setup-timeout", 0, "time limit of the agent's set-up in seconds")
	s.Float64Var(&o.verifierLimit, "verifier-timeout", 0, "time limit of the verifier in seconds")
	alias(s, "env", "environment-type")
	return o
}

func (o *trialOptions) config() (trials.TrialConfig, error) {
	if err := loadEnvFile(o.flags.envFile); err != nil {
		return trials.TrialConfig{}, err
	}
	cfg, problems := configs.LoadTrial(o.flags.configs)
	if err := problems.Err(); err != nil && len(o.flags.configs) > 0 {
		return cfg, err
	}
	s := o.cmd.Flags()
	if len(o.flags.configs) == 0 {
		cfg = trials.NewTrialConfig(trials.TaskConfig{})
	}
	if len(o.flags.paths) > 1 || len(o.flags.models) > 1 {
		return cfg, fmt.Errorf("a trial has one task and one model: use `harbor run` for more")
	}
	if len(o.flags.paths) == 1 {
		path := named(o.flags.paths[0])
		cfg.Task = trials.TaskConfig{Path: &path}
	}
	if cfg.Task.Reference() == "" && !o.flags.partial {
		return cfg, fmt.Errorf("there is nothing to run: give a task directory with -p")
	}
	set(s, &cfg.TrialsDir, o.dir, "trials-dir")
	set(s, &cfg.TrialName, o.name, "trial-name")
	if cfg.TrialName == "" {
		name, err := trials.TrialName(cfg.Task.Reference(), rand.Reader)
		if err != nil {
			return cfg, err
		}
		cfg.TrialName = name
	}
	return cfg, o.apply(&cfg)
}

// set puts the flags that were given on top of a configuration.
func (o *trialOptions) set(cfg *trials.TrialConfig) error {
	s := o.cmd.Flags()
	o.flags.applyMultipliers(s, &cfg.Multipliers)
	cfg.Agent = o.flags.arms(s, []trials.AgentConfig{cfg.Agent})[0]
	cfg.InstallOnly = cfg.InstallOnly || o.flags.installOnly
	if given(s, "artifact") {
		cfg.Artifacts = artifactList(o.flags.artifacts)
	}
	set(s, &cfg.ExtraInstructionPaths, o.flags.extraInstructionPaths, "extra-instruction-path")
	set(s, &cfg.ExtraInstructions, o.flags.extraInstructions, "extra-instruction")
	setFloat(s, &cfg.Agent.OverrideTimeoutSec, o.agentLimit, "agent-timeout")
	setFloat(s, &cfg.Agent.OverrideSetupTimeoutSec, o.setUpLimit, "agent-setup-timeout")
	setFloat(s, &cfg.Verifier.OverrideTimeoutSec, o.verifierLimit, "verifier-timeout")
	err := errors.Join(o.flags.applyAgent(s, &cfg.Agent), o.flags.applyEnvironment(s, &cfg.Environment), o.flags.applyVerifier(s, &cfg.Verifier))
	if cfg.InstallOnly {
		cfg.Verifier.Disable = true
	}
	return err
}

// apply also holds the result against what can be run.
func (o *trialOptions) apply(cfg *trials.TrialConfig) error {
	inFiles := checkAgents([]trials.AgentConfig{cfg.Agent})
	err := o.set(cfg)
	typed := checkAgents([]trials.AgentConfig{cfg.Agent})
	errs := []error{err, app.CheckTrial(*cfg)}
	for _, e := range cfg.Validate() {
		if e.Path != "task" || !o.flags.partial {
			errs = append(errs, e)
		}
	}
	_, unmade := agents.New(agents.Input{Config: cfg.Agent})
	return blamed(inFiles, typed, errors.Join(append(errs, unmade)...))
}

func (o *trialOptions) run(ctx context.Context) error {
	cfg, err := o.config()
	if err != nil {
		return refusal(err)
	}
	if o.flags.printConfig {
		return printJSON(o.env, cfg.Redacted(o.lookup))
	}
	return o.start(ctx, cfg)
}

func (o *trialOptions) start(ctx context.Context, cfg trials.TrialConfig) error {
	return withApp(o.env, func(e *env, a *app.App) error {
		p, err := firstThatAnswers(ctx, o.cmd.Flags(), a, cfg.Environment)
		if err != nil {
			return refusal(err)
		}
		o.say("Trial: %s\nTask: %s\nAgent: %s\nEnvironment: %s\nTrials dir: %s\n", oneLine(cfg.TrialName), oneLine(cfg.Task.Reference()), oneLine(cfg.Agent.AgentName()), p.Info().Name, cfg.TrialsDir)
		defer outlivePipes()()
		res, err := a.RunTrial(ctx, cfg, p, o.flags.settings)
		if err != nil {
			return codedError{exitNothing, err}
		}
		return errors.Join(o.report(res), trialOutcome(ctx, res))
	})
}

// firstThatAnswers is the provider of a trial that has no job: the first of those that
// the configuration names.
func firstThatAnswers(ctx context.Context, s *pflag.FlagSet, a *app.App, c trials.EnvironmentConfig) (providers.Provider, error) {
	fleet, err := openFleet(s, a, c)
	if err != nil {
		return nil, err
	}
	if _, err := fleet.Check(ctx); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(fleet, func(m app.Member) bool { return m.Down == nil })
	return fleet[i].Provider, nil
}

// say prints for humans; with --json nothing but the result goes to standard
// output.
func (o *trialOptions) say(format string, args ...any) {
	if !o.json {
		fmt.Fprintf(o.out, format, args...)
	}
}

func (o *trialOptions) report(r *trials.Result) error {
	if o.json {
		return printJSON(o.env, r)
	}
	o.say("\nTrial completed!\nTrial: %s\nTask: %s\nStarted: %s\nFinished: %s\n", oneLine(r.TrialName), oneLine(r.TaskName), r.StartedAt.Format("2006-01-02 15:04:05Z"), r.FinishedAt.Format("2006-01-02 15:04:05Z"))
	if x := r.ExceptionInfo; x != nil {
		o.say("Error: %s: %s\n", oneLine(x.Type), printableEnds(x.Message, filepath.Join(r.Config.TrialsDir, r.TrialName, results.ExceptionFile)))
	}
	switch {
	case r.VerifierResult != nil:
		o.say("Rewards: %s\n", oneLine(rewardText(r.VerifierResult.Rewards)))
	case r.Installed():
		o.say("Installed: environment and agent %s %s are set up, no more was asked for.\n", oneLine(r.AgentInfo.Name), oneLine(r.AgentInfo.Version))
	case r.ExceptionInfo == nil:
		o.say("No error, and no verifier result.\n")
	}
	return nil
}

func trialOutcome(ctx context.Context, r *trials.Result) error {
	var sig signalError
	switch {
	case errors.As(context.Cause(ctx), &sig):
		return codedError{exitSignalled + int(sig.Signal), fmt.Errorf("stopped by %w", sig)}
	case !r.RewardValid && !r.Installed():
		return codedError{code: exitUngraded}
	}
	return nil
}
