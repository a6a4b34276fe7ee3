package scheduler

import (
	"context"
	"sync"
	"time"
)

// Shares hands out the right to have one more sandbox, with what it needs, across
// whatever else shares the provider. Acquire answers at once; after a refusal, Freed tells
// when it is worth asking again.
type Shares interface {
	Acquire(ctx context.Context, trial string, needs Resources) (release func(), ok bool, err error)
	Freed() <-chan struct{}
}

// Waits are Shares that are told how many trials wait for room there: those that would run
// now if there was any, so none that waits for a slot of the job, for an image or for the
// end of its pause. It is called when that changed: at once when it is 0, else at most once
// a second. A trial that could run at several sites counts at each.
type Waits interface {
	Waiting(trials int)
}

// Possession is what a try or a build has at its site, and may have when it is over.
type Possession interface {
	// OnFree has free called when there is nothing any more, once, now or later.
	OnFree(free func())
}

// Keep keeps a lease for what its user still has, nil for nothing, and gives it back when
// that is gone, after five minutes at the latest.
func Keep(has Possession, release func()) {
	if has == nil {
		release()
		return
	}
	has.OnFree(atLast(longestHeld, release))
}

// longestHeld is how long a lease outlives what it was for.
const longestHeld = 5 * time.Minute

// atLast is f for whoever calls it first: the caller, or the end of a time.
func atLast(d time.Duration, f func()) func() {
	once := sync.OnceFunc(f)
	t := time.AfterFunc(d, once)
	return func() {
		t.Stop()
		once()
	}
}
