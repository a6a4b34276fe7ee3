package plane

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"harborgate/providers"
)

// Client speaks to the Handler of another process. All methods may be called
// concurrently.
type Client struct {
	at     string // of the URL
	listen string // what harbor-sim provider is to listen on to be found
	named  string // the address as it was given
	http   *http.Client
}

// unixScheme starts the address of a socket file.
const unixScheme = "unix:"

// What is waited for at most: an answer, and the removal of what an unclear create
// may have left.
const (
	answerLimit = 30 * time.Second
	unclear     = 10 * time.Second
	hurry       = 2 * time.Second
)

// Listen listens where a Client finds it: "unix:/path", or "host:port" of this host.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	if path, ok := strings.CutPrefix(address, unixScheme); ok {
		return lc.Listen(ctx, "unix", path)
	}
	return lc.Listen(ctx, "tcp", address)
}

// Dial returns a client for "unix:/path" or "http://host:port". It does not connect
// before the first call.
func Dial(address string) (*Client, error) {
	t := &http.Transport{MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute}
	c := &Client{named: address, listen: address, http: &http.Client{Transport: t, Timeout: answerLimit}}
	if path, ok := strings.CutPrefix(address, unixScheme); ok {
		c.at = "http://plane"
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
		return c, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("simulated provider: address %q is neither unix:/path nor http://host:port", address)
	}
	c.at, c.listen = strings.TrimSuffix(address, "/"), u.Host
	return c, nil
}

// Close drops idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Create is Plane.Create. When no answer comes, what it may have made is removed.
func (c *Client) Create(ctx context.Context, s Sandbox) (providers.ID, time.Duration, error) {
	var a answer
	err := c.call(ctx, http.MethodPost, "/sandboxes", s, &a)
	if said := said(""); err != nil && !errors.As(err, &said) {
		err = errors.Join(err, c.removeUnclear(ctx, s.Name))
	}
	return a.ID, a.Wait, err
}

// removeUnclear removes what has the name, if anything does.
func (c *Client) removeUnclear(ctx context.Context, name string) error {
	ctx, cancel := providers.Cleanup(ctx, unclear, hurry)
	defer cancel()
	found, _, err := c.List(ctx, providers.Selector{NamePrefix: name})
	for _, s := range found {
		_, deleted := c.Delete(ctx, s.ID)
		err = errors.Join(err, deleted)
	}
	return err
}

// Delete is Plane.Delete.
func (c *Client) Delete(ctx context.Context, id providers.ID) (time.Duration, error) {
	var a answer
	err := c.call(ctx, http.MethodDelete, "/sandboxes/"+url.PathEscape(string(id)), nil, &a)
	return a.Wait, err
}

// List is Plane.List.
func (c *Client) List(ctx context.Context, sel providers.Selector) ([]Sandbox, time.Duration, error) {
	var a answer
	err := c.call(ctx, http.MethodPost, "/list", sel, &a)
	return a.Sandboxes, a.Wait, err
}

// Check is Plane.Check.
func (c *Client) Check(ctx context.Context) (time.Duration, error) {
	var a answer
	err := c.call(ctx, http.MethodPost, "/check", nil, &a)
	return a.Wait, err
}

// Exec is Plane.Exec.
func (c *Client) Exec(ctx context.Context, id providers.ID) (time.Duration, error) {
	var a answer
	err := c.call(ctx, http.MethodPost, "/sandboxes/"+url.PathEscape(string(id))+"/exec", nil, &a)
	return a.Wait, err
}

// Counters is Plane.Counters.
func (c *Client) Counters(ctx context.Context) (Counters, error) {
	var out Counters
	err := c.call(ctx, http.MethodGet, "/counters", nil, &out)
	return out, err
}

// Inject is Plane.Inject.
func (c *Client) Inject(ctx context.Context, faults ...Fault) error {
	for _, f := range faults {
		if err := c.call(ctx, http.MethodPost, "/faults", f, nil); err != nil {
			return err
		}
	}
	return nil
}

// Heal is Plane.Heal.
func (c *Client) Heal(ctx context.Context) error {
	return c.call(ctx, http.MethodDelete, "/faults", nil, nil)
}

// call sends a request and reads the answer. A refusal is the error that it says;
// no answer is Unavailable, or ctx's error.
func (c *Client) call(ctx context.Context, method, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return providers.E(providers.KindInternal, "request", err)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.at+path, bytes.NewReader(text))
	if err != nil {
		return providers.E(providers.KindInternal, "request", err)
	}
	resp, err := c.http.Do(req)
	if ctx.Err() != nil {
		if err == nil {
			_ = resp.Body.Close()
		}
		return ctx.Err()
	}
	if err != nil {
		return c.unanswered(err)
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(resp.Body)
	if err != nil {
		return providers.E(providers.KindUnavailable, "request", err)
	}
	if resp.StatusCode != http.StatusOK {
		var r refusal
		if err := json.Unmarshal(text, &r); err != nil || r.Kind == "" {
			return providers.Errorf(providers.KindInternal, "request", "%s %s: %s: %.200s", method, path, resp.Status, text)
		}
		return r.err()
	}
	if into == nil {
		return nil
	}
	return providers.E(providers.KindInternal, "request", json.Unmarshal(text, into))
}

// unanswered says where nobody answers and what to do, in the user's words for it: the
// URL of the request is nobody's.
func (c *Client) unanswered(err error) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return providers.Errorf(providers.KindUnavailable, "", "no simulated provider answers at %s: start it with harbor-sim provider --config FILE --listen %s (%w)", c.named, c.listen, err)
}
