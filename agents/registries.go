package agents

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// registries are how this host reaches registries, for a sandbox that is to do the same.
type registries struct {
	env          map[string]string
	certificates []byte // PEM
}

// passed are variables that an installation gets as they are, in any case.
var passed = []string{
	"npm_config_registry", "npm_config_strict_ssl", "pip_index_url", "pip_extra_index_url", "pip_trusted_host", "pip_default_timeout",
	"http_proxy", "https_proxy", "no_proxy", "all_proxy",
}

// certified are variables that name files of certificates, as many clients as there are.
var certified = []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "npm_config_cafile", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}

// hostRegistries reads them from variables, of which the last counts.
func hostRegistries(environ []string, read func(string) ([]byte, error)) (registries, error) {
	r := registries{env: map[string]string{}}
	seen := map[string]bool{}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		switch {
		case value == "":
		case slices.Contains(passed, strings.ToLower(name)):
			r.env[name] = value
		case slices.Contains(certified, name) && !seen[value]:
			seen[value] = true
			pem, err := read(value)
			if err != nil {
				return r, fmt.Errorf("certificates of %s: %w", name, err)
			}
			r.certificates = append(append(r.certificates, pem...), '\n')
		}
	}
	return r, nil
}

// withCertificates lets every client trust a file, besides the variables that are there.
func withCertificates(env map[string]string, path string) map[string]string {
	out := maps.Clone(env)
	for _, name := range certified {
		out[name] = path
	}
	return out
}

// secrets are credentials in addresses.
func (r registries) secrets() []string {
	var out []string
	for _, value := range r.env {
		for word := range strings.FieldsSeq(value) {
			u, err := url.Parse(word)
			if err != nil || u.User == nil {
				continue
			}
			out = append(out, u.User.String())
			if password, ok := u.User.Password(); ok {
				out = append(out, password)
			}
		}
	}
	return out
}
