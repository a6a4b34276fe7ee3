// Package probe finds out whether an auth proxy's upstreams answer: it sends one tiny
// real request to each, through the proxy itself, and says in words what is wrong.
package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"harborgate/authproxy"
)

// Proxy is the proxy that is probed: a client of a service, or Own.
type Proxy interface {
	Status(ctx context.Context) (authproxy.Status, error)
	Mint(ctx context.Context, s authproxy.GrantSpec) (authproxy.Minted, error)
	Revoke(ctx context.Context, id string) (authproxy.Totals, error)
	Dial(ctx context.Context) (net.Conn, error)
}

// Result is what came of one upstream's probe.
type Result struct {
	Upstream string        `json:"upstream"`
	Model    string        `json:"model,omitempty"`
	OK       bool          `json:"ok"`
	Status   int           `json:"status,omitempty"` // of the answer
	Problem  string        `json:"problem,omitempty"`
	Next     string        `json:"next,omitempty"` // what to do about it
	Keys     []string      `json:"keys,omitempty"` // those that are refused, with why
	Took     time.Duration `json:"took_ns"`
}

// limit bounds the probe of one upstream, waiting for its limits included.
const limit = 90 * time.Second

// Upstream probes one. Model is asked for; empty chooses one that the upstream lists,
// or a small one of its provider.
func Upstream(ctx context.Context, p Proxy, u authproxy.UpstreamStatus, model string) Result {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	r := Result{Upstream: u.Name, Model: model}
	if r.Model == "" {
		r.Model = choose(u)
	}
	if r.Model == "" {
		r.Problem = "it is not known which models it has"
		r.Next = fmt.Sprintf("name one with --model, or list them at upstreams.%s.models", u.Name)
		return r
	}
	r.judge(ctx, p, u)
	r.Took = time.Since(began)
	return r
}

// judge asks, and words what came of it.
func (r *Result) judge(ctx context.Context, p Proxy, u authproxy.UpstreamStatus) {
	a, err := ask(ctx, p, u, r.Model)
	if err != nil {
		r.Problem, r.Next = err.Error(), "see `harbor auth status`"
		return
	}
	r.Status = a.status
	r.OK = a.status == http.StatusOK
	keys := refusedKeys(ctx, p, u.Name)
	for _, k := range keys {
		r.Keys = append(r.Keys, k.Ref+" "+Refusal(k))
	}
	switch {
	case r.OK:
	case a.refused == string(authproxy.KeyRefused) && !slices.ContainsFunc(keys, func(k authproxy.KeyHealth) bool { return !k.Spent }):
		r.Problem = "no quota or credit is left for its keys"
		r.Next = "raise it at the provider, and check again"
	case a.refused == string(authproxy.KeyRefused):
		r.Problem = "no key of it is accepted"
		r.Next = "replace the keys that are named, and run `harbor auth reload`; or put them right at the provider, and check again"
	case a.refused == string(authproxy.Unreachable):
		r.Problem, r.Next = reach(ctx, u.Base)
	default:
		r.Problem, r.Next = words(a, u, r.Model)
	}
}

// answer is what the proxy answered.
type answer struct {
	status  int
	refused string // why, when it is the proxy's own
	message string // of an error
}

// ask sends the request under a grant of its own.
func ask(ctx context.Context, p Proxy, u authproxy.UpstreamStatus, model string) (answer, error) {
	const moment = 5 * time.Second
	m, err := p.Mint(ctx, authproxy.GrantSpec{
		Job: "harbor-auth-check", Trial: u.Name, Phase: "check", Upstreams: []string{u.Name},
		Expires: time.Now().Add(limit + moment), Budget: authproxy.Sum{Requests: 1}, Concurrent: 1, Probe: true,
	})
	if err != nil {
		return answer{}, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), moment)
		defer cancel()
		_, _ = p.Revoke(ctx, m.ID) // it has one request, and ends by itself
	}()
	path, body := tiny(u, model)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://proxy/"+u.Name+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+m.Token)
	req.Header.Set("Content-Type", "application/json")
	tr := &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return p.Dial(ctx) },
		DisableKeepAlives: true,
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return answer{}, fmt.Errorf("the proxy did not answer: %w", err)
	}
	defer resp.Body.Close()
	const largest = 1 << 20
	text, err := io.ReadAll(io.LimitReader(resp.Body, largest))
	if err != nil {
		return answer{}, fmt.Errorf("the answer broke off: %w", err)
	}
	return answer{resp.StatusCode, resp.Header.Get(authproxy.RefusedHeader), message(text)}, nil
}

