package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"
	"time"
)

// reach says why nobody answers at a base URL. It sends nothing.
func reach(ctx context.Context, base string) (problem, next string) {
	const address = "correct its base_url, or what stands between this host and it"
	u, err := url.Parse(base)
	if err != nil {
		return "its base_url cannot be read", address
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	at := net.JoinHostPort(u.Hostname(), port)
	var d interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	} = &net.Dialer{}
	if u.Scheme == "https" {
		d = &tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12}}
	}
	conn, err := d.DialContext(ctx, "tcp", at)
	if err == nil {
		_ = conn.Close()
		return at + " takes connections and does not answer requests, or is not where an upstream may be", "say local: true if it is a server of your own; otherwise try again later"
	}
	return unreachable(at, u.Hostname(), err), address
}

func unreachable(at, host string, err error) string {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Sprintf("there is no host %s", host)
	case errors.As(err, &dns):
		return fmt.Sprintf("the name %s cannot be looked up: %s", host, dns.Err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("nobody listens at %s", at)
	case errors.As(err, &unknown):
		return fmt.Sprintf("the certificate of %s is of nobody whom this host trusts", host)
	case errors.As(err, &cert):
		return fmt.Sprintf("the certificate of %s is not valid: %v", host, cert.Err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("%s does not answer", at)
	}
	return fmt.Sprintf("%s cannot be reached: %v", at, err)
}
