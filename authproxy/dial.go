package authproxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// errAddress is the error of a connection to where none may go.
var errAddress = errors.New("the address is not one that this upstream may have")

// reachable reports whether an upstream may be at an address. It is asked for the
// address that is dialled, behind all name resolution. Link-local addresses, where
// clouds keep their metadata, are nobody's model API.
func reachable(a netip.Addr, local bool) bool {
	a = a.Unmap()
	if nat64 := netip.MustParsePrefix("64:ff9b::/96"); nat64.Contains(a) {
		b := a.As16()
		a = netip.AddrFrom4([4]byte(b[12:]))
	}
	if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast() ||
		a == netip.MustParseAddr("fd00:ec2::254") || a == netip.MustParseAddr("255.255.255.255") {
		return false
	}
	shared := netip.MustParsePrefix("100.64.0.0/10") // carriers' and clouds' own
	private := a.IsLoopback() || a.IsPrivate() || shared.Contains(a) || netip.MustParsePrefix("0.0.0.0/8").Contains(a)
	return local || !private
}

// whyDown says behind "cannot be reached" why, without an address, which is the host's
// own affair; "" is not known.
func whyDown(err error) string {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var network net.Error
	switch {
	case errors.Is(err, errAddress):
		return ": " + errAddress.Error()
	case errors.As(err, &dns) && dns.IsNotFound:
		return ": there is no host of that name"
	case errors.As(err, &dns):
		return ": its name cannot be looked up"
	case errors.Is(err, syscall.ECONNREFUSED):
		return ": the connection is refused"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return ": there is no way to its network"
	case errors.As(err, &cert):
		return ": its certificate is not one that this host trusts"
	case errors.As(err, &network) && network.Timeout():
		return ": it does not answer"
	}
	return ""
}

// newTransport returns the transport of one upstream: HTTP/1.1, no proxy from the
// environment, no compression, and no connection to where none may go.
func newTransport(local bool, roots *x509.CertPool) *http.Transport {
	dialer := &net.Dialer{
		Timeout:   10 * time.Second,
		KeepAlive: 30 * time.Second,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil || !reachable(ap.Addr(), local) {
				return errAddress
			}
			return nil
		},
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	const connections = 1024
	return &http.Transport{
		DialContext:            dialer.DialContext,
		Protocols:              &protocols,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConns:           connections,
		MaxIdleConnsPerHost:    connections,
		IdleConnTimeout:        90 * time.Second,
		WriteBufferSize:        12 << 10, // most requests are one write
		DisableCompression:     true,
		MaxResponseHeaderBytes: 256 << 10,
	}
}
