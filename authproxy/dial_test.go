package authproxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"harborgate/authproxy/internal/wire"
)

// Forbidden, refused and unknown are told apart, and no answer says where the upstream is.
func TestUnreachableUpstreamSaysWhy(t *testing.T) {
	t.Parallel()
	const secret = "10.9.8.7"
	for want, err := range map[string]error{
		"not one that this upstream may have": &net.OpError{Op: "dial", Err: errAddress},
		"no host of that name":                &net.DNSError{Err: "no such host", Name: secret, IsNotFound: true},
		"cannot be looked up":                 &net.DNSError{Err: "server misbehaving", Name: secret, Server: secret},
		"connection is refused":               &net.OpError{Op: "dial", Addr: &net.TCPAddr{IP: net.ParseIP(secret)}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
		"no way to its network":               &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)},
		"certificate is not one":              &tls.CertificateVerificationError{Err: errors.New(secret)},
		"does not answer":                     &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded},
		"":                                    errors.New("something of " + secret),
	} {
		got := whyDown(fmt.Errorf("wrapped: %w", err))
		if !strings.Contains(got, want) || want == "" && got != "" || strings.Contains(got, secret) {
			t.Errorf("%v: %q", err, got)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	r := start(t, once, at("http://"+address))
	a := r.post(messages, ask)
	if a.header.Get(wire.Marker) != string(wire.Down) || !strings.Contains(a.body, "the connection is refused") || strings.Contains(a.body, address) {
		t.Errorf("%+v", a)
	}
	if a.status != http.StatusServiceUnavailable {
		t.Errorf("status %d", a.status)
	}
}

func TestAddressesThatNoUpstreamMayHaveAreNoBaseURL(t *testing.T) {
	t.Parallel()
	for base, c := range map[string]struct {
		local bool
		want  string
	}{
		"https://169.254.169.254/v1":  {true, "none that an upstream may have"},
		"https://[fe80::1]/v1":        {true, "none that an upstream may have"},
		"https://[fd00:ec2::254]/v1":  {false, "none that an upstream may have"},
		"https://0.0.0.0":             {true, "none that an upstream may have"},
		"https://10.1.2.3/v1":         {false, "say so with local: true"},
		"https://127.0.0.1/v1":        {false, "say so with local: true"},
		"http://10.1.2.3:8000/v1":     {true, ""},
		"https://93.184.215.14/v1":    {false, ""},
		"https://models.example.com/": {false, ""},
	} {
		_, err := Upstream{Dialect: wire.OpenAI, BaseURL: base, Local: c.local}.base()
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", base, err, c.want)
		}
	}
}
