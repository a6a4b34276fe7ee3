package authproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"harborgate/authproxy/internal/wire"
)

// Model is a model as an upstream lists it.
type Model = wire.Model

// discoverLimit bounds the question which models an upstream has.
const discoverLimit = 20 * time.Second

// Models asks an upstream which models it has, with one of its keys, and returns
// those that may be used. Providers do not bill that. Errors are words about the
// upstream, without what it answered.
func (p *Proxy) Models(ctx context.Context, name string) ([]Model, error) {
	t := p.table.Load()
	if t == nil {
		return nil, refusal(wire.NotReady, "the proxy has no configuration")
	}
	u := t.upstreams[name]
	if u == nil {
		return nil, fmt.Errorf("there is no upstream %q", name)
	}
	ctx, cancel := context.WithTimeout(ctx, discoverLimit)
	defer cancel()
	all, err := u.models(ctx)
	if err != nil {
		return nil, fmt.Errorf("upstream %s: %w", name, err)
	}
	var out []Model
	for _, m := range all {
		if listed(u.conf.Models, m.ID) {
			out = append(out, m)
		}
	}
	return out, nil
}

func (u *upstream) models(ctx context.Context) ([]Model, error) {
	k, _ := u.pool.pick("", time.Now())
	if k == nil {
		return nil, errors.New("none of its keys can be used now: see `harbor auth status`")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "", nil)
	if err != nil {
		return nil, err
	}
	req.URL = u.target(wire.ModelList(u.conf.Dialect))
	req.Header = http.Header{"Accept": {"application/json"}, "Accept-Encoding": {"identity"}, "User-Agent": {"harbor"}}
	if u.conf.Dialect == wire.Anthropic {
		req.Header["Anthropic-Version"] = []string{"2023-06-01"}
	}
	wire.Inject(req.Header, u.slot, k.secret.value)
	resp, err := u.transport.RoundTrip(req)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("it did not answer within %s", discoverLimit)
	case err != nil:
		return nil, errors.New("it cannot be reached: see `harbor auth check`")
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers with %d when asked for its models", resp.StatusCode)
	}
	const largest = 16 << 20
	body, err := io.ReadAll(io.LimitReader(resp.Body, largest))
	if err != nil {
		return nil, errors.New("its list of models broke off")
	}
	if u.echoed(body) {
		return nil, errors.New("its list of models has the key in it")
	}
	return wire.ReadModels(body)
}

// Allows reports whether a grant may use a model, as far as the grant says.
func (s GrantSpec) Allows(model string) bool { return listed(s.Models, model) }

func (p *Proxy) adminModels(w http.ResponseWriter, r *http.Request) {
	models, err := p.Models(r.Context(), r.PathValue("name"))
	if err != nil {
		replyTo(w, err)
		return
	}
	reply(w, http.StatusOK, append([]Model{}, models...))
}
