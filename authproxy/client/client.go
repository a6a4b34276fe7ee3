// Package client administers an auth proxy that runs as a service of this host, over
// its admin socket, and reaches its data listener.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"harborgate/authproxy"
	"harborgate/authproxy/usage"
)

// Client speaks to one service. It is safe for concurrent use. Its errors name the
// socket, the reason and the next step.
type Client struct {
	socket string
	http   *http.Transport
	data   atomic.Pointer[place] // where the data listener was found
}

// idle is how long an unused connection is kept.
const idle = 10 * time.Second

// New returns a client of the admin socket at a path. Nothing is dialled yet.
func New(socket string) *Client {
	var d net.Dialer
	return &Client{socket: socket, http: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", socket)
		},
		IdleConnTimeout: idle,
	}}
}

// Close lets go of unused connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Socket is the path of the admin socket.
func (c *Client) Socket() string { return c.socket }

// Status returns what the service is doing.
func (c *Client) Status(ctx context.Context) (authproxy.Status, error) {
	return call[authproxy.Status](ctx, c, http.MethodGet, "/v1/status", nil)
}

// Mint makes a grant. Its token is shown this once.
func (c *Client) Mint(ctx context.Context, s authproxy.GrantSpec) (authproxy.Minted, error) {
	return call[authproxy.Minted](ctx, c, http.MethodPost, "/v1/grants", s)
}

// Grant returns what a grant is doing.
func (c *Client) Grant(ctx context.Context, id string) (authproxy.GrantStatus, error) {
	return call[authproxy.GrantStatus](ctx, c, http.MethodGet, "/v1/grants/"+url.PathEscape(id), nil)
}

// Revoke ends a grant and its open streams, and returns what came of it.
func (c *Client) Revoke(ctx context.Context, id string) (authproxy.Totals, error) {
	return call[authproxy.Totals](ctx, c, http.MethodDelete, "/v1/grants/"+url.PathEscape(id), nil)
}

// Models asks an upstream, through the service, which models it has.
func (c *Client) Models(ctx context.Context, upstream string) ([]authproxy.Model, error) {
	return call[[]authproxy.Model](ctx, c, http.MethodGet, "/v1/upstreams/"+url.PathEscape(upstream)+"/models", nil)
}

// Priced asks what of a model has a price at an upstream.
func (c *Client) Priced(ctx context.Context, upstream, model string) (authproxy.Priced, error) {
	return call[authproxy.Priced](ctx, c, http.MethodGet, "/v1/upstreams/"+url.PathEscape(upstream)+"/priced?"+url.Values{"model": {model}}.Encode(), nil)
}

// Usage adds up the audit log of the service.
func (c *Client) Usage(ctx context.Context, by usage.By, f usage.Filter) (usage.Report, error) {
	q := url.Values{"by": {string(by)}, "job": {f.Job}}
	if !f.Since.IsZero() {
		q.Set("since", f.Since.Format(time.RFC3339Nano))
	}
	return call[usage.Report](ctx, c, http.MethodGet, "/v1/usage?"+q.Encode(), nil)
}

// Records writes to w a line of JSON, an authproxy.Record, for each request of a grant
// that was made at since; it may have ended.
func (c *Client) Records(ctx context.Context, id string, since time.Time, w io.Writer) error {
	resp, err := c.send(ctx, http.MethodGet, "/v1/grants/"+url.PathEscape(id)+"/records?"+url.Values{"since": {since.Format(time.RFC3339Nano)}}.Encode(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return c.brokeOff(err)
	}
	return nil
}

// Reload has the service read its configuration and keys again.
func (c *Client) Reload(ctx context.Context) error {
	_, err := call[struct{}](ctx, c, http.MethodPost, "/v1/reload", nil)
	return err
}

// Drain has the service refuse new requests, and returns when the open ones have
// ended; those that have not after limit are cut.
func (c *Client) Drain(ctx context.Context, limit time.Duration) error {
	_, err := call[struct{}](ctx, c, http.MethodPost, "/v1/drain?timeout="+limit.String(), nil)
	return err
}

// Dial connects to the service's data listener; a socket of the file system is
// preferred, because only some users can reach it. Grants for such connections
// have no source, or "unix".
func (c *Client) Dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	if at := c.data.Load(); at != nil {
		if conn, err := d.DialContext(ctx, at.Network(), at.String()); err == nil {
			return conn, nil
		}
	}
	s, err := c.Status(ctx) // it may have moved
	if err != nil {
		return nil, err
	}
	network, address, ok := nearest(s.Listen)
	if !ok {
		return nil, fmt.Errorf("auth proxy at %s takes no requests: set auth.listen and start it again", c.socket)
	}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("auth proxy at %s: its listener cannot be reached: %w: see `harbor auth status`", c.socket, err)
	}
	c.data.Store(&place{network, address})
	return conn, nil
}