// message is what an error of any provider says.
func message(body []byte) string {
	const longest = 300
	text := gjson.GetBytes(body, "error.message").String()
	if text == "" {
		text = gjson.GetBytes(body, "0.error.message").String() // Gemini's errors may be arrays
	}
	if text = strings.Join(strings.Fields(text), " "); len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

// words are about answers that are neither good nor about keys or the network.
func words(a answer, u authproxy.UpstreamStatus, model string) (problem, next string) {
	said := ""
	if a.message != "" {
		said = ": " + a.message
	}
	switch {
	case a.refused == "" && (a.status == http.StatusNotFound || a.status == http.StatusBadRequest && strings.Contains(a.message, "model")):
		return fmt.Sprintf("it does not know the model %s%s", model, said), "name another with --model, and correct upstreams." + u.Name + ".models or .base_url"
	case a.status == http.StatusTooManyRequests:
		return "its limit is reached, or its quota" + said, "wait, or raise the limit at the provider"
	case a.status == http.StatusForbidden && a.refused == "":
		return "the key may not do this" + said, "give the key the permission at the provider"
	case a.status >= http.StatusInternalServerError && a.refused == "":
		return fmt.Sprintf("it answers with %d%s", a.status, said), "try again later; its status page may know more"
	case a.refused != "":
		return "the proxy refuses" + said, "correct upstreams." + u.Name + " in config.yaml"
	}
	return fmt.Sprintf("it answers with %d%s", a.status, said), "correct upstreams." + u.Name + " in config.yaml"
}

// refusedKeys are the keys of an upstream that its provider refuses.
func refusedKeys(ctx context.Context, p Proxy, name string) []authproxy.KeyHealth {
	s, err := p.Status(ctx)
	if err != nil {
		return nil
	}
	var out []authproxy.KeyHealth
	for _, u := range s.Upstreams {
		for _, k := range u.Keys {
			if u.Name == name && k.Refused {
				out = append(out, k)
			}
		}
	}
	return out
}

// Refusal is what it means that a provider refuses a key as it does.
func Refusal(k authproxy.KeyHealth) string {
	switch {
	case k.Spent:
		return fmt.Sprintf("has no quota or credit left (%d)", k.Status)
	case k.Status == http.StatusUnauthorized, k.Status == http.StatusBadRequest:
		return fmt.Sprintf("is not valid (%d)", k.Status)
	case k.Status == http.StatusForbidden:
		return "may not use this API (403)"
	}
	return fmt.Sprintf("is refused (%d)", k.Status)
}

// Own makes a proxy of this process one that can be probed.
func Own(p *authproxy.Proxy) Proxy { return own{p} }

type own struct{ p *authproxy.Proxy }

func (o own) Status(context.Context) (authproxy.Status, error) { return o.p.Status(), nil }

func (o own) Mint(_ context.Context, s authproxy.GrantSpec) (authproxy.Minted, error) {
	token, id, err := o.p.Mint(s)
	return authproxy.Minted{ID: id, Token: token, Spec: s}, err
}

func (o own) Revoke(_ context.Context, id string) (authproxy.Totals, error) {
	t, ok := o.p.Revoke(id)
	if !ok {
		return t, errors.New("there is no such grant")
	}
	return t, nil
}

func (o own) Dial(context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	go o.p.Handle("probe")(far)
	return near, nil
}
