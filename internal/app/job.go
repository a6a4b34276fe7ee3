package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"harborgate/agents"
	"harborgate/internal/events"
	"harborgate/providers"
	"harborgate/scheduler"
	"harborgate/snapshots"
	"harborgate/trials"
	"harborgate/trials/results"
	"harborgate/trials/runner"
	"harborgate/trials/stats"
)

// Version is this program's, written into lock.json.
const Version = "0.1.0"

// maxBuilds is how many images a job builds at once unless configured: builds
// want the whole machine.
const maxBuilds = 2

// Job is a job that this process runs. Make it with StartJob, run it once, Close it.
type Job struct {
	Dir    string
	Events *events.Log
	Plan   *Plan
	Notes  []trials.Note // about the way to models, before anything runs

	app     *App
	fleet   Fleet
	sites   []*site
	models  *models
	tally   *tally
	files   *results.Job
	logFile *os.File
	log     *slog.Logger
	full    bool         // it ended because nothing could be written
	told    sync.Map     // keys of failed builds that users have heard of
	closed  func() error // close, once
}

// Summary is how a job ended.
type Summary struct {
	Result  trials.JobResult
	Trials  []stats.Trial
	Planned int
	ByKey   map[stats.Key]int // planned trials by arm and data set
	Damage  error             // why Result is RestoredResult, nil when it was read
	Removed bool              // somebody removed the job's directory while it ran
}

// Settings are the wishes of the command line that no configuration holds.
type Settings struct {
	PassCredentials bool
	// Budgets of the job and of each trial; zero is those of config.yaml. A job that
	// goes on keeps what it had unless told otherwise.
	Budget, TrialBudget USD
	// Transcripts keeps what is said to models and by them, without keys.
	Transcripts bool
}

// StartJob makes the job's directory, or takes over the one that Continue holds,
// and everything it needs; nothing runs yet. A directory that it made does not outlive
// its error.
func (a *App) StartJob(plan *Plan, fleet Fleet, set Settings) (*Job, error) {
	files, err := plan.files()
	if err != nil {
		return nil, lacking(plan.Dir(), err)
	}
	j := &Job{Dir: files.Dir, Plan: plan, app: a, files: files}
	j.closed = sync.OnceValue(j.close)
	err = j.open(fleet, set)
	if err == nil {
		err = a.remember(j.Dir, plan)
	}
	if err != nil {
		if plan.Past == nil {
			err = errors.Join(err, files.Discard())
		}
		return nil, oneCause(plan.Dir(), errors.Join(err, j.Close()))
	}
	return j, nil
}

func (p *Plan) files() (*results.Job, error) {
	if p.Past == nil {
		return results.CreateJob(p.Dir())
	}
	if err := p.Past.clear(); err != nil {
		return nil, err
	}
	files := p.Past.files
	p.Past.files = nil // the job's from here on
	return files, nil
}

