package authproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"harborgate/authproxy/internal/gate"
	"harborgate/authproxy/internal/wire"
)

// Rests of a key, where its provider does not say how long.
const (
	restLimited = 5 * time.Second
	restRefused = 5 * time.Minute
)

// strip makes the headers that go upstream: the allowed ones, and no credential.
func (x *exchange) strip() error {
	x.header = x.up.spec.Outbound(x.r.Header)
	if x.up.conf.Dialect == wire.Anthropic && x.header.Get("Anthropic-Version") == "" {
		x.header["Anthropic-Version"] = []string{"2023-06-01"}
	}
	return nil
}

// verdict is what is to be done about one try at the upstream.
type verdict int

const (
	pass    verdict = iota // the answer goes to the client
	again                  // the same, a little later
	another                // at once, with whatever key is well
	stop                   // nothing can be passed on
)

// forward sends the request until an answer is there to pass on. It repeats only
// while nothing of an answer has reached the client, because agents multiply every
// failure that they see.
func (x *exchange) forward() error {
	x.show()
	for left := x.grant.attempts(x.up.conf.Attempts); ; {
		k, err := x.pick()
		if err != nil {
			return err
		}
		ticket, err := x.acquire(k.gate, "the limits of the key leave no room")
		if err != nil {
			return err
		}
		x.rec.Attempts++
		x.rec.Key = k.ref.String()
		resp, v, err := x.try(k)
		if x.ctx.Err() != nil && (resp == nil || v != pass) {
			ticket.Release(gate.Need{})
			return x.ended()
		}
		if !isKeyRefused(err) { // those are as many as there are keys, at most
			left--
		}
		if v == pass || left <= 0 && err == nil {
			x.resp = resp
			x.drop() // it is not sent again
			x.finally(func() { ticket.Release(x.used()) })
			return nil
		}
		ticket.Release(gate.Need{})
		discard(resp)
		if v == stop || left <= 0 {
			return x.give(err)
		}
		if v == again && !x.pause(x.rec.Attempts) {
			return x.ended()
		}
	}
}

// try makes one try with a key.
func (x *exchange) try(k *key) (*http.Response, verdict, error) {
	resp, err := x.send(k)
	switch {
	case errors.Is(err, errAddress):
		return nil, stop, err
	case err != nil:
		return nil, again, err
	}
	v, err := x.judge(k, resp)
	return resp, v, err
}

func isKeyRefused(err error) bool {
	var r *wire.Refusal
	return errors.As(err, &r) && r.Reason == wire.KeyRefused
}

// give is the last word when no answer can be had.
func (x *exchange) give(err error) error {
	var r *wire.Refusal
	if errors.As(err, &r) {
		return r
	}
	if unreadable(err) {
		return &wire.Refusal{Reason: wire.BadAnswer, Message: "the answer of the upstream " + x.up.name + " is no HTTP that can be read", After: 5 * time.Second}
	}
	return &wire.Refusal{Reason: wire.Down, Message: "the upstream " + x.up.name + " cannot be reached" + whyDown(err), After: 5 * time.Second}
}

// unreadable reports whether an upstream was reached, and answered what is no HTTP, or
// more of it than any answer has. The transport has no type for that: it wraps in its
// words what the reader says, and what the network says.
func unreadable(err error) bool {
	var network net.Error
	return err != nil && strings.Contains(err.Error(), "transport connection broken") &&
		!errors.As(err, &network) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
}

// show lists the request among those being answered.
func (x *exchange) show() {
	x.shown.Store(&Stream{
		ID: x.rec.ID, Since: x.start, Grant: x.grant.id, Trial: x.grant.spec.Trial, Upstream: x.up.name, Model: x.rec.Model,
	})
	if m := x.p.opts.Metrics; m != nil {
		m.Streams(x.up.name, +1)
		x.finally(func() { m.Streams(x.up.name, -1) })
	}
}

// pick returns a key that is well, and waits for one within bounds. A probe gets any
// key that it has not tried.
func (x *exchange) pick() (*key, error) {
	if x.grant.spec.Probe {
		if k := x.up.pool.untried(x.probed, time.Now()); k != nil {
			x.probed = append(x.probed, k)
			return k, nil
		}
	}
	deadline := x.start.Add(x.up.conf.Limits.MaxWait)
	for {
		now := time.Now()
		k, next := x.up.pool.pick(x.grant.trial(), now)
		switch {
		case k != nil:
			return k, nil
		case next.IsZero():
			return nil, x.refusedKeys(x.up.pool.spent(now))
		case next.After(deadline):
			return nil, &wire.Refusal{Reason: wire.Busy, Message: "the provider's limit is reached", After: next.Sub(now)}
		}
		done := x.wait()
		ok := sleep(x.ctx, next.Sub(now))
		done()
		if !ok {
			return nil, x.ended()
		}
	}
}

