package authproxy

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"harborgate/authproxy/internal/gate"
	"harborgate/authproxy/internal/ledger"
	"harborgate/authproxy/internal/wire"
)

const oneSecond = time.Second

// policy holds the body against what grant and upstream allow.
func (x *exchange) policy() error {
	ask, err := wire.Scan(x.body)
	if err != nil {
		return refusal(wire.Invalid, err.Error())
	}
	if x.route.Format == wire.Generate || x.rec.Model != "" {
		ask.Model, ask.Stream = x.rec.Model, strings.HasSuffix(x.path, ":streamGenerateContent") // the path says so
	}
	x.ask, x.rec.Model, x.rec.Stream = ask, clip(ask.Model), ask.Stream
	switch {
	case ask.Model == "":
		return refusal(wire.Invalid, "the request names no model")
	case !x.allowed(ask.Model):
		return refusal(wire.Forbidden, "the grant does not allow this model")
	case ask.Refused != "":
		return refusal(wire.Invalid, ask.Refused)
	case ask.Previous != "" && !x.owns(ask.Previous):
		return refusal(wire.Forbidden, "previous_response_id is not a response of this trial")
	case x.up.conf.Local && !x.up.conf.RemoteMedia && wire.HasRemoteMedia(x.body):
		return refusal(wire.Forbidden, "this upstream fetches nothing: send media within the body")
	}
	return x.askForUsage()
}

// askForUsage has a stream of chat completions say what it used, where the client
// did not ask for it.
func (x *exchange) askForUsage() error {
	if x.route.Format != wire.Chat || !x.ask.Stream || x.ask.IncludeUsage {
		return nil
	}
	body, err := x.ask.WithUsage()
	if err != nil {
		return refusal(wire.Invalid, err.Error())
	}
	// OpenRouter says it unasked: its clients wait for it.
	x.body, x.filter = body, x.up.conf.Dialect != wire.OpenRouter
	return nil
}

// clip keeps names short and printable where they are written down.
func clip(s string) string {
	const most = 128
	out := make([]byte, 0, min(len(s), most))
	for i := 0; i < len(s) && i < most; i++ {
		if c := s[i]; c > ' ' && c < 0x7f {
			out = append(out, c)
		} else {
			out = append(out, '?')
		}
	}
	return string(out)
}

// owns reports whether an earlier response belongs to this trial.
func (x *exchange) owns(id string) bool {
	trial, ok := x.p.owners.Get(x.up.name + "/" + id)
	return ok && trial == x.grant.trial()
}

// reserve sets aside what the request may cost at most, as far as can be told without
// the model's own tokens. Once, however often it is sent.
func (x *exchange) reserve() error {
	if x.route.Cost != wire.Billed {
		return nil
	}
	x.rec.billed = true
	x.price, x.priced = x.table.price(x.up, x.ask.Model)
	x.worst = x.price.Worst(wire.Weight(x.body), x.ask)
	charges := x.grant.charges(x.table.budgets, x.start)
	if missing := x.missingPrice(); missing != "" {
		for _, c := range charges {
			if c.Cap.Money > 0 {
				x.rec.Budget = c.Name
				return refusal(wire.Forbidden, "the model "+strconv.Quote(x.rec.Model)+" has no price"+missing+", and the "+c.Name+
					"'s budget is one of money: add upstreams."+x.up.name+".prices to the configuration")
			}
		}
	}
	return x.setAside(charges, Sum{Money: x.price.WorstCost(x.worst, x.ask.Tier), Tokens: x.worst.Tokens(), Requests: 1})
}

// missingPrice is empty when all that the request asks for has a price; otherwise it
// ends the words "the model has no price".
func (x *exchange) missingPrice() string {
	switch {
	case !x.priced:
		return " at all"
	case x.ask.Searches > 0 && x.price.Search == 0:
		return " for the provider's search (search: 0.01), which the request may use"
	}
	return ""
}

