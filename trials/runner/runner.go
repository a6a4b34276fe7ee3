// Package runner executes one try of one trial, from an empty slot to a durable
// result and a removed sandbox.
//
//	prepare → set up agent → run agent → collect → verify → tear down
//
// Run always returns a Result, never an error: what went wrong is a Failure in
// it, with the phase, the cause and whom to blame. Agent processes are dead
// before verification starts. Every step has a limit of its own and the try has
// one as a whole.
//
// The runner writes through a Sink and talks through interfaces that it declares
// in ports.go; it knows neither the job nor where results are kept.
package runner

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"harborgate/agents"
	"harborgate/agents/packages"
	"harborgate/internal/redact"
	"harborgate/providers"
	"harborgate/snapshots"
	"harborgate/tasks"
	"harborgate/trials"
)

// Options are what a Runner works with. All fields but Credentials are needed.
type Options struct {
	Provider    providers.Provider
	Images      *Images
	Events      Events
	Credentials Credentials                      // nil passes everything
	Lookup      func(name string) (string, bool) // variables of the host
	// Packages gets the directory of an agent's package on this host; nil has none.
	Packages    func(ctx context.Context, p packages.Package) (dir string, err error)
	Owner, Host string // of the labels
	Logger      *slog.Logger
	// TempDir is for files on their way into a sandbox; "" is the system's.
	TempDir string
	// Removals is how many sandboxes may be on their way out while their slots
	// are used again; beyond that a try waits. 0 is 4.
	Removals int
	// AwaitRemoval ends a try only when its sandboxes are gone: where a provider
	// allows so many, one that goes counts too.
	AwaitRemoval bool
	// OnRemoved is told how the removal of each sandbox ended for good; may be nil.
	OnRemoved func(trial string, id providers.ID, err error)
}

// Runner executes tries. Safe for concurrent use.
type Runner struct {
	opt      Options
	removals removals
}

const defaultRemovals = 4

// New returns a Runner.
func New(o Options) *Runner {
	if o.Removals <= 0 {
		o.Removals = defaultRemovals
	}
	return &Runner{opt: o, removals: removals{slots: make(chan struct{}, o.Removals)}}
}

// Try is one execution of one trial.
type Try struct {
	Config  *trials.TrialConfig // the result takes it over: it is not small
	Task    *tasks.Task         // nil when it could not be loaded; Invalid says why
	Invalid error
	// Unsupported is what it needs and none of several providers has; "" leaves it to the
	// runner to ask its own.
	Unsupported string
	Lock        *trials.TrialLock // written first, and let go
	Job         string            // name, for labels; "" for a trial without a job
	ID          string            // UUID of the result
	Attempt     int               // from 1
	Number      int               // from 1: the how-manieth try this is
	Retries     int               // how many of the earlier ones failed
	Waited      time.Duration     // for a slot
	Images      time.Duration     // that it waited for its images before

	TaskChecksum string
	TaskDigest   string  // see trials.Extra
	Source       *Source // grade this trial's work, run no agent; nil runs one
	Sink         Sink
	// Gone is told once when no sandbox of the try is left: before Run returns, or later;
	// never when one cannot be removed. May be nil.
	Gone func()
}

// Run executes a try. When it returns, the result is on disk and the sandbox is
// being removed, see Wait. When ctx ends, the try is cancelled and still leaves a
// result and no sandbox.
func (r *Runner) Run(ctx context.Context, t *Try) *trials.Result {
	var x *run
	aside(func() { x = r.begin(t) })
	defer x.teardown(ctx)
	defer x.cutter.after(ctx, r.answers)()

	bounded, cancel := x.deadline(ctx)
	defer cancel()
	x.fail(x.lifecycle(bounded))
	if x.res.ExceptionInfo != nil && x.sandbox != nil {
		x.salvage()
	}
	aside(x.finish)
	return x.res
}