// refusedKeys is the answer when the provider takes no key, or because of quota or
// credit none any more.
func (x *exchange) refusedKeys(spent bool) error {
	if spent {
		return refusal(wire.KeyRefused, "the provider says that no quota or credit is left for the keys of upstream "+x.up.name)
	}
	return refusal(wire.KeyRefused, "the provider refuses the keys of upstream "+x.up.name)
}

// send makes one try. The request is new: nothing of the client's but what strip
// let pass is in it. The key is injected last.
func (x *exchange) send(k *key) (*http.Response, error) {
	req, err := http.NewRequestWithContext(x.held.written(x.ctx), x.r.Method, "", bytes.NewReader(x.body))
	if err != nil {
		return nil, refusal(wire.Internal, "the request cannot be made")
	}
	req.URL = x.up.target(x.path, x.query)
	req.Header = x.header
	if x.rec.Attempts > 1 { // the transport may still hold the one before
		req.Header = x.header.Clone()
	}
	wire.Inject(req.Header, x.up.slot, k.secret.value)
	x.sent, x.unanswered = true, true
	silent := time.AfterFunc(x.up.conf.Timeouts.FirstByte, func() { x.cancel(errSilent) })
	defer silent.Stop()
	resp, err := x.up.transport.RoundTrip(req)
	x.unanswered = err != nil && x.ctx.Err() != nil
	return resp, err
}

// errSilent is why a request ended to which nothing came any more.
var errSilent = errors.New("the upstream fell silent")

// judge decides about an answer by its status. For errors it reads the body, so
// that what it says is known before the client sees anything.
func (x *exchange) judge(k *key, resp *http.Response) (verdict, error) {
	status := resp.StatusCode
	switch {
	case status >= 200 && status < 300:
		k.worked()
		if d, ok := wire.Exhausted(resp.Header, time.Now()); ok {
			k.rest(time.Now().Add(d), false)
		}
		return pass, nil
	case status < 400: // a protocol of its own, or another place to go: never followed
		_ = resp.Body.Close()
		return stop, refusal(wire.BadAnswer, "the upstream sends elsewhere")
	}
	const largest = 1 << 20
	body, err := io.ReadAll(io.LimitReader(resp.Body, largest))
	_ = resp.Body.Close()
	if err != nil {
		return again, err
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return x.judgeError(k, resp, body)
}

// judgeError decides about an answer that is an error.
func (x *exchange) judgeError(k *key, resp *http.Response, body []byte) (verdict, error) {
	now := time.Now()
	after, stated := wire.RetryAfter(resp.Header, body, now)
	refused, spent := keyRefused(resp.StatusCode, body)
	switch status := resp.StatusCode; {
	case refused:
		k.refuse(now.Add(restRefused), status, spent)
		x.p.opts.Log.Error("the provider refuses a key", "upstream", x.up.name, "key", k.ref.String(), "status", status, "quota", spent)
		return another, x.refusedKeys(spent)
	case status == http.StatusForbidden: // the account may not; the client could be the cause
		return pass, nil
	case status == http.StatusTooManyRequests:
		if !stated {
			after = restLimited
		}
		after = max(after, oneSecond)
		k.rest(now.Add(after), false)
		if after > x.up.conf.Limits.MaxWait && len(x.up.pool.keys) == 1 {
			return pass, nil
		}
		return another, nil
	case status >= 500:
		if stated {
			x.up.gate.Pause(now.Add(after))
		}
		if stated && after > x.up.conf.Limits.MaxWait {
			return pass, nil
		}
		return again, nil
	}
	return pass, nil
}

// keyRefused reports whether an answer means that our key, or our account, is no
// good, and whether that is because quota or credit is used up. Nothing that a client
// sends can bring these about.
func keyRefused(status int, body []byte) (refused, spent bool) {
	for _, sign := range []struct {
		status int
		text   string
		spent  bool
	}{
		{http.StatusUnauthorized, "", false},
		{http.StatusPaymentRequired, "", true},
		{http.StatusTooManyRequests, "insufficient_quota", true},
		{http.StatusBadRequest, "API_KEY_INVALID", false},
		{http.StatusBadRequest, "credit balance is too low", true},
		{http.StatusForbidden, "API key", false},
		{http.StatusForbidden, "Api key", false},
	} {
		if status == sign.status && strings.Contains(string(body), sign.text) {
			return true, sign.spent
		}
	}
	return false, false
}

// pause waits a little longer after each try.
func (x *exchange) pause(try int) bool {
	const first = 250 * time.Millisecond
	d := first << (try - 1)
	return sleep(x.ctx, d/2+rand.N(d))
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// discard lets go of an answer that nobody gets.
func discard(resp *http.Response) {
	if resp != nil {
		_ = resp.Body.Close()
	}
}
