package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"

	"harborgate/authproxy"
	"harborgate/authproxy/client"
)

// Offer is what one upstream has for clients of a proxy.
type Offer struct {
	Upstream string            `json:"upstream"`
	Dialect  string            `json:"dialect"`
	BaseURL  string            `json:"base_url,omitempty"` // of its route at the service, without a version
	Models   []authproxy.Model `json:"models"`
	Problem  string            `json:"problem,omitempty"` // why Models are not all that there are
}

// OfferQuery says which offers are wanted.
type OfferQuery struct {
	Upstreams []string // none is all
	Grant     string   // id of one; what it may not use is left out
	URL       string   // of the service as clients reach it; "" is its own listener
}

// asker is a proxy that knows its upstreams: a service, or one of this process.
type asker interface {
	Status(ctx context.Context) (authproxy.Status, error)
	Models(ctx context.Context, upstream string) ([]authproxy.Model, error)
}

type ownAsker struct{ *authproxy.Proxy }

func (o ownAsker) Status(context.Context) (authproxy.Status, error) { return o.Proxy.Status(), nil }

// AuthModels asks all upstreams at once which models they have: through the service
// when one runs, and otherwise through a proxy of this process, whose offers have no
// base URL. An upstream that does not answer has a Problem.
func (a *App) AuthModels(ctx context.Context, q OfferQuery) ([]Offer, error) {
	c, err := a.AuthClient(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	status, err := c.Status(ctx)
	if errors.Is(err, client.ErrNotRunning) && q.Grant == "" {
		return a.ownModels(ctx, q)
	}
	if err != nil {
		return nil, err
	}
	allowed, err := grantOf(status, q.Grant)
	if err != nil {
		return nil, err
	}
	return offers(ctx, c, q, allowed)
}

func grantOf(s authproxy.Status, id string) (*authproxy.GrantSpec, error) {
	if id == "" {
		return nil, nil //nolint:nilnil // nobody asked for one
	}
	i := slices.IndexFunc(s.Grants, func(g authproxy.GrantStatus) bool { return g.ID == id })
	if i < 0 {
		return nil, fmt.Errorf("the token %s is not one of the auth proxy's: make one with `harbor auth token create`", id)
	}
	return &s.Grants[i].Spec, nil
}

func (a *App) ownModels(ctx context.Context, q OfferQuery) ([]Offer, error) {
	own, err := authproxy.New(authproxy.Options{
		Load: a.loadAuth, Sources: authproxy.Sources{LookupEnv: a.opt.Lookup}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	defer own.Close()
	if err := own.Reload(ctx); err != nil {
		return nil, err
	}
	return offers(ctx, ownAsker{own}, q, nil)
}

func offers(ctx context.Context, p asker, q OfferQuery, allowed *authproxy.GrantSpec) ([]Offer, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	status, err := p.Status(ctx)
	if err != nil {
		return nil, err
	}
	var out []Offer
	var names []string
	for _, u := range status.Upstreams {
		names = append(names, u.Name)
		if len(q.Upstreams) > 0 && !slices.Contains(q.Upstreams, u.Name) || allowed != nil && !slices.Contains(allowed.Upstreams, u.Name) {
			continue
		}
		out = append(out, Offer{Upstream: u.Name, Dialect: u.Dialect, BaseURL: q.base(status.Listen, u.Name), Models: exact(u.Models)})
	}
	for _, name := range q.Upstreams {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("there is no upstream %q: there are %s", name, strings.Join(names, ", "))
		}
	}
	var all sync.WaitGroup
	for i := range out {
		all.Go(func() { out[i].ask(ctx, p, allowed) })
	}
	all.Wait()
	return out, nil
}

// exact are names that a configuration has in full: what is known of an upstream
// that does not say which models it has.
func exact(patterns []string) []authproxy.Model {
	out := []authproxy.Model{}
	for _, p := range patterns {
		if !strings.HasSuffix(p, "*") {
			out = append(out, authproxy.Model{ID: p})
		}
	}
	return out
}

func (o *Offer) ask(ctx context.Context, p asker, allowed *authproxy.GrantSpec) {
	all, err := p.Models(ctx, o.Upstream)
	var refused *client.RefusedError
	switch {
	case err == nil:
		o.Models = all
	case errors.As(err, &refused):
		o.Problem = refused.Reason
	default:
		o.Problem = err.Error()
	}
	o.Models = slices.DeleteFunc(append([]authproxy.Model{}, o.Models...), func(m authproxy.Model) bool { return allowed != nil && !allowed.Allows(m.ID) })
}

// Check finds what is wrong with a query by itself. It repeats no address, which may
// have a password in it.
func (q OfferQuery) Check() error {
	if q.URL == "" {
		return nil
	}
	u, err := url.Parse(q.URL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("--url is no address of a proxy: write one like http://build-host:8741, without a password; the token is what lets agents in")
	}
	return nil
}

// base is where clients find an upstream; "" when the proxy takes no TCP.
func (q OfferQuery) base(listen []string, upstream string) string {
	if q.URL != "" {
		return strings.TrimSuffix(q.URL, "/") + "/" + upstream
	}
	if at := BaseURLs(listen, upstream); len(at) > 0 {
		return at[0]
	}
	return ""
}
