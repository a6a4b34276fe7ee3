package authproxy

import (
	"net/http"

	"harborgate/authproxy/internal/ledger"
	"harborgate/authproxy/internal/wire"
)

// bytesPerToken is how much text a token holds, roughly.
const bytesPerToken = 4

// settle says what the request has used, and replaces the reservation by it. Only
// what the upstream said counts; where it said nothing, the reservation does, so
// that hiding usage never pays.
func (x *exchange) settle() {
	if x.reserved == nil {
		return
	}
	spent := Sum{}
	if x.sent {
		spent.Requests = 1
		x.usage()
		spent.Tokens = x.rec.Usage.Tokens()
		if x.rec.Cost != nil {
			spent.Money = *x.rec.Cost
		}
	}
	if x.report.ID != "" && x.route.Format == wire.Responses {
		x.p.owners.Add(x.up.name+"/"+x.report.ID, x.grant.trial())
	}
	if err := x.reserved.Settle(spent); err != nil {
		x.p.opts.Log.Error("a settlement is not on the disk", "request", x.rec.ID, "error", err.Error())
	}
}

// usage fills in what was used and what it cost.
func (x *exchange) usage() {
	r := &x.report
	switch {
	case x.resp == nil && !x.unanswered, x.resp != nil && x.resp.StatusCode >= http.StatusBadRequest:
		x.cost(wire.Usage{}) // an error of the upstream costs nothing
		return
	case r.Known && (r.Complete || r.Failed):
		x.rec.Usage = r.Usage
	case r.Failed && r.Text == 0:
		// Nothing came but an error, which costs nothing.
	case x.resp == nil, r.Complete && !r.Failed, x.rec.End == Complete, x.rec.End == Refused:
		// It was sent, and nobody saw what came of it; or it came and said nothing.
		x.rec.Usage, x.rec.Guessed = x.worst, true
	default:
		x.rec.Usage, x.rec.Guessed = x.partial(), true
	}
	x.cost(x.rec.Usage)
}

// partial is what an answer that broke off has used: what it said went in, or else
// what was reserved for that, and the text that came out.
func (x *exchange) partial() wire.Usage {
	u := x.report.Usage
	if !x.report.InputKnown {
		u = wire.Usage{Input: x.worst.Input}
	}
	u.Output = max(u.Output, min(x.worst.Output, x.report.Text/bytesPerToken+1))
	return u
}

// cost prices usage: by what the provider says, by the model that answered, by the
// model that was asked for. Without a price it is nothing that can be stated.
func (x *exchange) cost(u wire.Usage) {
	if x.report.Cost != "" {
		if stated, err := ledger.ParseUSD(x.report.Cost); err == nil {
			x.rec.Cost = &stated
			return
		}
	}
	price, ok := x.price, x.priced
	if answered := x.report.Model; answered != "" && answered != x.ask.Model {
		x.rec.Answered = clip(answered)
		if p, known := x.table.price(x.up, answered); known {
			price, ok = p, true
		}
	}
	if !ok {
		return
	}
	tier := x.report.Tier
	if tier == "" {
		tier = x.ask.Tier
	}
	c := price.Cost(u, tier)
	x.rec.Cost = &c
}
