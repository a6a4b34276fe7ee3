package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"harborgate/providers"
	"harborgate/scheduler"
	"harborgate/trials"
	"harborgate/trials/results"
)

const (
	// outagePatience is how long a job waits for a provider that went away, or for
	// room on the disk, unless configured.
	outagePatience = 5 * time.Minute
	// Between two looks whether an outage is over.
	firstLook, longestLook = 500 * time.Millisecond, 5 * time.Second
)

// outage keeps trials from being spent on a provider that is away, or on a disk
// that is full: after a failure that is nobody's work, no try starts at its site before
// both are seen to work again. When that takes too long the site is given up, and the
// job with the last of its sites; what had not begun waits for a resume. Safe for
// concurrent use.
type outage struct {
	probe    func(context.Context) error
	patience time.Duration
	stop     context.CancelCauseFunc // of the job
	tell     func(code, message string)
	// has is what the site has, asked when the provider works.
	has    func(context.Context) (scheduler.Resources, error)
	back   func(context.Context) // is told when all of that was seen; may be nil
	alone  bool                  // the job has no other site
	asking singleflight.Group    // one probe is for all tries that fail together

	mu     sync.Mutex // guards what follows
	away   time.Time  // when the provider was last seen not to answer
	pause  time.Duration
	paused time.Time // when that pause is over; it doubles with each that follows another
}

// OutageError is why a job stopped.
type OutageError struct {
	For     time.Duration
	Err     error
	Several bool // it was one of several providers
}

func (e *OutageError) Error() string {
	if e.Several {
		return fmt.Sprintf("no answer for %s, `harbor job resume` tries again: %v", e.For, advised(e.Err))
	}
	return fmt.Sprintf("the job was stopped after waiting for %s, `harbor job resume` goes on with it: %v", e.For, advised(e.Err))
}

func (e *OutageError) Unwrap() error { return e.Err }

// Codes of the notes about an outage: it began, it is over.
const (
	NoteOutage     = "outage"
	NoteOutageOver = "outage_over"
)

// What a try may be moved for, and how often, beside its retries.
const (
	mostMoves    = 5  // its provider went away
	mostRefusals = 20 // it had no room
)

// Pauses of a provider that has no room, or was called too often, each twice as long as
// the one before unless it gave a sandbox meanwhile.
const (
	fullPause, oftenPause = 5 * time.Second, time.Second
	longestPause          = 5 * time.Minute
)

// judge says what a failure of a try means for its site, and whether the try is to
// count: it does not when the provider gave no sandbox, or went away under it.
func (o *outage) judge(ctx context.Context, a scheduler.Assignment, begun time.Time, f *trials.Failure) (out scheduler.Outcome) {
	if f == nil {
		o.served()
		return out
	}
	out.Why = f.Message
	never := neverHad(f)
	first := firstPause(f)
	switch {
	case f.Cause == trials.CausePlatform && a.Others > 0:
		out.Move, out.Bar = true, f.Message
	case never && first > 0:
		out.Move, out.Cool = a.Refusals < mostRefusals, o.refused(first)
	case mayBeOutage(f) && (unanswered(f) || o.wentAway(ctx, begun)), never && f.Blame == trials.BlameInfrastructure && a.Others > 0:
		out.Doubt, out.Move = true, a.Moves-a.Refusals < mostMoves
	case f.Blame == trials.BlameInfrastructure || f.Blame == trials.BlameHarness:
		out.Doubt = true
	}
	if f.Phase != trials.PhaseEnvironmentSetup {
		o.served()
	}
	return out
}

// firstPause is how long a provider is left alone after it refused a sandbox for the
// first time; 0 when a failure is none of that kind.
func firstPause(f *trials.Failure) time.Duration {
	return map[string]time.Duration{
		providers.KindExhausted.String():   fullPause,
		providers.KindRateLimited.String(): oftenPause,
	}[f.Kind]
}

// mayBeOutage reports whether a failure may come from a provider that went away, or from
// a full disk here, whoever seems to be to blame, and not from models or from a limit.
func mayBeOutage(f *trials.Failure) bool {
	return slices.Contains([]trials.Cause{trials.CauseProvider, trials.CauseSandboxLost, trials.CauseUpload, trials.CauseDownload, trials.CauseHost}, f.Cause)
}

