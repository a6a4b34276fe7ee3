package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

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
// that is full: after a failure that is nobody's work, no try starts before both
// are seen to work again. When that takes too long the job stops, and what had not
// begun waits for a resume. Safe for concurrent use.
type outage struct {
	probe    func(context.Context) error
	patience time.Duration
	stop     context.CancelCauseFunc // of the job
	tell     func(code, message string)

	mu      sync.Mutex // guards what follows
	doubt   bool
	waiting chan struct{} // of the look that is under way; nil when none is
}

// OutageError is why a job stopped.
type OutageError struct {
	For time.Duration
	Err error
}

func (e *OutageError) Error() string {
	return fmt.Sprintf("the job was stopped after waiting for %s, `harbor job resume` goes on with it: %v", e.For, advised(e.Err))
}

func (e *OutageError) Unwrap() error { return e.Err }

// Codes of the notes about an outage: it began, it is over.
const (
	NoteOutage     = "outage"
	NoteOutageOver = "outage_over"
)

// saw takes in how a try ended.
func (o *outage) saw(r *trials.Result) {
	if r.Harborgate == nil || r.Harborgate.Failure == nil {
		return
	}
	if b := r.Harborgate.Failure.Blame; b != trials.BlameInfrastructure && b != trials.BlameHarness {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.doubt = true
}

// pass returns when nothing speaks against a try, or with an error when the job
// is over.
func (o *outage) pass(ctx context.Context) error {
	for {
		o.mu.Lock()
		if !o.doubt || ctx.Err() != nil {
			o.mu.Unlock()
			return ctx.Err()
		}
		wait := o.waiting
		if wait == nil {
			wait = make(chan struct{})
			o.waiting = wait
			o.mu.Unlock()
			o.look(ctx)
			o.mu.Lock()
			o.waiting = nil
			close(wait)
			o.mu.Unlock()
			continue
		}
		o.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
}

// look waits for the end of the outage, or ends the job.
func (o *outage) look(ctx context.Context) {
	begun := time.Now()
	said := false
	for pause := firstLook; ; pause = min(2*pause, longestLook) {
		err := o.probe(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if said {
				o.tell(NoteOutageOver, fmt.Sprintf("the outage is over after %s", time.Since(begun).Round(time.Second)))
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			o.doubt = false
			return
		case errors.As(err, new(*results.GoneError)):
			o.stop(err) // it does not come back
			return
		case time.Since(begun) >= o.patience:
			o.stop(&OutageError{For: o.patience, Err: err})
			return
		case !said:
			said = true
			o.tell(NoteOutage, o.words(err))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// words say what is wrong, and then what follows.
func (o *outage) words(err error) string {
	before := "no trial starts before this is over"
	if room := (*roomError)(nil); errors.As(err, &room) {
		before = room.remedy() + ": no trial starts before that"
	}
	return fmt.Sprintf("%v; %s, the job stops after %s", err, before, o.patience)
}

// patient runs tries, but not into an outage.
type patient struct{ tries }

func (p patient) Run(ctx context.Context, a scheduler.Assignment) scheduler.Outcome {
	if err := p.outage.pass(ctx); err != nil {
		return scheduler.Outcome{} // the job is over: the trial stays pending
	}
	return p.tries.Run(ctx, a)
}

// watchOutages returns a context that ends with ctx, or when an outage takes too
// long.
func (j *Job) watchOutages(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, stop := context.WithCancelCause(ctx)
	o := &outage{probe: j.working, patience: outagePatience, stop: stop}
	if sec := j.app.Host.Providers[j.provider.Info().Name].Limits.OutageSec; sec > 0 {
		o.patience = time.Duration(sec * float64(time.Second))
	}
	o.tell = j.note
	j.outage = o
	return ctx, stop
}

// working asks whether the job can write, and whether the provider answers.
func (j *Job) working(ctx context.Context) error {
	if err := j.files.Present(); err != nil {
		return err
	}
	if err := CheckProvider(ctx, j.provider); err != nil {
		return err
	}
	if err := hasRoom(j.Dir); err != nil {
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			err = path.Err
		}
		return &roomError{dir: j.Plan.Dir(), err: err}
	}
	return nil
}
