package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"harborgate/providers"
)

// What engines have said, word for word but for names.
var engineWords = map[string]struct {
	message string
	kind    providers.Kind
}{
	"no space left on device":           {"write /var/lib/docker/tmp/GetImageBlob123: no space left on device", providers.KindExhausted},
	"non-overlapping IPv4 address pool": {"could not find an available, non-overlapping IPv4 address pool among the defaults to assign to the network", providers.KindExhausted},
	"toomanyrequests":                   {"toomanyrequests: You have reached your pull rate limit.", providers.KindRateLimited},
	"pull access denied":                {"pull access denied for nosuch, repository does not exist or may require 'docker login'", providers.KindDenied},
	"manifest unknown":                  {"manifest for debian:nosuch not found: manifest unknown: manifest unknown", providers.KindNotFound},
	"no matching manifest":              {"no matching manifest for linux/arm64/v8 in the manifest list entries", providers.KindNotFound},
	"no such host":                      {`Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host`, providers.KindUnavailable},
	"i/o timeout":                       {`Get "https://registry-1.docker.io/v2/": dial tcp 192.0.2.1:443: i/o timeout`, providers.KindUnavailable},
	"TLS handshake timeout":             {`Get "https://registry-1.docker.io/v2/": net/http: TLS handshake timeout`, providers.KindUnavailable},
	"connection refused":                {"dial tcp 127.0.0.1:5000: connect: connection refused", providers.KindUnavailable},
	"context canceled":                  {"failed to solve: Canceled: context canceled", providers.KindUnavailable},
	"exec format error":                 {"exec /entrypoint.sh: exec format error", providers.KindInvalid},
}

func TestEveryPatternHasItsWords(t *testing.T) {
	t.Parallel()
	for _, row := range byText {
		c, ok := engineWords[row.text]
		if !ok {
			t.Errorf("%q has no example", row.text)
			continue
		}
		for _, err := range []error{errors.New(c.message), fmt.Errorf("%w: %s", cerrdefs.ErrInternal, c.message), fmt.Errorf("%w: %s", cerrdefs.ErrNotFound, c.message)} {
			if got := kindOf(err); got != c.kind || got != row.kind {
				t.Errorf("%v: %s, want %s", err, got, c.kind)
			}
		}
	}
	if len(engineWords) != len(byText) {
		t.Errorf("%d examples of %d patterns", len(engineWords), len(byText))
	}
}

func TestEveryClassHasAKind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		kind providers.Kind
	}{
		{cerrdefs.ErrNotFound, providers.KindNotFound}, {cerrdefs.ErrConflict, providers.KindAlreadyExists},
		{cerrdefs.ErrAlreadyExists, providers.KindAlreadyExists}, {cerrdefs.ErrInvalidArgument, providers.KindInvalid},
		{cerrdefs.ErrUnauthenticated, providers.KindDenied}, {cerrdefs.ErrPermissionDenied, providers.KindDenied},
		{cerrdefs.ErrNotImplemented, providers.KindUnsupported}, {cerrdefs.ErrResourceExhausted, providers.KindRateLimited},
		{cerrdefs.ErrUnavailable, providers.KindUnavailable},
		{&net.OpError{Op: "dial", Err: errors.New("x")}, providers.KindUnavailable}, {syscall.ECONNRESET, providers.KindUnavailable},
		{syscall.EPIPE, providers.KindUnavailable}, {io.ErrUnexpectedEOF, providers.KindUnavailable},
		{cerrdefs.ErrInternal, providers.KindUnavailable}, {errors.New("something new"), providers.KindInternal},
	} {
		if got := kindOf(fmt.Errorf("Error response from daemon: %w", c.err)); got != c.kind {
			t.Errorf("%v: %s, want %s", c.err, got, c.kind)
		}
	}
}

func TestFail(t *testing.T) {
	t.Parallel()
	p := &Provider{name: "pool"}
	if err := p.fail("x", "", nil); err != nil {
		t.Error(err)
	}
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		if err := p.fail("x", "", fmt.Errorf("post: %w", end)); !errors.Is(err, end) || providers.Is(err, providers.KindUnavailable) {
			t.Errorf("%v", err)
		}
	}
	var e *providers.Error
	if err := p.fail("create", "abc", cerrdefs.ErrConflict); !errors.As(err, &e) || e.Provider != "pool" || e.Op != "create" || e.ID != "abc" || e.Kind != providers.KindAlreadyExists {
		t.Errorf("%+v", e)
	}
	// What has a kind keeps it, with all that it knows.
	death := &providers.Death{ExitCode: 1}
	inner := &providers.Error{Kind: providers.KindRateLimited, RetryAfter: time.Second, Death: death, Err: errors.New("x")}
	err := p.fail("exec", "abc", fmt.Errorf("session: %w", inner))
	if !errors.As(err, &e) || e.Provider != "pool" || e.Kind != providers.KindRateLimited || e.RetryAfter != time.Second || e.Death != death {
		t.Errorf("%+v", e)
	}
	if again := p.fail("exec", "other", err); again.Error() != err.Error() {
		t.Errorf("named twice: %v", again)
	}
}

func TestOlder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want bool
	}{{"1.40", "1.41", true}, {"1.41", "1.41", false}, {"1.5", "1.41", true}, {"1.100", "1.41", false}, {"0.99", "1.41", true}, {"2.0", "1.41", false}, {"", "1.41", false}, {"x", "1.41", false}} {
		if got := older(c.a, c.b); got != c.want {
			t.Errorf("%q older than %q: %v", c.a, c.b, got)
		}
	}
}

// TestBuildKitCodesHaveAKind: an engine that goes away during a build has not found
// the Dockerfile wrong.
func TestBuildKitCodesHaveAKind(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		kind providers.Kind
	}{
		{status.Error(codes.Unavailable, "connection error: dial unix: no such file"), providers.KindUnavailable},
		{status.Error(codes.Canceled, "x"), providers.KindUnavailable},
		{status.Error(codes.DeadlineExceeded, "x"), providers.KindUnavailable},
		{status.Error(codes.ResourceExhausted, "x"), providers.KindExhausted},
		{status.Error(codes.Unknown, "process did not complete successfully: exit code: 9"), providers.KindInternal},
	} {
		if got := kindOf(fmt.Errorf("failed to get status: %w", c.err)); got != c.kind {
			t.Errorf("%v: %s, want %s", c.err, got, c.kind)
		}
	}
}