// unanswered reports whether a provider did not answer a try that had its sandbox, though
// it may be there again by the time that it is asked. That the sandbox does not answer any
// more, because it died, may be anybody's doing.
func unanswered(f *trials.Failure) bool {
	return f.Kind == providers.KindUnavailable.String() && f.Cause != trials.CauseSandboxLost && !neverHad(f)
}

// neverHad reports whether the provider gave a try no sandbox.
func neverHad(f *trials.Failure) bool {
	return f.Phase == trials.PhaseEnvironmentSetup && f.Cause == trials.CauseProvider
}

// wentAway reports whether the provider does not answer, or did not at some time since.
func (o *outage) wentAway(ctx context.Context, since time.Time) bool {
	_, err, _ := o.asking.Do("", func() (any, error) { return nil, o.probe(ctx) })
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		o.away = time.Now()
	}
	return o.away.After(since)
}

// refused is how long nothing should be asked for. Those that are refused together have
// one pause.
func (o *outage) refused(first time.Duration) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if !now.Before(o.paused) {
		o.pause = min(max(2*o.pause, first), longestPause)
		o.paused = now.Add(o.pause)
	}
	return o.paused.Sub(now)
}

func (o *outage) served() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pause = 0
}

// look asks whether the provider works, and then what it has.
func (o *outage) look(ctx context.Context) (scheduler.Resources, error) {
	if err := o.probe(ctx); err != nil {
		return scheduler.Resources{}, err
	}
	return o.has(ctx)
}

// Recover implements scheduler.Health: it waits for the end of the outage.
func (o *outage) Recover(ctx context.Context) (scheduler.Resources, error) {
	begun := time.Now()
	said := false
	for pause := firstLook; ; pause = min(2*pause, longestLook) {
		has, err := o.look(ctx)
		switch {
		case ctx.Err() != nil:
			return has, ctx.Err()
		case err == nil:
			if said {
				o.tell(NoteOutageOver, fmt.Sprintf("the outage is over after %s", time.Since(begun).Round(time.Second)))
			}
			if o.back != nil {
				o.back(ctx)
			}
			return has, nil
		case errors.As(err, new(*results.GoneError)):
			o.stop(err) // it does not come back
			return has, err
		case time.Since(begun) >= o.patience:
			return has, &OutageError{For: o.patience, Err: err, Several: !o.alone}
		}
		o.mu.Lock()
		o.away = time.Now()
		o.mu.Unlock()
		if !said {
			said = true
			o.tell(NoteOutage, o.words(err))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return has, ctx.Err()
		}
	}
}

// seen reports whether the provider did not answer at some time.
func (o *outage) seen() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.away.IsZero()
}

// words say what is wrong, and then what follows.
func (o *outage) words(err error) string {
	if !o.alone {
		return fmt.Sprintf("%v; trials go to other providers, and the job goes on without this one after %s", err, o.patience)
	}
	before := "no trial starts before this is over"
	if room := (*roomError)(nil); errors.As(err, &room) {
		before = room.remedy() + ": no trial starts before that"
	}
	return fmt.Sprintf("%v; %s, the job stops after %s", err, before, o.patience)
}

// watchOutages returns a context that ends with ctx, or when the job is to stop.
func (j *Job) watchOutages(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, stop := context.WithCancelCause(ctx)
	for _, s := range j.sites {
		s.outage = &outage{
			probe: func(ctx context.Context) error { return j.working(ctx, s) }, patience: outagePatience, stop: stop,
			tell: func(code, message string) { j.note(code, j.at(s)+message) }, alone: len(j.sites) == 1,
			has: func(ctx context.Context) (scheduler.Resources, error) { return j.budget(ctx, s) },
			back: func(ctx context.Context) {
				s.runner.RemoveLeft()
				s.images.RemoveLeft(ctx)
			},
		}
		if sec := j.app.Host.Providers[s.name].Limits.OutageSec; sec > 0 {
			s.outage.patience = time.Duration(sec * float64(time.Second))
		}
	}
	return ctx, stop
}

// working asks whether the job can write where it does, and whether a site's provider answers.
func (j *Job) working(ctx context.Context, s *site) error {
	if err := j.files.Present(); err != nil {
		return err
	}
	err := answers(ctx, s.Provider)
	if ctx.Err() == nil {
		j.app.answered(s.name, err)
	}
	if err != nil {
		return err
	}
	return j.hasRoom()
}