// aside runs f on a goroutine of its own and waits for it. Its stack goes with it; as
// part of the try's own it would stay as large until the try ends, and tries are many.
func aside(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// lifecycle is the life of a try. What it returns is why it ended early; a
// failure of the agent alone does not end it.
func (x *run) lifecycle(ctx context.Context) *trials.Failure {
	var wrong *trials.Failure
	if aside(func() { wrong = x.construct() }); wrong != nil {
		return wrong
	}
	if x.t.Source != nil {
		return x.regrade(ctx)
	}
	if f := x.prepare(ctx); f != nil {
		if x.sandbox == nil { // else it says what it has to say
			x.manifestOfNothing()
		}
		return f
	}
	if f := x.setUpAgent(ctx); f != nil {
		return f
	}
	if x.t.Config.InstallOnly {
		return nil
	}
	if f := x.runAgent(ctx); f != nil {
		x.fail(f)
		if f.Cause == trials.CauseCancelled || f.Cause == trials.CauseDeadline || f.Exception == trials.ExcSandboxLost {
			return f
		}
	}
	if f := x.collect(ctx); f != nil {
		return f
	}
	if !x.toBeGraded() {
		return nil
	}
	return x.verify(ctx)
}

// run is one try under way. One goroutine uses it.
type run struct {
	r     *Runner
	t     *Try
	begun time.Time
	res   *trials.Result
	log   *slog.Logger

	limits      trials.Timeouts
	instruction string
	env         environment
	secrets     *redact.Redactor
	hidden      []string // what secrets hides
	tools       []tasks.MCPServer
	agent       agents.Agent
	kwargs      kwargs

	place    *agents.Workplace
	layered  bool              // the sandbox came with the agent installed
	bundle   []providers.Mount // directories of this host with the agent's programs
	streamed *streamed

	holds           []*snapshots.Hold
	sandbox         providers.Sandbox
	cutter          cutter
	removed         bool             // the sandbox was destroyed before its time (separate verifier)
	stuck           atomic.Int32     // the try itself, and removals that failed
	verifierImage   providers.Source // of a separate verifier
	verifierSandbox providers.Sandbox
	verifierStatus  providers.ExitStatus
	rewardRefused   string // why a reward file was not taken, as the end of a sentence

	unreached *trials.Failure // models could not be reached in the phase that just ended

	collected bool
	artifacts []collectedArtifact
	missing   missing
}

func (r *Runner) begin(t *Try) *run {
	x := &run{r: r, t: t, begun: time.Now(), streamed: &streamed{sink: t.Sink}}
	x.stuck.Store(1)
	x.log = t.Sink.Logger(r.opt.Logger)
	x.res = &trials.Result{
		SchemaVersion: trials.ResultSchema, ID: t.ID, TrialName: t.Config.TrialName, TrialURI: t.Sink.URI(),
		TaskID: taskID(t.Config.Task), Source: t.Config.Task.Source, TaskChecksum: t.TaskChecksum,
		Config: *t.Config, TaskName: t.Config.Task.Reference(), StartedAt: trials.At(x.begun),
		AgentInfo: agents.InfoOf(t.Config.Agent),
		Harborgate: &trials.Extra{
			Provider: r.opt.Provider.Info().Name, Attempt: t.Attempt, Try: t.Number, WaitSec: seconds(t.Waited),
			SnapshotSec: seconds(t.Images), SnapshotQueueSec: seconds(t.Images), Retries: t.Retries, TaskDigest: t.TaskDigest,
		},
	}
	t.Config = &x.res.Config
	if t.Task != nil {
		x.res.TaskName = t.Task.Name
		if !t.Task.Multistep() {
			mode := string(t.Task.VerifierMode(nil))
			x.res.VerifierEnvironmentMode = &mode
		}
		x.limits = trials.EffectiveTimeouts(t.Task.Config, nil, *t.Config)
		x.res.Harborgate.Timeouts = x.limits.Map()
	}
	if t.Source != nil {
		x.takeOver(t.Source.Result)
	}
	x.emit(trials.EventStart, nil)
	return x
}

func taskID(c trials.TaskConfig) trials.TaskID {
	id := trials.TaskID{}
	for to, from := range map[*string]*string{&id.Path: c.Path, &id.GitURL: c.GitURL, &id.GitCommitID: c.GitCommitID, &id.Name: c.Name, &id.Ref: c.Ref} {
		if from != nil {
			*to = *from
		}
	}
	return id
}

// toBeGraded reports whether verification makes sense after what happened.
func (x *run) toBeGraded() bool {
	if x.t.Config.Verifier.Disable {
		return false
	}
	if f := x.res.Harborgate.Failure; f != nil && f.Cause == trials.CauseBudget {
		return false // Harbor's policy of the name would grade it, for nothing: it has no verdict
	}
	e := x.res.ExceptionInfo
	return e == nil || e.Policy.ShouldGrade
}

// fail records the failure that decides about a try: the first one, but for an
// agent's that would have been graded all the same, and whose verdict a later one
// cost. That one has the blame, and is retried or not. The other is a note.
func (x *run) fail(f *trials.Failure) {
	before := x.res.Harborgate.Failure
	switch {
	case f == nil || before == f:
		return
	case before == nil:
	case x.res.VerifierResult == nil && x.toBeGraded():
		x.note("agent_failure", before.Error())
	default:
		x.note("later_failure", f.Error())
		return
	}
	f.Message = string(x.secrets.Bytes([]byte(f.Message)))
	f.Detail = string(x.secrets.Bytes([]byte(f.Detail)))
	policy := trials.PolicyOf(f.Exception, x.t.Config.OverrideErrorPolicy)
	info := f.Info(x.now(), policy)
	if o, ok := x.t.Config.OverrideErrorPolicy[f.Exception]; ok {
		info.PolicyOverride = &o
	}
	x.res.ExceptionInfo, x.res.Harborgate.Failure = info, f
	x.log.Warn("failure", "phase", f.Phase, "exception", f.Exception, "blame", f.Blame, "error", f.Message)
	if err := x.t.Sink.Write("exception.txt", []byte(info.Traceback+"\n")); err != nil {
		x.log.Warn("exception.txt could not be written", "error", err)
	}
}

// note keeps something that changes no verdict.
func (x *run) note(code, message string) {
	message = string(x.secrets.Bytes([]byte(message)))
	for _, n := range x.res.Harborgate.Notes {
		if n.Code == code && n.Message == message {
			return
		}
	}
	x.res.Harborgate.Notes = append(x.res.Harborgate.Notes, trials.Note{Code: code, Message: message})
	x.log.Warn("note", "code", code, "message", message)
	x.emit(trials.EventNote, map[string]string{"code": code, "message": message})
}

// now is the time of a try: the host's when it began, and from then on what passed.
// A clock that is set meanwhile makes no phase longer, and none end before it began.
func (x *run) now() *trials.Time { return trials.At(x.begun.Add(time.Since(x.begun))) }

// finish writes the result, durable before anybody learns of it.
func (x *run) finish() {
	x.res.RewardValid = x.res.VerifierResult != nil && len(x.res.VerifierResult.Rewards) > 0 &&
		(x.res.ExceptionInfo == nil || x.res.ExceptionInfo.Policy.HasValidReward)
	x.res.FinishedAt = x.now()
	if err := x.t.Sink.Finish(x.res); err != nil {
		x.fail(trials.NewFailure(trials.PhaseTeardown, x.hostCause(err), "", "the result could not be written: "+err.Error()))
		x.res.RewardValid = false
	}
	data := map[string]any{"task": x.res.TaskName, "reward_valid": x.res.RewardValid}
	if x.res.Installed() {
		data["installed"] = true
	}
	if v := x.res.VerifierResult; v != nil {
		data["rewards"] = v.Rewards
	}
	if f := x.res.Harborgate.Failure; f != nil {
		data["exception"], data["blame"], data["phase"], data["message"] = f.Exception, f.Blame, f.Phase, f.Message
	}
	if x.res.Cancelled() {
		x.emit(trials.EventCancel, nil)
	}
	x.emit(trials.EventEnd, data)
}

func (x *run) emit(t trials.EventType, data any) {
	x.r.opt.Events.Emit(trials.NewEvent(t, x.t.Config.TrialName, x.t.Attempt, x.t.Number, data))
}

// phase runs f as a phase: under its limit, with its timing and events.
func (x *run) phase(ctx context.Context, p trials.Phase, timing **trials.Timing, limit trials.Limit, f func(context.Context) error) *trials.Failure {
	begun := time.Now()
	*timing = &trials.Timing{StartedAt: x.now()}
	x.emit(trials.EventPhaseStart, map[string]any{"phase": p})
	x.log.Info("phase started", "phase", p)
	ctx, cancel := withLimit(ctx, p, limit)
	defer cancel()
	err := f(ctx)
	fail := x.explain(ctx, p, time.Since(begun), err)
	(*timing).FinishedAt = x.now()
	data := map[string]any{"phase": p, "dur_ms": time.Since(begun).Milliseconds()}
	if fail != nil {
		data["error"] = fail.Exception
	}
	x.emit(trials.EventPhaseEnd, data)
	x.log.Info("phase ended", "phase", p, "dur_ms", time.Since(begun).Milliseconds())
	return fail
}

func seconds(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }
