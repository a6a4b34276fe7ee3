package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"harborgate/authproxy"
)

// Connect opens a connection for requests of one grant. The service sees it come from
// the grant's source, whatever that is: so no other connection can use the grant.
// Closing it is the caller's.
func (c *Client) Connect(ctx context.Context, grant string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if err := c.upgrade(ctx, conn, grant); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// upgrade makes a connection of the admin socket one for requests.
func (c *Client) upgrade(ctx context.Context, conn net.Conn, grant string) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://auth/v1/grants/"+url.PathEscape(grant)+"/connect", http.NoBody)
	if err != nil {
		return fmt.Errorf("auth proxy at %s: %w", c.socket, err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", authproxy.ConnectProtocol)
	if err := req.Write(conn); err != nil {
		return c.unreachable(ctx, err)
	}
	answer := bufio.NewReader(conn) // nothing comes behind the answer before a request does
	resp, err := http.ReadResponse(answer, req)
	if err != nil {
		return c.unreachable(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, largest)) // what is missing of it is not said
		return fmt.Errorf("auth proxy at %s: %w", c.socket, refused(resp.StatusCode, text))
	}
	if !stop() {
		return c.unreachable(ctx, context.Cause(ctx))
	}
	return nil
}