func (j *Job) open(fleet Fleet, set Settings) (err error) {
	if err = j.files.WriteConfig(j.Plan.Config); err != nil {
		return err
	}
	if j.Events, err = events.Open(filepath.Join(j.Dir, results.EventsFile)); err != nil {
		return err
	}
	if j.logFile, err = os.OpenFile(filepath.Join(j.Dir, results.JobLogFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		return err
	}
	own := slog.NewTextHandler(j.logFile, &slog.HandlerOptions{Level: slog.LevelInfo})
	j.log = slog.New(slog.NewMultiHandler(own, j.app.log.Handler()))
	if err = j.openSites(fleet); err != nil {
		return err
	}
	j.tally = newTally(j.files, j.Plan, fleet.Names())
	if set, err = set.over(j.Plan.Past); err != nil {
		return err
	}
	j.tally.extra.Budgets = set.budgets()
	if err = j.openModels(set); err != nil {
		return err
	}
	j.openRunners()
	return j.tally.start()
}

// removals is how many sandboxes may go while their slots are used again: enough
// to hide the time that it takes, not enough to fill the host with dying ones.
const removals = 4

func (a *App) newRunner(p providers.Provider, images *runner.Images, ev runner.Events, c runner.Credentials, log *slog.Logger, removed func(string, providers.ID, error)) *runner.Runner {
	opt := runner.Options{
		Provider: p, Images: images, Events: ev, Credentials: c, Lookup: a.opt.Lookup,
		Packages: a.packages.Get,
		Owner:    a.owner.ID, Host: a.owner.Host, Logger: log, OnRemoved: removed, Removals: removals,
		AwaitRemoval: a.Host.Providers[p.Info().Name].Limits.Room(),
	}
	if dir, err := a.owner.Temp(); err == nil {
		opt.TempDir = dir
	} else {
		log.Warn("temporary files go to the system's directory", "error", err)
	}
	return runner.New(opt)
}

// Run runs all trials. When ctx ends, running trials are cancelled, leave their
// results, and the job counts as interrupted by the context's cause.
func (j *Job) Run(ctx context.Context) (Summary, error) {
	j.Events.Emit(trials.NewEvent(trials.EventJobStart, "", 0, 0, map[string]any{
		"job_id": j.Plan.ID, "n_trials": j.Plan.Total(), "kept": j.Plan.Total() - len(j.Plan.Trials), "provider": j.tally.extra.Provider, "concurrency": j.Plan.Config.NConcurrentTrials,
	}))
	if was, now := j.Plan.Past, EnvironmentName(j.Plan.Config.Environment); was != nil && was.environment != now {
		j.note("other_providers", fmt.Sprintf("the job began on %s and goes on with %s: each result names its provider", was.environment, now))
	}
	ctx, stop := j.watchOutages(ctx)
	defer stop(nil)
	j.models.stop = stop
	locked := make(chan error, 1)
	go func() { locked <- j.writeLock() }()
	unstarted, err := scheduler.Run(ctx, scheduler.Options{
		MaxTrials: j.parallel(), Pools: j.pools(), Sites: j.scheduled(ctx), Runner: tries{j}, Readiness: j,
	}, j.schedule())
	for _, s := range j.sites {
		s.runner.Wait()
		j.removeLost(ctx, s)
		for id, err := range s.images.RemoveLeft(ctx) {
			j.tally.cleanupFailed(fmt.Sprintf("%s of a build: %v", id, err))
		}
	}
	err = errors.Join(err, <-locked)
	if cause := context.Cause(ctx); errors.As(cause, new(*OutageError)) || errors.As(cause, new(*results.GoneError)) || errors.As(cause, new(*BudgetError)) {
		err = errors.Join(err, cause)
	}
	j.noteStanding()
	interrupted := ""
	if ctx.Err() != nil {
		interrupted = context.Cause(ctx).Error()
	} else if err != nil {
		interrupted = err.Error()
	}
	j.tally.spent(j.models.spent())
	res, werr := j.tally.finish(interrupted)
	j.Events.Emit(trials.NewEvent(trials.EventJobEnd, "", 0, 0, map[string]any{
		"graded": res.Harborgate.Graded, "ungraded": res.Harborgate.Ungraded, "unstarted": unstarted, "interrupted": interrupted,
	}))
	return Summary{
		Result: res, Trials: j.tally.all(), Planned: j.Plan.Total(), ByKey: j.Plan.byKey(), Removed: errors.As(err, new(*results.GoneError)),
	}, j.ended(errors.Join(err, werr))
}

// writeLock reads every task once for its digest, beside the first trials.
func (j *Job) writeLock() error {
	lock := trials.JobLock{
		SchemaVersion: trials.JobLockSchema, CreatedAt: trials.At(time.Now()),
		Harbor: trials.HarborInfo{Version: Version}, NConcurrentTrials: j.Plan.Config.NConcurrentTrials, Retry: j.Plan.Config.Retry,
	}
	if was, err := results.ReadJobLock(j.Dir); err == nil && was.CreatedAt != nil {
		lock.CreatedAt, lock.Harbor = was.CreatedAt, was.Harbor
	}
	return j.files.WriteLock(lock, func(yield func(trials.TrialLock, error) bool) {
		for i := range j.Plan.all {
			if !yield(j.Plan.all[i].lock()) {
				return
			}
		}
	})
}

// needs is what a trial declares.
func (p PlannedTrial) needs() scheduler.Resources {
	env, over := p.Task.Config.Environment, p.Config.Environment
	return scheduler.Resources{
		CPUs: value((*float64)(over.OverrideCPUs), env.CPUs), MemoryMiB: value(over.OverrideMemoryMiB, env.MemoryMiB),
		DiskMiB: value(over.OverrideStorageMiB, env.StorageMiB), GPUs: env.GPUs,
	}
}

func value[T any](values ...*T) (zero T) {
	for _, v := range values {
		if v != nil {
			return *v
		}
	}
	return zero
}

// pool is the arm's own limit, or the group that it shares one with.
func pool(a trials.AgentConfig) string {
	if a.ConcurrencyGroup != nil {
		return "group " + *a.ConcurrencyGroup
	}
	model := ""
	if a.ModelName != nil {
		model = *a.ModelName
	}
	return a.AgentName() + " " + model
}

func (j *Job) pools() map[string]int {
	out := map[string]int{}
	for _, a := range j.Plan.Config.Agents {
		if a.NConcurrent != nil {
			out[pool(a)] = *a.NConcurrent
		}
	}
	return out
}

// Build makes one image at a site; trials that need it learn how that went.
func (j *Job) Build(ctx context.Context, at int, key string) {
	_, _ = j.build(ctx, at, key) // its end is an event
}

func (j *Job) build(ctx context.Context, at int, key string) (cached bool, err error) {
	s := j.sites[at]
	r := s.requests[key]
	begun := time.Now()
	about := map[string]any{"key": key, "title": r.Title, "provider": s.name, "several": len(j.sites) > 1}
	j.Events.Emit(trials.NewEvent(trials.EventBuildStart, "", 0, 0, about))
	r.Slot = j.app.buildSlot(s)
	hold, err := s.images.Get(ctx, r)
	data := maps.Clone(about)
	data["dur_ms"] = time.Since(begun).Milliseconds()
	if err != nil {
		data["error"], data["cancelled"], data["again"] = err.Error(), ctx.Err() != nil, snapshots.ProviderFailed(err)
		j.tellFailed(ctx, err)
	} else {
		cached = hold.Cached
		data["cached"] = cached
		hold.Release()
	}
	j.Events.Emit(trials.NewEvent(trials.EventBuildEnd, "", 0, 0, data))
	if err == nil && !cached {
		j.app.prune(ctx, s.Provider, slices.Collect(maps.Values(s.requests)))
	}
	return cached, err
}

// describe is a function of its own because its copies of a configuration would
// stay on the stack as long as the try runs.
func (j *Job) describe(t *PlannedTrial, a scheduler.Assignment, sink runner.Sink) *runner.Try {
	own := t.Own()
	try := &runner.Try{
		Config: &own, Task: t.Task.Task, Job: j.Plan.Config.JobName, ID: uuid.NewString(),
		Attempt: t.Attempt, Number: t.earlier + a.Try, Retries: t.retries + a.Try - 1 - a.Moves, Waited: a.Waited, Images: a.Images, Sink: sink,
	}
	if len(j.fleet) > 1 {
		try.Unsupported = j.fleet.Unsupported(*t)
	}
	var errs [4]error
	lock, err := t.lock()
	try.Lock, errs[0] = &lock, err
	try.TaskChecksum, errs[1] = t.Task.checksum()
	try.TaskDigest, errs[2] = t.digest()
	try.Source, errs[3] = t.source()
	try.Invalid = errors.Join(errs[:]...)
	return try
}

// lost is the result of a trial that has no directory to write one to.
func (j *Job) lost(t *PlannedTrial, a scheduler.Assignment, err error) *trials.Result {
	j.log.Warn("trial directory could not be made", "trial", t.Name, "error", err)
	f := trials.NewFailure(trials.PhaseQueue, trials.CauseHost, "", err.Error())
	now := trials.At(time.Now())
	j.Emit(trials.NewEvent(trials.EventEnd, t.Name, t.Attempt, 0, map[string]any{
		"reward_valid": false, "exception": f.Exception, "blame": f.Blame, "phase": f.Phase, "message": f.Message,
	}))
	return &trials.Result{
		TrialName: t.Name, TaskName: t.Task.Name, Config: t.Own(), StartedAt: now, FinishedAt: now,
		AgentInfo: agents.InfoOf(t.Config.Agent), Source: t.Config.Task.Source,
		ExceptionInfo: f.Info(now, trials.PolicyOf(f.Exception, t.Config.OverrideErrorPolicy)),
		Harborgate:    &trials.Extra{Failure: f, Attempt: t.Attempt, Retries: t.retries + a.Try - 1 - a.Moves},
	}
}

// Close gives the job's directory free. Twice is fine.
func (j *Job) Close() error { return j.closed() }

func (j *Job) close() error {
	var errs []error
	if j.tally != nil {
		j.tally.close()
	}
	if j.Events != nil {
		if err := j.Events.Close(); !j.full {
			errs = append(errs, err)
		}
	}
	if j.models != nil {
		errs = append(errs, j.models.close())
	}
	for _, s := range j.sites {
		if s.store != nil {
			s.store.Close()
		}
	}
	if j.logFile != nil {
		errs = append(errs, j.logFile.Close())
	}
	return errors.Join(append(errs, j.files.Close())...)
}
