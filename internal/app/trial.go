package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/google/uuid"

	"harborgate/internal/events"
	"harborgate/providers"
	"harborgate/tasks"
	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/runner"
)

// RunTrial runs one trial without a job, in TrialsDir/TrialName. There is no
// retry.
func (a *App) RunTrial(ctx context.Context, cfg trials.TrialConfig, p providers.Provider, set Settings) (res *trials.Result, err error) {
	if err := local(cfg.Task); err != nil {
		return nil, err
	}
	task, problems := tasks.Load(*cfg.Task.Path, tasks.LoadOptions{NoVerification: cfg.Verifier.Disable || cfg.InstallOnly})
	if err := problems.Err(); err != nil {
		return nil, err
	}
	t := PlannedTrial{Planned: trials.Planned{Attempt: 1, Name: cfg.TrialName, Config: &cfg}, Task: newPlannedTask(task)}
	id, dir := uuid.NewString(), filepath.Join(cfg.TrialsDir, cfg.TrialName)
	m := a.newModels(ctx, set, user{
		name: cfg.TrialName, id: id, agents: []trials.AgentConfig{cfg.Agent}, trialDir: func(string) string { return dir },
	}, a.log)
	defer func() { err = errors.Join(err, m.close()) }()
	if err := errors.Join(Alone(p).Installable(&Plan{Trials: []PlannedTrial{t}}), m.ready(ctx, cfg.Agent)); err != nil {
		return nil, err
	}
	files, err := results.CreateJob(dir)
	var exists *results.ExistsError
	if errors.As(err, &exists) {
		return nil, fmt.Errorf("trial directory %s exists already: choose another --trial-name or --trials-dir, or remove it", exists.Dir)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	log, err := events.Open(filepath.Join(files.Dir, results.EventsFile))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	store, err := a.snapshotStore(p.Info().Name)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	try, err := onlyTry(t, task, files.Dir, id)
	if err != nil {
		return nil, err
	}
	if _, _, err := a.hold(ctx, p, files.Dir); err != nil {
		return nil, err
	}
	release, err := a.leases(p.Info().Name).one(ctx, t.needs())
	if err != nil {
		return nil, err
	}
	try.Gone = release // what stays keeps its lease: who comes next removes it first
	r := a.newRunner(p, runner.NewImages(a.imagesOf(p, store)), log, m, a.log, nil)
	defer r.Wait()
	return r.Run(ctx, try), nil
}

// onlyTry is the try of a trial that has no job.
func onlyTry(t PlannedTrial, task *tasks.Task, dir, id string) (*runner.Try, error) {
	sink, err := results.NewTrial(dir, 1, results.DefaultLimits())
	if err != nil {
		return nil, err
	}
	try := &runner.Try{Config: t.Config, Task: task, ID: id, Attempt: 1, Number: 1, Sink: sink}
	lock, err := t.lock()
	if err != nil {
		return nil, fmt.Errorf("trial %s: %w", t.Name, err)
	}
	try.Lock = &lock
	if try.TaskChecksum, err = t.Task.checksum(); err != nil {
		return nil, fmt.Errorf("trial %s: %w", t.Name, err)
	}
	if try.Source, err = t.source(); err != nil {
		return nil, fmt.Errorf("trial %s: %w", t.Name, err)
	}
	return try, nil
}
