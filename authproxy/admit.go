package authproxy

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"harborgate/authproxy/internal/wire"
)

func refusal(r wire.Reason, message string) *wire.Refusal {
	return &wire.Refusal{Reason: r, Message: message}
}

// ready refuses while there is nothing to serve, or no more.
func (x *exchange) ready() error {
	if x.table == nil {
		return refusal(wire.NotReady, "the proxy has no configuration yet")
	}
	if x.p.ctx.Err() != nil {
		return refusal(wire.NotReady, "the proxy is stopping")
	}
	return nil
}

// staying refuses what would be new to a proxy that is stopping. It comes behind
// the grant, whose owner must learn that it was not the client's doing.
func (x *exchange) staying() error {
	if !x.p.draining.Load() {
		return nil
	}
	x.rec.billed = x.route.Cost == wire.Billed
	return refusal(wire.NotReady, "the proxy is stopping")
}

// shape refuses what is no plain request of ours: other protocols, other methods,
// the forms that are meant for forward proxies, and what could be read in two ways.
func (x *exchange) shape() error {
	r := x.r
	switch {
	case !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPost}, r.Method):
		return refusal(wire.WrongMethod, "this method is not served")
	case !strings.HasPrefix(r.RequestURI, "/"):
		return refusal(wire.Invalid, "this is no forward proxy: use it as the base URL, and unset HTTP_PROXY")
	case r.Header.Get("Upgrade") != "" || hasToken(r.Header["Connection"], "upgrade"):
		return refusal(wire.Upgrade, "other protocols are not served: use plain requests")
	}
	if len(r.TransferEncoding) > 0 { // whatever comes behind the body is not read
		x.w.Header()["Connection"] = []string{"close"}
	}
	if err := wire.CheckHeader(r.Header); err != nil {
		return refusal(wire.Invalid, err.Error())
	}
	return nil
}

