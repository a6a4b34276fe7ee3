package shares

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// Pace is the pace of a class of calls that all processes of the host share.
func (p *Pool) Pace(class string, perSecond float64, burst int) *Pace {
	return &Pace{p, class, perSecond, burst, make(chan struct{}, ahead(perSecond))}
}

// Pace lets calls pass one at a time, as fast as it allows, over all processes.
type Pace struct {
	pool      *Pool
	class     string
	perSecond float64
	burst     int
	coming    chan struct{} // holds who has a turn and waits for it
}

// ahead is how many calls of a process may have a turn that is still to come: those of
// half a second. A turn that was taken is not given back, so that whoever gives up takes
// it from everybody.
func ahead(perSecond float64) int { return int(max(2, math.Ceil(perSecond/2))) }

// errNoTurn is of a call whose turn would come after its deadline. It has none.
var errNoTurn = fmt.Errorf("the next turn comes after the deadline: %w", context.DeadlineExceeded)

// Wait returns when the call may go, and at once with an error when ctx ends before that.
func (c *Pace) Wait(ctx context.Context) error {
	select {
	case c.coming <- struct{}{}:
		defer func() { <-c.coming }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if ctx.Err() != nil { // many may give up together
		return ctx.Err()
	}
	wait, err := c.take(ctx)
	if err != nil || wait == 0 {
		return errors.Join(err, ctx.Err())
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// take takes the next turn, and says how long it is away.
func (c *Pace) take(ctx context.Context) (wait time.Duration, err error) {
	late := false
	err = c.pool.change(func(a *account, now int64) bool {
		wait = a.next(c.class, c.perSecond, c.burst, now)
		if deadline, ok := ctx.Deadline(); ok && wait > time.Until(deadline) {
			late = true
			return false
		}
		a.turn(c.class, c.perSecond, c.burst, now)
		return true
	})
	if err == nil && late {
		err = errNoTurn
	}
	return wait, err
}
