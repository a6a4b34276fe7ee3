package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker/docker/client"

	"harborgate/providers"
)

// endpoint decides which engine is meant, as the docker command does: an
// explicit host, an explicit context, DOCKER_HOST, DOCKER_CONTEXT, the current
// context of the configuration file, the default socket.
func endpoint(o Options) ([]client.Opt, error) {
	if o.Host != "" {
		return hostOpts(o.Host, o.TLSDir)
	}
	name := o.Context
	if name == "" && os.Getenv("DOCKER_HOST") != "" {
		if err := sshRefused(os.Getenv("DOCKER_HOST")); err != nil {
			return nil, err
		}
		return []client.Opt{client.FromEnv}, nil
	}
	if name == "" {
		name = os.Getenv("DOCKER_CONTEXT")
	}
	if name == "" {
		name = currentContext()
	}
	if name == "" || name == "default" {
		return []client.Opt{client.FromEnv}, nil
	}
	host, tlsDir, err := readContext(name)
	if err != nil {
		return nil, err
	}
	return hostOpts(host, tlsDir)
}

func hostOpts(host, tlsDir string) ([]client.Opt, error) {
	if err := sshRefused(host); err != nil {
		return nil, err
	}
	opts := []client.Opt{client.WithHost(host)}
	if tlsDir != "" {
		opts = append(opts, client.WithTLSClientConfig(
			filepath.Join(tlsDir, "ca.pem"), filepath.Join(tlsDir, "cert.pem"), filepath.Join(tlsDir, "key.pem")))
	}
	return opts, nil
}

func sshRefused(host string) error {
	if strings.HasPrefix(host, "ssh://") {
		return providers.Errorf(providers.KindUnsupported, "open",
			"engine %s: ssh:// hosts are not supported; forward the socket (ssh -L /tmp/docker.sock:/var/run/docker.sock) and set DOCKER_HOST=unix:///tmp/docker.sock", host)
	}
	return nil
}

func configDir() string {
	if d := os.Getenv("DOCKER_CONFIG"); d != "" {
		return d
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".docker")
}

// currentContext is "" when there is no readable configuration, as for docker.
func currentContext() string {
	b, err := os.ReadFile(filepath.Join(configDir(), "config.json"))
	if err != nil {
		return ""
	}
	var c struct {
		CurrentContext string `json:"currentContext"`
	}
	if json.Unmarshal(b, &c) != nil {
		return ""
	}
	return c.CurrentContext
}

// readContext finds a context where the docker command keeps it: under the
// digest of its name.
func readContext(name string) (host, tlsDir string, err error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	b, err := os.ReadFile(filepath.Join(configDir(), "contexts", "meta", id, "meta.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", providers.Errorf(providers.KindInvalid, "open",
			"docker context %q does not exist: `docker context ls` shows those that do, DOCKER_CONTEXT or `docker context use` chooses one", name)
	}
	if err != nil {
		return "", "", providers.E(providers.KindInvalid, "open", err)
	}
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	if err := json.Unmarshal(b, &meta); err != nil {
		return "", "", providers.E(providers.KindInvalid, "open", fmt.Errorf("docker context %q: %w", name, err))
	}
	host = meta.Endpoints["docker"].Host
	if host == "" {
		return "", "", providers.Errorf(providers.KindInvalid, "open", "docker context %q has no docker endpoint", name)
	}
	tlsDir = filepath.Join(configDir(), "contexts", "tls", id, "docker")
	if _, err := os.Stat(filepath.Join(tlsDir, "ca.pem")); err != nil {
		tlsDir = ""
	}
	return host, tlsDir, nil
}
