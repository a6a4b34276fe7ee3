package packages

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
)

// ClientSettings are registries and certificates that the configuration files of this
// host's npm and pip name, as the variables that would say the same. A client that is
// not there says nothing.
func ClientSettings(ctx context.Context) []string {
	return append(npmSettings(output(ctx, "npm", "config", "list", "--json")), pipSettings(output(ctx, "python3", "-m", "pip", "config", "list"))...)
}

func output(ctx context.Context, program string, args ...string) []byte {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = environment(os.Environ())
	out, err := cmd.Output()
	if err != nil {
		return nil
	}
	return out
}

// npmSettings reads the list in JSON, which has defaults, too, and no credentials.
func npmSettings(list []byte) []string {
	var settings struct{ Registry, Cafile string }
	_ = json.Unmarshal(list, &settings) // what is no list has none
	return pairs([][2]string{{"npm_config_registry", settings.Registry}, {"npm_config_cafile", settings.Cafile}})
}

// pipSettings reads lines like global.index-url='https://…'.
func pipSettings(list []byte) []string {
	names := map[string]string{
		"index-url": "PIP_INDEX_URL", "extra-index-url": "PIP_EXTRA_INDEX_URL", "trusted-host": "PIP_TRUSTED_HOST", "cert": "PIP_CERT",
	}
	var out [][2]string
	for line := range strings.Lines(string(list)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		section, key, _ := strings.Cut(key, ".")
		if name := names[key]; name != "" && !strings.HasPrefix(section, ":") { // that are variables already
			out = append(out, [2]string{name, strings.TrimSpace(strings.ReplaceAll(strings.Trim(value, `'"`), `\n`, " "))})
		}
	}
	return pairs(out)
}

func pairs(settings [][2]string) []string {
	var out []string
	for _, s := range settings {
		if s[1] != "" {
			out = append(out, s[0]+"="+s[1])
		}
	}
	return out
}
