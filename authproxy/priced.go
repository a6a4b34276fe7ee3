package authproxy

import (
	"fmt"
	"net/http"

	"harborgate/authproxy/internal/ledger"
	"harborgate/authproxy/internal/wire"
)

// Priced says what of a model has a price. What has none is refused to grants with a
// budget of money.
type Priced struct {
	Tokens bool `json:"tokens"`
	Search bool `json:"search"` // by the provider, which some agents ask for
}

// Priced looks a model of an upstream up, by the upstream's own name for it.
func (c Config) Priced(upstream, model string) (Priced, error) {
	u, ok := c.Upstreams[upstream]
	if !ok {
		return Priced{}, fmt.Errorf("there is no upstream %q", upstream)
	}
	builtin, _, err := ledger.Builtin()
	if err != nil {
		return Priced{}, err
	}
	p, ok := u.price(builtin, model)
	return Priced{Tokens: ok, Search: p.Search > 0}, nil
}

// Priced looks a model up in the configuration in force.
func (p *Proxy) Priced(upstream, model string) (Priced, error) {
	t := p.table.Load()
	if t == nil {
		return Priced{}, refusal(wire.NotReady, "the proxy has no configuration")
	}
	u := t.upstreams[upstream]
	if u == nil {
		return Priced{}, fmt.Errorf("there is no upstream %q", upstream)
	}
	price, ok := t.price(u, model)
	return Priced{Tokens: ok, Search: price.Search > 0}, nil
}

func (p *Proxy) adminPriced(w http.ResponseWriter, r *http.Request) {
	priced, err := p.Priced(r.PathValue("name"), r.URL.Query().Get("model"))
	if err != nil {
		replyTo(w, err)
		return
	}
	reply(w, http.StatusOK, priced)
}

// Lists reports whether a model is one of patterns, as in Upstream.Models; no patterns
// list all.
func Lists(patterns []string, model string) bool { return listed(patterns, model) }

// Carries reports whether requests of a dialect can name a model. Gemini's have the
// name in their path: there it is of ASCII letters, digits and "._-@", 128 at most.
func Carries(d Dialect, model string) bool {
	spec, ok := wire.SpecOf(d)
	return ok && spec.Carries(model)
}