// place is an address.
type place struct{ network, address string }

// Network implements net.Addr.
func (p place) Network() string { return p.network }

func (p place) String() string { return p.address }

// nearest chooses among addresses of Status.
func nearest(listen []string) (network, address string, ok bool) {
	for _, want := range []string{"unix", "tcp"} {
		for _, l := range listen {
			if network, address, _ = strings.Cut(l, ":"); network == want {
				return network, address, true
			}
		}
	}
	return "", "", false
}

// largest bounds an answer: the status of some thousand grants.
const largest = 64 << 20

// send sends one request and returns its answer, whose body is to be closed, unless it
// is an error.
func (c *Client) send(ctx context.Context, method, path string, ask any) (*http.Response, error) {
	var body io.Reader
	if ask != nil {
		text, err := json.Marshal(ask)
		if err != nil {
			return nil, fmt.Errorf("auth proxy at %s: %w", c.socket, err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://auth"+path, body)
	if err != nil {
		return nil, fmt.Errorf("auth proxy at %s: %w", c.socket, err)
	}
	resp, err := c.http.RoundTrip(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, largest))
	if err != nil {
		return nil, c.brokeOff(err)
	}
	return nil, fmt.Errorf("auth proxy at %s: %w", c.socket, refused(resp.StatusCode, text))
}

func (c *Client) brokeOff(err error) error {
	return fmt.Errorf("auth proxy at %s broke off: %w: see its log", c.socket, err)
}

// call sends one request and reads its answer, if it has one.
func call[T any](ctx context.Context, c *Client, method, path string, ask any) (answer T, err error) {
	resp, err := c.send(ctx, method, path, ask)
	if err != nil {
		return answer, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, largest))
	switch {
	case err != nil:
		return answer, c.brokeOff(err)
	case resp.StatusCode == http.StatusNoContent:
		return answer, nil
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, fmt.Errorf("auth proxy at %s answers what this program does not understand: %w: use the same version of harbor for both", c.socket, err)
	}
	return answer, nil
}

// RefusedError is what a service that answers will not do.
type RefusedError struct {
	Status int // of HTTP: 404 is an id that is none
	Reason string
}

func (e *RefusedError) Error() string { return e.Reason }

func refused(status int, text []byte) error {
	var body struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(text, &body) != nil || body.Error == "" {
		body.Error = fmt.Sprintf("it answers with %d: is it an auth proxy of harbor's?", status)
	}
	return &RefusedError{status, body.Error}
}

// ErrNotRunning is in the error of every call when nobody answers at the socket.
var ErrNotRunning = errors.New("no auth proxy runs there")

// unreachable words what is wrong with the socket.
func (c *Client) unreachable(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("auth proxy at %s did not answer in time: %w: see its log", c.socket, context.Cause(ctx))
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("auth proxy at %s: %w: start `harbor auth serve`, or set auth.socket in config.yaml", c.socket, ErrNotRunning)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("auth proxy at %s: this user may not use its socket: join the group %s, or run this as the user of the proxy", c.socket, authproxy.AdminGroup)
	}
	return fmt.Errorf("auth proxy at %s cannot be reached: %w: see its log", c.socket, err)
}
