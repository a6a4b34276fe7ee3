package docker

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/client"
	"github.com/moby/buildkit/util/grpcerrors"
	"google.golang.org/grpc/codes"

	"harborgate/providers"
)

// byClass turns the classes that the client makes of HTTP statuses into kinds.
var byClass = []struct {
	is   func(error) bool
	kind providers.Kind
}{
	{cerrdefs.IsNotFound, providers.KindNotFound},
	{cerrdefs.IsConflict, providers.KindAlreadyExists},
	{cerrdefs.IsAlreadyExists, providers.KindAlreadyExists},
	{cerrdefs.IsInvalidArgument, providers.KindInvalid},
	{cerrdefs.IsUnauthorized, providers.KindDenied},
	{cerrdefs.IsPermissionDenied, providers.KindDenied},
	{cerrdefs.IsNotImplemented, providers.KindUnsupported},
	{cerrdefs.IsResourceExhausted, providers.KindRateLimited},
	{cerrdefs.IsUnavailable, providers.KindUnavailable},
	{cerrdefs.IsInternal, providers.KindUnavailable}, // its trouble, not ours
	{client.IsErrConnectionFailed, providers.KindUnavailable},
}

// byText is for what the engine says only in words, all of them with status 500
// (or 404 for the pulls). Each row has a test.
var byText = []struct {
	text string
	kind providers.Kind
}{
	{"no space left on device", providers.KindExhausted},
	{"non-overlapping IPv4 address pool", providers.KindExhausted},
	{"toomanyrequests", providers.KindRateLimited},
	{"pull access denied", providers.KindDenied},
	{"manifest unknown", providers.KindNotFound},
	{"no matching manifest", providers.KindNotFound},
	{"no such host", providers.KindUnavailable},
	{"i/o timeout", providers.KindUnavailable},
	{"TLS handshake timeout", providers.KindUnavailable},
	{"connection refused", providers.KindUnavailable},
	{"context canceled", providers.KindUnavailable},
	{"exec format error", providers.KindInvalid},
}

// byCode is for BuildKit, which speaks gRPC; all other codes are the build's own.
var byCode = map[codes.Code]providers.Kind{
	codes.Unavailable:       providers.KindUnavailable,
	codes.Canceled:          providers.KindUnavailable,
	codes.DeadlineExceeded:  providers.KindUnavailable,
	codes.ResourceExhausted: providers.KindExhausted,
}

// foreign explains the failure of an image that is for another architecture than
// the engine, unless something else is behind it.
func (p *Provider) foreign(img imageConfig, err error) error {
	p.mu.Lock()
	f := p.facts
	p.mu.Unlock()
	if err == nil || f == nil || img.Arch == "" || img.Arch == f.arch || !strings.Contains(err.Error(), "exec format error") {
		return err
	}
	return &providers.Error{Kind: providers.KindUnsupported, Err: &providers.PlatformError{
		Image: "linux/" + img.Arch, Host: "linux/" + f.arch, Err: err,
	}}
}

// fail gives an engine's error a kind. Errors that have one keep it, and a
// context's error stays recognisable.
func (p *Provider) fail(op, id string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var e *providers.Error
	if errors.As(err, &e) {
		if e.Provider != "" {
			return err
		}
		return &providers.Error{Provider: p.name, Op: op, ID: id, Kind: e.Kind, RetryAfter: e.RetryAfter, Death: e.Death, Err: err}
	}
	return &providers.Error{Provider: p.name, Op: op, ID: id, Kind: kindOf(err), Err: err}
}

func kindOf(err error) providers.Kind {
	msg := err.Error()
	for _, row := range byText {
		if strings.Contains(msg, row.text) {
			return row.kind
		}
	}
	for _, row := range byClass {
		if row.is(err) {
			return row.kind
		}
	}
	if kind, ok := byCode[grpcerrors.Code(err)]; ok {
		return kind
	}
	var ne net.Error
	if errors.As(err, &ne) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || strings.Contains(msg, "EOF") {
		return providers.KindUnavailable
	}
	return providers.KindInternal
}
