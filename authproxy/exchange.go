package authproxy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"harborgate/authproxy/internal/ledger"
	"harborgate/authproxy/internal/wire"
)

// step is one thing that happens to a request. An error ends it: a *wire.Refusal
// is the answer, errAnswered says that there is one already, errAborted that the
// connection must not end as if the answer were complete.
type step func(*exchange) error

var (
	errAnswered = errors.New("answered")
	errAborted  = errors.New("aborted")
)

// path is what happens to every request, in order.
func path() []step {
	return []step{
		(*exchange).ready,        // I9: not ready means refuse
		(*exchange).shape,        // no other protocol, method or form
		(*exchange).locate,       // token and upstream of the path
		(*exchange).greet,        // a probe without credentials
		(*exchange).authenticate, // I1, I6: no grant, no dial
		(*exchange).match,        // I2: listed methods and paths only
		(*exchange).staying,      // nothing new while it stops
		(*exchange).local,        // what the proxy answers itself
		(*exchange).read,         // the body, within bounds
		(*exchange).policy,       // models, and keys that are not served
		(*exchange).reserve,      // budgets
		(*exchange).queue,        // limits of the upstream
		(*exchange).strip,        // I4: inbound credentials never leave
		(*exchange).forward,      // rewrite, inject, send; again before the first byte only
		(*exchange).relay,        // I10: byte for byte, metered on the side
	}
}

// exchange is one request on its way.
type exchange struct {
	p       *Proxy
	w       http.ResponseWriter
	r       *http.Request
	rc      *http.ResponseController
	start   time.Time
	rec     Record
	shown   atomic.Pointer[Stream]
	style   wire.Style
	patient time.Time // when the client was last given time
	ends    []func()  // what to let go of, the last one first

	table      *table
	grant      *grant
	elsewhere  bool // the token is valid, and the source is not its own
	unrecorded bool // there were too many like it
	entered    bool // the grant counts the request as running
	up         *upstream
	route      wire.Route
	path       string // of the upstream's dialect
	query      string
	tokens     []string        // found in path and query
	ctx        context.Context //nolint:containedctx // ends with client, grant or proxy
	cancel     context.CancelCauseFunc

	said       *said // nil unless the grant wants it kept
	held       *body
	body       []byte // of held, or made from it; nil once an answer is there
	taken      bool   // the body was read to its end
	ask        wire.Ask
	filter     bool // take the usage chunk out again
	price      Price
	priced     bool
	worst      wire.Usage
	reserved   *ledger.Reservation
	header     http.Header // to the upstream
	resp       *http.Response
	probed     []*key // that a probe has tried
	sent       bool   // an upstream was asked
	unanswered bool   // and nobody knows what came of it
	report     wire.Report
}

// ServeHTTP answers one request of the data plane.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{
		p: p, w: w, r: r, rc: http.NewResponseController(w), start: time.Now(),
		style: wire.StyleOf(r.URL.Path), ctx: r.Context(), table: p.table.Load(),
	}
	x.rec = Record{Time: x.start.UTC(), ID: newID(), BytesIn: max(0, r.ContentLength)}
	x.rec.Source, _ = r.Context().Value(sourceKey{}).(string)
	p.enter(x)
	defer p.leave(x)
	if x.run() {
		panic(http.ErrAbortHandler) // the only way to end a connection without ending the answer
	}
}

// newID names a request.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return "hgr_" + hex.EncodeToString(b[:])
}

// run takes the request through all steps, and everything that must happen
// whatever becomes of it. It reports whether the connection must be cut.
func (x *exchange) run() (abort bool) {
	defer x.finish()
	defer func() {
		if v := recover(); v != nil {
			// What was thrown may hold anything, so it is not repeated.
			x.p.opts.Log.Error("a bug ended a request", "request", x.rec.ID)
			x.rec.End, x.rec.Refused, abort = Broken, wire.Internal, true
		}
	}()
	for _, s := range x.p.steps {
		err := s(x)
		var refusal *wire.Refusal
		switch {
		case err == nil:
		case errors.Is(err, errAnswered):
			return false
		case errors.As(err, &refusal):
			x.refuse(refusal)
			return false
		default:
			return true
		}
	}
	return false
}

// refuse answers with an error of the proxy's own.
func (x *exchange) refuse(r *wire.Refusal) {
	if x.grant == nil {
		x.unrecorded, x.rec.Repeated = x.p.guard.refused(x.rec.Source, x.start)
		x.stranger()
	}
	status, header, body := r.Answer(x.style, x.rec.ID)
	x.rec.Refused, x.rec.Why, x.rec.End = r.Reason, r.Message, Refused
	if r.Reason == wire.Upgrade {
		header["Upgrade"] = []string{"HTTP/1.1"}
	}
	if r.Reason == wire.TooLarge || r.Reason == wire.Upgrade || x.unrecorded {
		header["Connection"] = []string{"close"}
	}
	x.answer(status, header, body)
}

// stranger tells of a valid token that came from elsewhere, which somebody must have
// taken.
func (x *exchange) stranger() {
	if x.elsewhere && !x.unrecorded {
		x.p.opts.Log.Warn("a token came from elsewhere", "grant", x.rec.Grant, "trial", x.rec.Trial, "source", x.rec.Source)
	}
}

// answer sends a whole answer from memory.
func (x *exchange) answer(status int, header http.Header, body []byte) {
	h := x.w.Header()
	for name, values := range header {
		h[name] = values
	}
	if status != http.StatusNoContent {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	x.rec.Status = status
	x.patience()
	x.w.WriteHeader(status)
	n, err := x.w.Write(body)
	x.said.answered(body)
	x.rec.BytesOut += int64(n)
	if err != nil {
		x.rec.End = ClientGone
	}
}

// patience gives the client time to take the next piece: at least seven eighths of
// what is configured, so that not every piece sets a timer.
func (x *exchange) patience() {
	now := time.Now()
	if now.Sub(x.patient) < x.p.opts.Write/8 {
		return
	}
	x.patient = now
	_ = x.rc.SetWriteDeadline(time.Now().Add(x.p.opts.Write)) // what cannot have one does without
}

// finally has f called when the request has ended.
func (x *exchange) finally(f func()) { x.ends = append(x.ends, f) }

// finish settles, lets go of everything and writes the record: I8, one for each
// request.
func (x *exchange) finish() {
	x.settle()
	x.transcript()
	for i := len(x.ends) - 1; i >= 0; i-- {
		x.ends[i]()
	}
	_ = x.rc.SetWriteDeadline(time.Time{})
	if !x.taken { // the server reads the rest of a body, and would wait for it for ever
		const rest = 5 * time.Second
		_ = x.rc.SetReadDeadline(time.Now().Add(rest))
	}
	x.rec.WaitedMS, x.rec.DurMS = x.rec.waited.Milliseconds(), time.Since(x.start).Milliseconds()
	if x.rec.End == "" {
		x.rec.End = ClientGone
	}
	if x.grant != nil {
		x.grant.count(&x.rec)
	}
	if x.entered {
		defer x.grant.leave() // whoever revokes the grant finds the record
	}
	if x.p.opts.Metrics != nil {
		x.p.opts.Metrics.Served(x.rec)
	}
	if x.p.opts.Audit == nil || x.unrecorded {
		return
	}
	if err := x.p.opts.Audit.Record(x.rec); err != nil {
		x.p.opts.Log.Error("audit record lost", "request", x.rec.ID, "error", err.Error())
	}
}
