package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"harborgate/providers"
	"harborgate/trials"
)

// limitError is the cause of a context whose limit passed, and what follows.
type limitError struct {
	phase trials.Phase
	cause trials.Cause
	what  string // starts the message
	limit trials.Limit
}

func (e *limitError) Error() string { return fmt.Sprintf("%s limit of %g s", e.what, e.limit.Seconds) }

// errDeadline is the cause of a try that took too long as a whole.
var errDeadline = errors.New("the try's hard deadline passed")

// withLimit bounds a phase; 0 seconds is no bound.
func withLimit(ctx context.Context, p trials.Phase, l trials.Limit) (context.Context, context.CancelFunc) {
	if l.Seconds <= 0 {
		return context.WithCancel(ctx)
	}
	return within(ctx, limitOf(p, l))
}

func limitOf(p trials.Phase, l trials.Limit) *limitError {
	return &limitError{p, trials.CauseTimeout, phaseWords[p], l}
}

func within(ctx context.Context, e *limitError) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, time.Duration(e.limit.Seconds*float64(time.Second)), e)
}

// slack is what a try may take beyond the sum of its phases' limits: transfers,
// health checks, artifacts, removal.
const slack = 30 * time.Minute

// deadline bounds the try as a whole, unless a phase has no limit itself.
func (x *run) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	d, ok := x.total()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, errDeadline)
}

func (x *run) total() (time.Duration, bool) {
	sum := slack
	for _, l := range []trials.Limit{x.limits.EnvironmentStart, x.limits.EnvironmentStart, x.limits.AgentSetup, x.limits.Agent, x.limits.Verifier} {
		if l.Seconds <= 0 {
			return 0, false
		}
		sum += time.Duration(l.Seconds * float64(time.Second))
	}
	return sum, true
}

// causeError carries what a step was doing when a provider's error hit it.
type causeError struct {
	cause trials.Cause
	err   error
}

func (e *causeError) Error() string { return e.err.Error() }
func (e *causeError) Unwrap() error { return e.err }

// during marks an error with the cause that it stands for, unless the sandbox or
// the context turns out to be behind it.
func during(cause trials.Cause, err error) error {
	if err == nil {
		return nil
	}
	return &causeError{cause, err}
}

// phaseWords start a message about a phase, in Harbor's words where it has any.
var phaseWords = map[trials.Phase]string{
	trials.PhaseEnvironmentSetup: "Environment start",
	trials.PhaseAgentSetup:       "Agent setup",
	trials.PhaseAgentExecution:   "Agent execution",
	trials.PhaseArtifacts:        "Artifact collection",
	trials.PhaseVerifier:         "Verifier execution",
}

// explain turns the error of a phase into a Failure. Who asked for the end comes
// first: a limit, the deadline, the user. Then the sandbox's death, then the
// step's own cause, then the provider's kind.
func (x *run) explain(ctx context.Context, p trials.Phase, took time.Duration, err error) *trials.Failure {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ended(context.Cause(ctx), p, took)
	}
	var own *trials.Failure
	if errors.As(err, &own) {
		return own
	}
	kind := providers.KindOf(err)
	return trials.NewFailure(p, x.causeOf(err, kind), kind.String(), err.Error())
}

// causeOf is the cause that the error of a step stands for.
func (x *run) causeOf(err error, kind providers.Kind) trials.Cause {
	var why *causeError
	marked := errors.As(err, &why)
	death, died := providers.DeathOf(err)
	var platform *providers.PlatformError
	switch {
	case errors.As(err, &platform):
		return trials.CausePlatform
	case died && death.OOMKilled:
		return trials.CauseOutOfMemory
	case x.hostCause(err) == trials.CauseHost: // whatever was done with the file
		return trials.CauseHost
	case died && death.Lost:
		return trials.CauseProvider
	case died, x.sandbox != nil && (kind == providers.KindNotFound && !marked):
		return trials.CauseSandboxLost
	case marked:
		return why.cause
	case kind == providers.KindInternal && !isProviderError(err):
		return trials.CauseInternal
	default:
		return trials.CauseProvider
	}
}

// hostCause is trials.HostCause of one who knows where the trial's own files are: a
// file that is not there is the host's trouble when all of them are gone.
func (x *run) hostCause(err error) trials.Cause {
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := os.Stat(x.t.Sink.Path("")); errors.Is(gone, fs.ErrNotExist) {
			return trials.CauseHost
		}
	}
	return trials.HostCause(err)
}

func isProviderError(err error) bool {
	var e *providers.Error
	return errors.As(err, &e)
}

// cancelled says why, where whoever cancelled did.
func cancelled(cause error) string {
	if cause == nil || errors.Is(cause, context.Canceled) {
		return "the trial was cancelled"
	}
	return "the trial was cancelled: " + cause.Error()
}

// ended names who ended a phase.
func ended(cause error, p trials.Phase, took time.Duration) *trials.Failure {
	var limit *limitError
	switch {
	case errors.As(cause, &limit):
		return trials.NewFailure(limit.phase, limit.cause, "", fmt.Sprintf(
			"%s timed out after %s seconds (limit: %s; elapsed %.1f s)",
			limit.what, trials.FormatFloat(limit.limit.Seconds), limit.limit.Origin, took.Seconds()))
	case errors.Is(cause, errDeadline):
		return trials.NewFailure(p, trials.CauseDeadline, "", fmt.Sprintf(
			"%s was ended by the hard deadline of the whole try after %.1f s in this phase", phaseWords[p], took.Seconds()))
	default:
		return trials.NewFailure(p, trials.CauseCancelled, "", cancelled(cause))
	}
}
