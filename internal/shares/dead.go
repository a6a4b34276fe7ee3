package shares

import (
	"context"
	"errors"
	"slices"
	"time"
)

// dead are owners of an account that no longer run.
func (p *Pool) dead(a *account) []string {
	out := p.o.gone(a)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.crowd = 2 * (len(a.Owners) - len(out) + 1)
	return out
}

func (o *Owner) gone(a *account) []string {
	var out []string
	for id := range a.Owners {
		if !o.Alive(id) {
			out = append(out, id)
		}
	}
	return out
}

// crowded reports whether it is time to look who is dead although nothing was refused:
// at the first lease, and when there are twice as many owners as lived the last time.
// Where nothing is limited nobody would look otherwise, and an account has its size.
func (p *Pool) crowded(a *account) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(a.Owners) >= p.crowd
}

// bury takes back what dead processes had, after what they left is gone.
func (p *Pool) bury(dead []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range dead {
		if p.swept[id] {
			continue
		}
		p.swept[id] = true
		p.wg.Go(func() { p.take(id) })
	}
}

const (
	// sweepLimit bounds one attempt to remove what a dead process left, sweepAgain is
	// between two.
	sweepLimit, sweepAgain = 8 * time.Second, 2 * time.Second
	// longestKept bounds how long the share of a dead process is kept from the others.
	longestKept = 5 * time.Minute
)

// take gives the others what a dead process had, once what it left is removed. A process
// that closes its pool before leaves that to the next.
func (p *Pool) take(id string) {
	for last := time.Now().Add(longestKept); !p.sweeps() && time.Now().Before(last); {
		select {
		case <-time.After(sweepAgain):
		case <-p.ctx.Done():
			return
		}
	}
	_ = p.giveBack([]string{id})
}

// giveBack lets the others have what dead processes had.
func (p *Pool) giveBack(dead []string) error {
	err := p.change(func(a *account, _ int64) bool {
		return a.forget(func(id string) bool { return slices.Contains(dead, id) })
	})
	return errors.Join(err, p.ring())
}

// Sweep runs sweep, which removes what dead processes left at the provider, and gives
// the others what those had that were dead before it began. After a sweep that failed
// that still counts.
func (p *Pool) Sweep(sweep func() error) error {
	var dead []string
	err := p.change(func(a *account, _ int64) bool {
		dead = p.o.gone(a)
		return false
	})
	if err = errors.Join(err, sweep()); err != nil || len(dead) == 0 {
		return err
	}
	return p.giveBack(dead)
}

// sweeps reports whether nothing of the dead is left.
func (p *Pool) sweeps() bool {
	if p.sweep == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(p.ctx, sweepLimit)
	defer cancel()
	return p.sweep(ctx) == nil
}
