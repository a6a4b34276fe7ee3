package fake

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"harborgate/providers"
)

// Op is a call that a Fault can strike.
type Op string

// Operations. The subject is the provider's name for check and list; the
// sandbox's name and image for create; the id for destroy; the sandbox's name
// and the arguments or path for exec, upload, download and expose; the tag or
// reference for build.
const (
	OpCheck    Op = "check"
	OpCreate   Op = "create"
	OpList     Op = "list"
	OpDestroy  Op = "destroy"
	OpExec     Op = "exec"
	OpUpload   Op = "upload"
	OpDownload Op = "download"
	OpExpose   Op = "expose"
	OpBuild    Op = "build"
)

// Effect is what a Fault does besides taking time.
type Effect uint8

// Effects.
const (
	Slow   Effect = iota // nothing else
	Refuse               // the call fails and nothing was done
	Lose                 // it was done, but the answer is an error and nobody cleans up
	Die                  // it was done, then the sandbox dies
)

// Fault makes calls misbehave. The same faults and calls give the same results.
type Fault struct {
	Op    Op
	Match string // part of the subject; "" is every subject
	Nth   int    // only the n-th matching call, counted from 1; 0 is every one

	Delay time.Duration // before the call is carried out
	Late  time.Duration // after it was carried out, before the answer
	Hang  bool          // never carried out: the call ends with its context

	Effect     Effect
	Kind       providers.Kind
	RetryAfter time.Duration
	Death      providers.Death // with Die
}

func (f Fault) err() error {
	return &providers.Error{
		Op: string(f.Op), Kind: f.Kind, RetryAfter: f.RetryAfter,
		Err: fmt.Errorf("injected fault"),
	}
}

// armed is a Fault with its count of matching calls.
type armed struct {
	Fault
	calls int
}

// Inject adds faults. Of several that match a call, the first strikes.
func (w *World) Inject(faults ...Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range faults {
		w.faults = append(w.faults, &armed{Fault: f})
	}
}

// Heal removes all faults.
func (w *World) Heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults, w.random = nil, nil
}

func (w *World) strike(op Op, subject string) Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	hit := Fault{}
	for _, f := range w.faults {
		if f.Op != op || !strings.Contains(subject, f.Match) {
			continue
		}
		f.calls++
		if hit.Op == "" && (f.Nth == 0 || f.Nth == f.calls) {
			hit = f.Fault
		}
	}
	if hit.Op == "" {
		hit = w.mishap(op)
	}
	return hit
}

// lost marks an error after which the effect stays.
type lost struct{ error }

func (l lost) Unwrap() error { return l.error }

func isLost(err error) bool {
	var l lost
	return errors.As(err, &l)
}

// perform carries out one call under the faults. The box that do returns is the
// one that Die strikes.
func (w *World) perform(ctx context.Context, op Op, subject string, do func(context.Context) (*box, error)) error {
	f := w.strike(op, subject)
	if f.Hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := pause(ctx, f.Delay); err != nil {
		return err
	}
	if f.Effect == Refuse {
		return f.err()
	}
	b, err := do(ctx)
	if err != nil {
		return err
	}
	if err := pause(ctx, f.Late); err != nil {
		return err
	}
	switch f.Effect {
	case Lose:
		return lost{f.err()}
	case Die:
		if b != nil {
			b.die(f.Death)
		}
	}
	return nil
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
