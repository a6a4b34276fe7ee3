package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"harborgate/agents"
	"harborgate/internal/app"
	"harborgate/providers"
	"harborgate/trials"
)

// snapshotBuild is what `harbor snapshot build` works with.
type snapshotBuild struct {
	*env
	provider *string
	paths    []string
	agents   []string
	kwargs   []string
	dry      bool
}

func newSnapshotBuildCommand(e *env, provider *string) *cobra.Command {
	b := &snapshotBuild{env: e, provider: provider}
	c := jsonFlag(e, &cobra.Command{
		Use: "build", Short: "Make the images of tasks, and those with an agent installed in them", Args: cobra.NoArgs,
		Long: `Make the images that trials of tasks start from: those of environments and of separate
verifiers, and with -a those with an agent installed in the environment, for jobs
with --ak install=inside. What is there already is not made again. A build that
failed a short time ago is tried again.`,
		Example: `  harbor snapshot build -p tasks --dry-run
  harbor snapshot build -p tasks -a codex -a claude-code`,
		RunE: func(c *cobra.Command, _ []string) error {
			return withApp(e, func(_ *env, a *app.App) error { return b.run(c.Context(), a) })
		},
	})
	c.Flags().StringArrayVarP(&b.paths, "path", "p", nil, "task directory, or directory of tasks (repeatable)")
	c.Flags().StringArrayVarP(&b.agents, "agent", "a", nil, "agent to install in the environments (repeatable)")
	c.Flags().StringArrayVar(&b.kwargs, "ak", nil, "option of the agents, key=value, like version=1.2.3 (repeatable)")
	c.Flags().BoolVar(&b.dry, "dry-run", false, "only show what is there and what would be made")
	return c
}

func (b *snapshotBuild) run(ctx context.Context, a *app.App) error {
	cfg, err := b.config()
	if err != nil {
		return refusal(err)
	}
	plan, err := app.NewPlan(cfg, uuid.NewString())
	if err != nil {
		return codedError{exitNothing, err}
	}
	for _, f := range plan.Invalid {
		fmt.Fprintf(b.err, "harbor: task %s is left out, see `harbor task check`\n", oneLine(f.Path))
	}
	p, err := a.Provider(*b.provider)
	if err == nil {
		err = app.CheckProvider(ctx, p)
	}
	if err != nil {
		return codedError{exitNothing, err}
	}
	if err := b.unable(plan, p); err != nil {
		return err
	}
	all := []app.Prebuilt{}
	err = a.BuildImages(ctx, plan, p, b.dry, func(one app.Prebuilt) {
		all = append(all, one)
		if !b.json {
			showBuilt(b.env, one)
		}
	})
	if b.json {
		err = errors.Join(err, printJSON(b.env, all))
	} else {
		fmt.Fprintln(b.out, countBuilt(all))
	}
	if end := stopped(ctx); end != nil {
		return end
	}
	if err == nil && slices.ContainsFunc(all, func(one app.Prebuilt) bool { return one.State == app.ImageFailed }) {
		return codedError{code: exitUngraded}
	}
	return err
}

// unable names the tasks that the provider cannot run, which get no image. It is an error
// when it can run none.
func (b *snapshotBuild) unable(plan *app.Plan, p providers.Provider) error {
	told := map[string]bool{}
	able := false
	for _, t := range plan.Trials {
		why := app.Unsupported(p.Info(), t)
		able = able || why == ""
		if why != "" && !told[t.Task.Name] {
			told[t.Task.Name] = true
			fmt.Fprintf(b.err, "harbor: no image for %s: %s\n", oneLine(t.Task.Name), oneLine(why))
		}
	}
	if !able {
		return nothingRan("provider %s can run none of the tasks", p.Info().Name)
	}
	return nil
}

// config is that of a job whose trials would start from the images.
func (b *snapshotBuild) config() (trials.JobConfig, error) {
	cfg := trials.NewJobConfig()
	f := runFlags{sharedFlags: sharedFlags{paths: b.paths}}
	if err := f.applyTasks(pflag.NewFlagSet("", pflag.ContinueOnError), &cfg); err != nil {
		return cfg, err
	}
	kw, err := kwargs("--ak", b.kwargs)
	if err != nil {
		return cfg, err
	}
	if _, chosen := kw["install"]; !chosen {
		kw["install"] = "inside"
	}
	var arms []trials.AgentConfig
	for _, name := range b.agents {
		one := trials.NewJobConfig().Agents[0]
		one.Name, one.Kwargs = &name, kw
		l, err := agents.LayerOf(one)
		if err != nil {
			return cfg, err
		}
		if l == nil {
			return cfg, fmt.Errorf("agent %s is not installed in images: leave out -a %s", name, name)
		}
		arms = append(arms, one)
	}
	if len(arms) > 0 {
		cfg.Agents = arms
	}
	return cfg, nil
}

func showBuilt(e *env, one app.Prebuilt) {
	fmt.Fprintf(e.out, "%-8s %.12s  %s", one.State, one.Key, oneLine(one.Title))
	if one.State == app.ImageBuilt {
		fmt.Fprintf(e.out, "  %.1f s", one.Sec)
	}
	fmt.Fprintln(e.out)
	if one.Error != "" {
		first, _, _ := strings.Cut(one.Error, "\n")
		fmt.Fprintf(e.out, "         %s\n", oneLine(first))
		if one.Log != "" {
			fmt.Fprintf(e.out, "         its log is %s\n", oneLine(one.Log))
		}
	}
}

// countBuilt says how many images there are in each state.
func countBuilt(all []app.Prebuilt) string {
	var words []string
	for _, state := range []app.BuildState{app.ImageBuilt, app.ImagePresent, app.ImageMissing, app.ImageFailed} {
		n := 0
		for _, one := range all {
			if one.State == state {
				n++
			}
		}
		if n > 0 || state == app.ImageBuilt {
			words = append(words, fmt.Sprintf("%d %s", n, state))
		}
	}
	return plural(len(all), "image") + ": " + strings.Join(words, ", ")
}

// prebuild makes a job's images before its trials, where that is asked for.
func (o *runOptions) prebuild(ctx context.Context, j *app.Job) {
	if !o.flags.prebuild {
		return
	}
	var all []app.Prebuilt
	j.Prebuild(ctx, func(one app.Prebuilt) { all = append(all, one) })
	fmt.Fprintln(o.err, "harbor:", countBuilt(all))
}
