package packages

import (
	"slices"
	"strings"
)

// environment is what registries' clients get to know: their own settings, and how
// to reach the network. Keys are none of their business.
func environment(all []string) []string {
	var out []string
	for _, pair := range all {
		name, _, _ := strings.Cut(pair, "=")
		starts := func(prefix string) bool { return strings.HasPrefix(strings.ToLower(name), prefix) }
		if slices.Contains([]string{
			"PATH", "HOME", "TMPDIR", "LANG", "XDG_CONFIG_HOME", "XDG_CACHE_HOME",
			"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
		}, name) || slices.ContainsFunc([]string{"npm_config_", "pip_", "uv_"}, starts) || strings.HasSuffix(strings.ToLower(name), "_proxy") {
			out = append(out, pair)
		}
	}
	return out
}
