// Package retry repeats the calls of a provider that can be repeated without
// harm: Check, List and Destroy. A Create is never repeated, as nobody knows
// whether the first one succeeded, and neither is anything that runs in a
// sandbox.
package retry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"harborgate/providers"
)

// Options configure New. Zero fields have the defaults named.
type Options struct {
	Attempts int           // in all; 4
	First    time.Duration // longest pause after the first failure; 250 ms
	Longest  time.Duration // longest pause of all; 10 s
	// Patience is the longest RetryAfter that is waited for; with a longer one, or
	// one that the context does not outlive, the error is returned at once. 1 minute.
	Patience time.Duration

	// Jitter returns a number from 0 up to 1. Nil is random.
	Jitter func() float64
}

// Provider is the decorated provider.
type Provider struct {
	providers.Provider
	o Options
}

// New decorates p.
func New(p providers.Provider, o Options) *Provider {
	if o.Attempts <= 0 {
		o.Attempts = 4
	}
	if o.First <= 0 {
		o.First = 250 * time.Millisecond
	}
	if o.Longest <= 0 {
		o.Longest = 10 * time.Second
	}
	if o.Patience <= 0 {
		o.Patience = time.Minute
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	return &Provider{Provider: p, o: o}
}

// Unwrap returns the decorated provider, for providers.As.
func (p *Provider) Unwrap() providers.Provider { return p.Provider }

// Check implements providers.Provider.
func (p *Provider) Check(ctx context.Context) error {
	return p.repeat(ctx, func() error { return p.Provider.Check(ctx) })
}

// List implements providers.Provider.
func (p *Provider) List(ctx context.Context, sel providers.Selector) ([]providers.Resource, error) {
	var list []providers.Resource
	err := p.repeat(ctx, func() (err error) {
		list, err = p.Provider.List(ctx, sel)
		return err
	})
	return list, err
}

// Destroy implements providers.Provider.
func (p *Provider) Destroy(ctx context.Context, id providers.ID) error {
	return p.repeat(ctx, func() error { return p.Provider.Destroy(ctx, id) })
}

// Create implements providers.Provider. It is called once.
func (p *Provider) Create(ctx context.Context, spec providers.Spec) (providers.Sandbox, error) {
	sb, err := p.Provider.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	return &sandbox{sb, p}, nil
}

type sandbox struct {
	providers.Sandbox
	p *Provider
}

func (s *sandbox) Destroy(ctx context.Context) error {
	return s.p.repeat(ctx, func() error { return s.Sandbox.Destroy(ctx) })
}

// repeat calls f until it succeeds, fails for good, or attempts or ctx run out.
func (p *Provider) repeat(ctx context.Context, f func() error) error {
	for attempt := 1; ; attempt++ {
		err := f()
		pause, again := p.pause(err, attempt)
		end, bounded := ctx.Deadline()
		if !again || ctx.Err() != nil || bounded && time.Until(end) < pause {
			return err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("%w; attempt %d was the last: %w", err, attempt, ctx.Err())
		}
	}
}

// pause says whether err is worth another attempt, and when: between half of a
// time that doubles and all of it, or when the provider has asked to.
func (p *Provider) pause(err error, attempt int) (time.Duration, bool) {
	if attempt >= p.o.Attempts || !transient(err) {
		return 0, false
	}
	if after := retryAfter(err); after > 0 {
		return after, after <= p.o.Patience
	}
	longest := p.o.First
	for range attempt - 1 {
		longest = min(2*longest, p.o.Longest)
	}
	return longest/2 + time.Duration(p.o.Jitter()*float64(longest/2)), true
}

func transient(err error) bool {
	return providers.Is(err, providers.KindUnavailable) || providers.Is(err, providers.KindRateLimited)
}

func retryAfter(err error) time.Duration {
	var e *providers.Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}
