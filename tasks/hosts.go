package tasks

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

var hostPattern = regexp.MustCompile(`^(\*\.)?([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`)

// ParseHost checks and normalises one entry of an allow list: a host name, a
// name with a leading "*.", an IP address or a strict CIDR.
func ParseHost(s string) (string, error) {
	host := strings.ToLower(strings.TrimSpace(s))
	if addr, err := netip.ParseAddr(host); err == nil && addr.Zone() == "" {
		return addr.String(), nil
	}
	if prefix, err := netip.ParsePrefix(host); err == nil {
		if prefix != prefix.Masked() {
			return "", fmt.Errorf("host %q has bits set beyond its mask, write %s", s, prefix.Masked())
		}
		return prefix.String(), nil
	}
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	if len(host) > 253 || !hostPattern.MatchString(host) || strings.Trim(last, "0123456789") == "" {
		return "", fmt.Errorf("host %q is none: write a host name, *.name, an IP address or a CIDR, without scheme, port or path", s)
	}
	return host, nil
}