// setAside takes sum from the accounts. Where open requests hold what is left, it
// waits for them, within bounds: they use less than they hold.
func (x *exchange) setAside(charges []ledger.Charge, sum Sum) error {
	var late *time.Timer // made when there is something to wait for
	for {
		settled := x.p.ledger.Settled()
		r, err := x.p.ledger.Reserve(charges, sum)
		var full *ledger.Exceeded
		switch {
		case err == nil:
			x.reserved = r
			return nil
		case !errors.As(err, &full):
			x.p.opts.Log.Error("nothing is spent while the ledger cannot be written", "error", err.Error())
			return refusal(wire.NotReady, "the ledger of budgets cannot be written")
		case !full.Open:
			x.rec.Budget = full.Name
			return refusal(wire.NoBudget, full.Error())
		}
		if late == nil {
			late = time.NewTimer(x.up.conf.Limits.MaxWait)
			defer late.Stop()
		}
		switch err := x.await(settled, late.C); {
		case errors.Is(err, errLate):
			return &wire.Refusal{Reason: wire.Busy, Message: full.Error(), After: oneSecond}
		case err != nil:
			return err
		}
	}
}

// errLate is why a wait within bounds ended without what was waited for.
var errLate = errors.New("too late")

// await waits for something to happen; errLate when that takes too long.
func (x *exchange) await(happened <-chan struct{}, late <-chan time.Time) error {
	defer x.wait()()
	select {
	case <-happened:
		return nil
	case <-late:
		return errLate
	case <-x.ctx.Done():
		return x.ended()
	}
}

// need is how many tokens the request may use of limits.
func (x *exchange) need() gate.Need {
	return gate.Need{Input: x.worst.Input, Output: x.worst.Output}
}

// queue waits for the upstream's limits, in turn with other trials.
func (x *exchange) queue() error {
	ticket, err := x.acquire(x.up.gate, "the limits of the upstream leave no room")
	if err != nil {
		return err
	}
	x.finally(func() { ticket.Release(x.used()) })
	return nil
}

// acquire waits at a gate, within bounds.
func (x *exchange) acquire(g *gate.Gate, otherwise string) (*gate.Ticket, error) {
	if ticket := g.Try(x.need()); ticket != nil {
		return ticket, nil
	}
	ctx, cancel := context.WithTimeout(x.ctx, x.up.conf.Limits.MaxWait)
	defer cancel()
	defer x.wait()()
	ticket, err := g.Acquire(ctx, x.grant.trial(), x.need())
	switch {
	case err == nil:
		return ticket, nil
	case x.ctx.Err() != nil:
		return nil, x.ended()
	}
	return nil, &wire.Refusal{Reason: wire.Busy, Message: otherwise, After: max(oneSecond, g.Delay(x.need()))}
}

// used is what came of need.
func (x *exchange) used() gate.Need {
	if !x.sent {
		return gate.Need{}
	}
	return gate.Need{Input: x.rec.Usage.Input + x.rec.Usage.CacheWrite + x.rec.Usage.CacheWriteLong, Output: x.rec.Usage.Output}
}

// wait counts the time until the returned function is called as waiting.
func (x *exchange) wait() (done func()) {
	start := time.Now()
	x.waiting(+1)
	return func() {
		x.rec.waited += time.Since(start)
		x.waiting(-1)
	}
}

func (x *exchange) waiting(change int) {
	if m := x.p.opts.Metrics; m != nil {
		m.Waiting(x.up.name, change)
	}
}

// ended says why the request's context ended, and what its client gets.
func (x *exchange) ended() error {
	cause := context.Cause(x.ctx)
	switch {
	case errors.Is(cause, errRevoked) && x.r.Context().Err() == nil:
		x.rec.End = Revoked
		if x.resp == nil {
			return refusal(wire.NoGrant, "the grant has ended")
		}
	case errors.Is(cause, errStopped) && x.r.Context().Err() == nil:
		x.rec.End = Stopped
	case errors.Is(cause, errSilent):
		x.rec.End = Idle
		if x.resp == nil {
			return refusal(wire.Down, "the upstream "+x.up.name+" does not begin to answer")
		}
	default:
		x.rec.End = ClientGone
	}
	return errAborted
}
