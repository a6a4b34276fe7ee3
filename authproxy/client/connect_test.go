package client_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"harborgate/authproxy/client"
)

// over sends one request with a token over a connection that dial makes.
func over(t *testing.T, dial func(context.Context) (net.Conn, error), token string) int {
	t.Helper()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://proxy/anthropic/v1/messages",
		strings.NewReader(`{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", token)
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

func TestAttack13StolenTokenAtTheService(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, listen(t, "tcp", "127.0.0.1:0"))
	one, other := spec(), spec()
	one.Source, other.Source = "j/t/1/agent", "j/u/1/agent"
	mine, err := c.Mint(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := c.Mint(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	from := func(grant string) func(context.Context) (net.Conn, error) {
		return func(ctx context.Context) (net.Conn, error) { return c.Connect(ctx, grant) }
	}
	for _, row := range []struct {
		name string
		dial func(context.Context) (net.Conn, error)
		want int
	}{
		{"its own connection", from(mine.ID), http.StatusOK},
		{"that of another trial", from(theirs.ID), http.StatusUnauthorized},
		{"that of no grant", from("none"), http.StatusUnauthorized},
		{"the listener of the host", c.Dial, http.StatusUnauthorized},
	} {
		if status := over(t, row.dial, mine.Token); status != row.want {
			t.Errorf("%s: %d, want %d", row.name, status, row.want)
		}
	}
	if _, err := c.Revoke(t.Context(), mine.ID); err != nil {
		t.Fatal(err)
	}
	if status := over(t, from(mine.ID), mine.Token); status != http.StatusUnauthorized {
		t.Errorf("revoked: %d", status)
	}
}

func TestConnectToNobody(t *testing.T) {
	t.Parallel()
	c := client.New(t.TempDir() + "/none.sock")
	if _, err := c.Connect(t.Context(), "g"); !errors.Is(err, client.ErrNotRunning) {
		t.Errorf("got %v", err)
	}
}