func hasToken(values []string, token string) bool {
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// locate takes the path apart: /[t/<token>/]<upstream>/<path of the dialect>.
func (x *exchange) locate() error {
	raw, _, _ := strings.Cut(x.r.RequestURI, "?")
	if !wire.CleanPath(raw) {
		return refusal(wire.Invalid, "the path holds escapes, empty or dotted parts, or other signs")
	}
	if rest, ok := strings.CutPrefix(raw, "/"+tokenPrefix+"/"); ok {
		token, path, _ := strings.Cut(rest, "/")
		x.tokens = append(x.tokens, token)
		raw = "/" + path
	}
	name, path, _ := strings.Cut(raw[1:], "/")
	x.path, x.up = "/"+path, x.table.upstreams[name]
	x.style = wire.StyleOf(x.path)
	spec := wire.Spec{}
	if x.up != nil {
		spec = x.up.spec
		if x.style == wire.StylePlain && x.up.conf.Dialect == wire.Anthropic {
			x.style = wire.StyleMessages
		}
	}
	query, keys, err := spec.Query(x.r.URL.RawQuery)
	if err != nil {
		return refusal(wire.Invalid, err.Error())
	}
	x.query, x.tokens = query, append(x.tokens, keys...)
	return nil
}

// greet answers the probe that an agent sends before it has a credential.
func (x *exchange) greet() error {
	if x.r.Method != http.MethodHead || x.path != "/api/hello" || len(x.presented()) > 0 {
		return nil
	}
	x.rec.End = Complete
	x.answer(http.StatusOK, nil, nil)
	return errAnswered
}

// presented are the credentials that the request carries, anywhere.
func (x *exchange) presented() []string { return append(wire.Credentials(x.r.Header), x.tokens...) }

// authenticate finds the grant. Unknown, expired and revoked tokens, and those of
// another source, get the same answer.
func (x *exchange) authenticate() error {
	bad := refusal(wire.NoGrant, "the token is missing or not valid (any more)")
	given := x.presented()
	if len(given) == 0 {
		return bad
	}
	for _, t := range given[1:] {
		if t != given[0] {
			return refusal(wire.NoGrant, "the request carries two different credentials: set one only")
		}
	}
	g := x.p.grants.find(given[0])
	if g == nil || g.ctx.Err() != nil {
		return bad
	}
	x.rec.Grant, x.rec.Job, x.rec.Trial, x.rec.Phase = g.id, g.spec.Job, g.spec.Trial, g.spec.Phase
	if g.spec.Source != "" && g.spec.Source != x.rec.Source {
		x.elsewhere = true
		return bad
	}
	x.grant = g
	if !g.enter() {
		return &wire.Refusal{Reason: wire.Busy, Message: "the grant has as many requests open as it may", After: oneSecond}
	}
	x.entered = true
	x.follow(g)
	return nil
}

// follow ties the request to the lives of its grant and of the proxy.
func (x *exchange) follow(g *grant) {
	ctx, cancel := context.WithCancelCause(x.r.Context())
	x.ctx, x.cancel = ctx, cancel
	revoked := context.AfterFunc(g.ctx, func() { cancel(errRevoked) })
	stopped := context.AfterFunc(x.p.ctx, func() { cancel(errStopped) })
	x.finally(func() {
		revoked()
		stopped()
		cancel(nil)
	})
}

// match finds upstream and route.
func (x *exchange) match() error {
	if x.up == nil {
		return refusal(wire.Unlisted, "there is no such upstream")
	}
	x.rec.Upstream = x.up.name
	if !slices.Contains(x.grant.spec.Upstreams, x.up.name) {
		return refusal(wire.Forbidden, "the grant does not reach this upstream")
	}
	route, model, ok, known := x.up.spec.Match(x.r.Method, x.path)
	switch {
	case ok:
	case known:
		return refusal(wire.WrongMethod, "this path is not served with this method")
	default:
		x.rec.astray = x.r.Method == http.MethodPost
		return refusal(wire.Unlisted, x.unserved())
	}
	x.route, x.rec.Route, x.rec.Model = route, route.Method+" "+route.Path, model
	return nil
}

// unserved is what to say of a path that is no route: as a rule the client's base URL
// lacks the version, or has it twice.
func (x *exchange) unserved() string {
	const version = "/v1"
	base := "/" + x.up.name
	if route, _, ok, _ := x.up.spec.Match(x.r.Method, version+x.path); ok {
		return "this path is not served, and " + route.Path + " is: let the base URL end with " + base + version
	}
	if rest, twice := strings.CutPrefix(x.path, version); twice {
		if route, _, ok, _ := x.up.spec.Match(x.r.Method, rest); ok {
			return "this path is not served, and " + route.Path + " is: let the base URL end with " + base + ", without " + version
		}
	}
	return "this path is not served"
}

// local answers the routes that are the proxy's own: lists of models, from the
// grant and quick, and telemetry, which is dropped.
func (x *exchange) local() error {
	if x.route.Cost != wire.Local {
		return nil
	}
	x.rec.End = Complete
	switch {
	case x.route.Sink:
		x.answer(http.StatusNoContent, nil, nil)
		return errAnswered
	case x.r.Method == http.MethodHead:
		x.answer(http.StatusOK, nil, nil)
		return errAnswered
	}
	var models []string
	for _, m := range x.models() {
		if x.rec.Model == "" || x.rec.Model == m {
			models = append(models, m)
		}
	}
	if x.rec.Model != "" && len(models) == 0 {
		return refusal(wire.Unlisted, "there is no such model")
	}
	x.answer(http.StatusOK, http.Header{"Content-Type": {"application/json"}}, x.modelList(models))
	return errAnswered
}

// models are those that the grant may use, as far as they are listed by name.
func (x *exchange) models() []string {
	var out []string
	for _, list := range [][]string{x.grant.spec.Models, x.up.conf.Models} {
		for _, m := range list {
			open := strings.HasSuffix(m, "*")
			if !open && !slices.Contains(out, m) && x.allowed(m) {
				out = append(out, m)
			}
		}
	}
	slices.Sort(out)
	return out
}

func (x *exchange) allowed(model string) bool {
	return listed(x.up.conf.Models, model) && listed(x.grant.spec.Models, model)
}

// modelList is the answer with one or with all models, as the dialect writes it.
func (x *exchange) modelList(models []string) []byte {
	type object = map[string]any
	list := []any{}
	for _, m := range models {
		switch x.up.conf.Dialect {
		case wire.Gemini:
			list = append(list, object{"name": "models/" + m, "displayName": m})
		case wire.Anthropic:
			list = append(list, object{"type": "model", "id": m, "display_name": m, "created_at": "1970-01-01T00:00:00Z"})
		default:
			list = append(list, object{"object": "model", "id": m, "created": 0, "owned_by": "harborgate"})
		}
	}
	var doc any
	switch {
	case x.rec.Model != "":
		doc = list[0]
	case x.up.conf.Dialect == wire.Gemini:
		doc = object{"models": list}
	case x.up.conf.Dialect == wire.Anthropic:
		doc = object{"data": list, "has_more": false}
	default:
		doc = object{"object": "list", "data": list}
	}
	b, err := json.Marshal(doc)
	if err != nil {
		panic(err) // strings always have a form in JSON
	}
	return b
}
